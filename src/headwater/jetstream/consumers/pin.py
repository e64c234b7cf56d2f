"""The pin of a consumer, by which one client of a priority group gets all messages.

The client that is pinned has an id, which is recorded. It loses the pin when it is silent for the
priority timeout, when the message it was pinned for does not fit, or when an administrator asks.
"""

from typing import Final, final

from headwater.base.entropy import Entropy
from headwater.base.ids import base62
from headwater.jetstream.consumers.effects import ClientPinned, ClientUnpinned
from headwater.jetstream.consumers.records import Pinned
from headwater.jetstream.consumers.state_machine import StateMachine
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record

PIN_ID_SIZE: Final = 22


@final
class Pin:
    """Pins clients to one consumer."""

    __slots__ = ("_entropy", "_machine")

    def __init__(self, machine: StateMachine, entropy: Entropy) -> None:
        self._machine = machine
        self._entropy = entropy

    @property
    def pin_id(self) -> str:
        """The id of the pinned client; empty if no client is pinned."""
        return self._machine.state.pin_id

    def pin(self, group: str, now_ns: int, out: Proposal[Record]) -> str:
        """Pin a new client. Returns its id."""
        pin_id = base62(self._entropy, PIN_ID_SIZE)
        self._machine.record(Pinned(self._machine.name, pin_id, now_ns), out)
        self.keep_pinned(now_ns)
        out.tell(self._machine.name, ClientPinned(group, pin_id))
        return pin_id

    def keep_pinned(self, now_ns: int) -> None:
        """Restart the timeout of the pinned client."""
        self._machine.pin_ends_ns = now_ns + self._machine.config.priority_timeout

    def unpin_unserved(self, out: Proposal[Record]) -> None:
        """Unpin the client that was just pinned, because it got no message."""
        self._machine.pin_ends_ns = 0
        self._machine.record(Pinned(self._machine.name, "", 0), out)

    def unpin_silent(self, now_ns: int, out: Proposal[Record]) -> None:
        """Unpin the client that was silent for the priority timeout."""
        if self._machine.state.pin_id:
            self._machine.record(Pinned(self._machine.name, "", now_ns), out)
        self._tell_unpinned("timeout", out)

    def follow_unpin(self, out: Proposal[Record]) -> None:
        """Follow the record by which an administrator has unpinned the client."""
        self._tell_unpinned("admin", out)

    def _tell_unpinned(self, reason: str, out: Proposal[Record]) -> None:
        self._machine.pin_ends_ns = 0
        event = ClientUnpinned(self._machine.config.priority_groups[0], reason)
        out.tell(self._machine.name, event)
