"""The part of a server that is told which streams and consumers it leads."""

from typing import Protocol, final

from headwater.jetstream.consumers.machine import Consumer
from headwater.jetstream.streams.stream import Stream
from headwater.server.core.accounts import Account


class ElectionListener(Protocol):
    """Follows the elections of replicas."""

    def stream_led(self, account: Account, stream: Stream) -> None:
        """Note that this server leads a replicated stream from now on."""
        ...

    def stream_left(self, account: Account, stream: Stream) -> None:
        """Note that this server does not lead a replicated stream any more."""
        ...

    def consumer_led(self, account: Account, consumer: Consumer) -> None:
        """Note that a consumer was created on a stream that this server leads."""
        ...


@final
class NoElections:
    """Follows nothing: the server is in no cluster."""

    __slots__ = ()

    def stream_led(self, account: Account, stream: Stream) -> None:
        """Do nothing."""

    def stream_left(self, account: Account, stream: Stream) -> None:
        """Do nothing."""

    def consumer_led(self, account: Account, consumer: Consumer) -> None:
        """Do nothing."""
