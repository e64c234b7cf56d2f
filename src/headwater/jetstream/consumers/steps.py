"""The steps of a consumer, as values: what its clients and its clock do to it.

A runner hands steps to consumers (`Consumer.step`), at once or later in the order of their arrival.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias, final

from headwater.jetstream.consumers.acks import AckAddress


@final
class Deliver:
    """There may be messages to send, or receivers for them."""

    __slots__ = ()


@final
class PlainAcks:
    """Acknowledgements without a word, of a consumer for which only the sequences matter."""

    __slots__ = ("replies", "sequences")

    def __init__(self, sequences: Sequence[int], replies: Sequence[bytes | None]) -> None:
        self.sequences = sequences
        self.replies = replies


@final
class Acks:
    """Acknowledgements of any kind."""

    __slots__ = ("addresses", "payloads", "replies")

    def __init__(
        self,
        addresses: Sequence[AckAddress],
        replies: Sequence[bytes | None],
        payloads: Sequence[bytes],
    ) -> None:
        self.addresses = addresses
        self.replies = replies
        self.payloads = payloads


@final
class Pull:
    """A request for messages."""

    __slots__ = ("body", "reply")

    def __init__(self, reply: bytes, body: bytes) -> None:
        self.reply = reply
        self.body = body


@final
class FlowReply:
    """An answer to a flow control request."""

    __slots__ = ("header", "subject")

    def __init__(self, subject: bytes, header: bytes) -> None:
        self.subject = subject
        self.header = header


@final
class Interest:
    """A subscription matches the deliver subject, or none does."""

    __slots__ = ("is_there",)

    def __init__(self, is_there: bool) -> None:
        self.is_there = is_there


@final
class Timer:
    """The earliest timer of the consumer has fired."""

    __slots__ = ()


@final
class Unpinned:
    """An administrator has unpinned the client, so that another one is pinned."""

    __slots__ = ()


Step: TypeAlias = Deliver | PlainAcks | Acks | Pull | FlowReply | Interest | Timer | Unpinned

DELIVER: Final = Deliver()
TIMER: Final = Timer()
UNPINNED: Final = Unpinned()
