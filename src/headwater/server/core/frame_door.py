"""The last check of subjects before the server makes frames of its own with them.

Subjects that the decoder cut out of a control line are one word each. A subject that the server
takes from anywhere else, such as a configuration or a message that an older version has stored,
could have a blank or a line end in it, and the receiver would read the bytes that follow as
a frame that nobody sent. The rules for configurations keep these subjects out; this door is for
subjects that got past the rules, and for messages that are on the disk already.
"""

from collections.abc import Callable
from typing import Final, final

from headwater.go.quoting import quote_bytes
from headwater.subjects.grammar import is_one_word

# A stream full of these messages must not fill the log as well; the rest is only counted.
REPORTED_MAX: Final = 32


def _say_nothing(_: str) -> None:
    """The report of a server without a log."""


@final
class FrameDoor:
    """Lets messages of the server's own pass, or withholds them; `report` is told which."""

    __slots__ = ("report", "withheld")

    def __init__(self) -> None:
        self.report: Callable[[str], object] = _say_nothing
        # The number of messages that did not pass.
        self.withheld = 0

    def lets_pass(self, subject: bytes, reply: bytes | None) -> bool:
        """Whether a frame with this subject and reply is one frame."""
        if is_one_word(subject) and (reply is None or is_one_word(reply)):
            return True
        self.withheld += 1
        if self.withheld <= REPORTED_MAX:
            with_reply = "" if reply is None else f" with reply {quote_bytes(reply)}"
            self.report(
                f"A message on {quote_bytes(subject)}{with_reply} was not sent: "
                "no protocol line can carry a blank or a line end in a subject"
            )
        return False

    def lets_all_pass(self, subjects: list[bytes]) -> bool:
        """Whether frames with these subjects are one frame each; nothing is reported."""
        return is_one_word(b"".join(subjects))
