"""The states of a connection: their order, and the operations performed in each."""

from itertools import product

import pytest

from headwater.base.invariants import InvariantViolation
from headwater.wire.batch import (
    ClientError,
    Connect,
    Malformed,
    Meaningless,
    Ping,
    Pong,
    Publishes,
    Run,
    Segment,
    Subscribe,
    Unsubscribe,
)
from headwater.wire.session import (
    TRANSITIONS,
    TREATMENTS,
    Event,
    Session,
    State,
    Treatment,
    begins_connect,
    may_begin_connect,
)

LIVING = [state for state in State if state is not State.CLOSED]


def session_in(*events: Event) -> Session:
    """A session after some events."""
    session = Session()
    for event in events:
        session.apply(event)
    return session


WAYS: dict[State, tuple[Event, ...]] = {
    State.ANONYMOUS: (),
    State.AWAITING_CONNECT: (Event.REQUIRE,),
    State.AUTHENTICATING: (Event.CONNECT,),
    State.CONNECTED: (Event.CONNECT, Event.ADMIT),
    State.CLOSED: (Event.CLOSE,),
}


def test_both_tables_have_every_state() -> None:
    assert set(TRANSITIONS) == set(TREATMENTS) == set(WAYS) == set(State)


@pytest.mark.parametrize("state", State)
def test_every_state_is_reached(state: State) -> None:
    assert session_in(*WAYS[state]).state is state


@pytest.mark.parametrize(("state", "event"), [*product(State, Event)])
def test_an_event_leads_to_the_state_in_the_table_or_is_a_bug(state: State, event: Event) -> None:
    session = session_in(*WAYS[state])
    following = TRANSITIONS[state].get(event)
    if following is None:
        with pytest.raises(InvariantViolation, match=f"{state.value} met {event.value}"):
            session.apply(event)
        assert session.state is state
    else:
        session.apply(event)
        assert session.state is following


@pytest.mark.parametrize("state", LIVING)
def test_a_connection_may_be_closed_in_every_state(state: State) -> None:
    assert TRANSITIONS[state][Event.CLOSE] is State.CLOSED


def test_a_closed_connection_stays_closed() -> None:
    assert TRANSITIONS[State.CLOSED] == {}


@pytest.mark.parametrize(
    ("state", "of_connect", "of_others"),
    [
        (State.ANONYMOUS, Treatment.PERFORM, Treatment.PERFORM),
        (State.AWAITING_CONNECT, Treatment.PERFORM, Treatment.STAND_IN),
        (State.AUTHENTICATING, Treatment.WAIT, Treatment.WAIT),
        (State.CONNECTED, Treatment.PERFORM, Treatment.PERFORM),
        (State.CLOSED, Treatment.DROP, Treatment.DROP),
    ],
)
def test_operations_are_treated_by_the_state(
    state: State, of_connect: Treatment, of_others: Treatment
) -> None:
    session = session_in(*WAYS[state])
    assert session.treatment(is_connect=True) is of_connect
    assert session.treatment(is_connect=False) is of_others


@pytest.mark.parametrize("state", State)
def test_the_quick_answers_are_those_of_the_table(state: State) -> None:
    session = session_in(*WAYS[state])
    treatments = {session.treatment(is_connect) for is_connect in (True, False)}
    assert session.performs_all is (treatments == {Treatment.PERFORM})
    assert session.waits is (treatments == {Treatment.WAIT})


def test_a_second_connect_is_checked_as_the_first_was() -> None:
    again = session_in(Event.CONNECT, Event.ADMIT, Event.CONNECT)
    assert again.state is State.AUTHENTICATING


def test_a_user_that_stands_in_makes_a_client_connected() -> None:
    assert session_in(Event.REQUIRE, Event.ADMIT).state is State.CONNECTED


def test_a_reload_that_requires_credentials_concerns_only_clients_without_connect() -> None:
    assert session_in(Event.REQUIRE, Event.WAIVE).state is State.ANONYMOUS
    assert Event.REQUIRE not in TRANSITIONS[State.CONNECTED]


@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        (Connect(b"{}"), True),
        (Malformed("", "too long", b"C"), True),
        (Malformed("", "too long", b"c"), True),
        (Malformed("", "unknown", b"P"), False),
        (Malformed("", "unknown", b""), False),
        (Publishes([], [], [], [], []), False),
        (Run(b"s", None, -1, b"1", [b"x"]), False),
        (Subscribe(b"s", None, b"1"), False),
        (Unsubscribe(b"1", -1), False),
        (Ping(), False),
        (Pong(), False),
        (ClientError(b"x"), False),
        (Meaningless(), False),
    ],
)
def test_the_first_byte_decides_whether_a_segment_is_connect(
    segment: Segment, expected: bool
) -> None:
    assert begins_connect(segment) is expected


@pytest.mark.parametrize(("beginning", "expected"), [(b"C", True), (b"c", True), (b"P", False)])
def test_the_first_byte_decides_before_the_operation_is_whole(
    beginning: bytes, expected: bool
) -> None:
    assert may_begin_connect(beginning) is expected
