"""The states of a client's connection: a table of states, events and operations.

                       ┌────────── CONNECT ──────────┐
                       ▼                             │
    ANONYMOUS ─────▶ AUTHENTICATING ── ADMIT ──▶ CONNECTED        every state ── CLOSE ──▶ CLOSED
      ▲    │           ▲                             ▲
    WAIVE  REQUIRE     │ CONNECT                     │ ADMIT: another user stands in
      │    ▼           │                             │
    AWAITING_CONNECT ──┴─────────────────────────────┘

A server without credentials lets a client do everything before CONNECT; a server that requires them
looks at nothing but CONNECT. A reload may change the one into the other. A check of a password may
take long, and operations wait meanwhile. CONNECT may come again.

`TRANSITIONS` has the states that follow, `TREATMENTS` the treatment of operations in each state.
Must not know: users, passwords, and the reply to a refused operation.
"""

from enum import Enum
from typing import Final, final

from headwater.base.invariants import check
from headwater.wire.batch import Connect, Malformed, Segment


class State(Enum):
    """The states of a connection."""

    # No CONNECT has come, and the server does not require one.
    ANONYMOUS = "anonymous"
    # No CONNECT has come, and the server requires one.
    AWAITING_CONNECT = "awaiting CONNECT"
    # The credentials of a CONNECT are being checked.
    AUTHENTICATING = "authenticating"
    # The client is a user in an account.
    CONNECTED = "connected"
    CLOSED = "closed"


class Event(Enum):
    """The events that change the state of a connection."""

    # The client sent CONNECT.
    CONNECT = "CONNECT"
    # The server has put the client into its account.
    ADMIT = "admit"
    # The server requires CONNECT from now on.
    REQUIRE = "require CONNECT"
    # The server does not require CONNECT any more.
    WAIVE = "waive CONNECT"
    CLOSE = "close"


class Treatment(Enum):
    """The ways in which an operation of a client is treated."""

    PERFORM = "perform"
    # The client did not say who it is: it needs a user that stands in, or is refused.
    STAND_IN = "stand in"
    # The operation stays in the backlog.
    WAIT = "wait"
    DROP = "drop"


TRANSITIONS: Final[dict[State, dict[Event, State]]] = {
    State.ANONYMOUS: {
        Event.CONNECT: State.AUTHENTICATING,
        Event.REQUIRE: State.AWAITING_CONNECT,
        Event.WAIVE: State.ANONYMOUS,
        Event.CLOSE: State.CLOSED,
    },
    State.AWAITING_CONNECT: {
        Event.CONNECT: State.AUTHENTICATING,
        Event.ADMIT: State.CONNECTED,
        Event.REQUIRE: State.AWAITING_CONNECT,
        Event.WAIVE: State.ANONYMOUS,
        Event.CLOSE: State.CLOSED,
    },
    State.AUTHENTICATING: {
        Event.ADMIT: State.CONNECTED,
        Event.CLOSE: State.CLOSED,
    },
    State.CONNECTED: {
        Event.CONNECT: State.AUTHENTICATING,
        Event.CLOSE: State.CLOSED,
    },
    State.CLOSED: {},
}

# The treatment of CONNECT, and of every other operation.
TREATMENTS: Final[dict[State, tuple[Treatment, Treatment]]] = {
    State.ANONYMOUS: (Treatment.PERFORM, Treatment.PERFORM),
    State.AWAITING_CONNECT: (Treatment.PERFORM, Treatment.STAND_IN),
    State.AUTHENTICATING: (Treatment.WAIT, Treatment.WAIT),
    State.CONNECTED: (Treatment.PERFORM, Treatment.PERFORM),
    State.CLOSED: (Treatment.DROP, Treatment.DROP),
}

_EVERYTHING: Final = (Treatment.PERFORM, Treatment.PERFORM)
_NOTHING_YET: Final = (Treatment.WAIT, Treatment.WAIT)

_CONNECT_BEGINNINGS: Final = (b"C", b"c")


@final
class Session:
    """The state of one connection.

    `performs_all` and `waits` are what the table says of the state, kept because they are asked for
    every batch of operations.
    """

    __slots__ = ("is_greeted", "performs_all", "state", "waits")

    def __init__(self) -> None:
        self._enter(State.ANONYMOUS)
        # The client has been sent INFO after its first PING.
        self.is_greeted = False

    def apply(self, event: Event) -> None:
        """Go to the state that follows; an event that cannot come in this state is a bug."""
        following = TRANSITIONS[self.state].get(event)
        check(following is not None, f"a connection that is {self.state.value} met {event.value}")
        assert following is not None
        self._enter(following)

    def treatment(self, is_connect: bool) -> Treatment:
        """The treatment of CONNECT, or of another operation."""
        of_connect, of_others = TREATMENTS[self.state]
        return of_connect if is_connect else of_others

    def _enter(self, state: State) -> None:
        self.state = state
        self.performs_all = TREATMENTS[state] == _EVERYTHING
        self.waits = TREATMENTS[state] == _NOTHING_YET


def begins_connect(segment: Segment) -> bool:
    """Whether a segment is CONNECT, or malformed and would have been: its first byte decides."""
    if isinstance(segment, Malformed):
        return segment.operation in _CONNECT_BEGINNINGS
    return isinstance(segment, Connect)


def may_begin_connect(beginning: bytes) -> bool:
    """Whether the first byte of an unfinished operation may be that of CONNECT."""
    return beginning in _CONNECT_BEGINNINGS
