"""The three roots of every exception we raise.

HeadwaterError
├── ProgrammerError   we called ourselves wrongly: crash, never catch
├── OperatingError    the world refused (disk, port, configuration): typed, reported, survivable
└── PeerError         the other side broke a rule: carries the text to answer with
"""


class HeadwaterError(Exception):
    """Root of all."""


class ProgrammerError(HeadwaterError):
    """A bug in this program."""


class OperatingError(HeadwaterError):
    """The machine or its operator made this impossible; the message says what to do next."""


class PeerError(HeadwaterError):
    """The other side sent something that it must not send.

    `reply` is the text on the wire, without quotes or the `-ERR` before it.
    """

    def __init__(self, reply: str) -> None:
        super().__init__(reply)
        self.reply = reply
