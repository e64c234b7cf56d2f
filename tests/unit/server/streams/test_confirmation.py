"""The confirmation of linearizable reads, by the server that leads a stream or does not."""

from collections.abc import Callable

from headwater.server.streams.confirmation import NOT_LED, SOLE, Confirmation


class Led:
    """The reads of a group whose quorum is asked, or whose lease is over after the read."""

    def __init__(self, uses_rounds: bool) -> None:
        self.uses_rounds = uses_rounds
        self.asked: list[bytes] = []

    def may_begin(self, identity: bytes) -> bool:
        return True

    def when_confirmed(self, identity: bytes, answer: Callable[[bool], object]) -> None:
        self.asked.append(identity)

    def holds(self, identity: bytes) -> bool:
        return False


def outcome(confirmation: Confirmation) -> list[bool]:
    """Whether a read is made, as soon as that is known."""
    told: list[bool] = []
    confirmation.when_confirmed(told.append)
    return told


def test_the_only_server_of_a_stream_confirms_every_read_at_once() -> None:
    assert SOLE.may_begin()
    assert SOLE.is_immediate
    assert outcome(SOLE) == [True]
    assert SOLE.holds()


def test_a_server_that_does_not_lead_confirms_no_read() -> None:
    assert not NOT_LED.may_begin()
    assert outcome(NOT_LED) == [False]
    assert not NOT_LED.holds()


def test_the_reads_of_a_group_are_asked_by_its_name() -> None:
    led = Led(uses_rounds=True)
    confirmation = Confirmation(led, b"group")
    assert not confirmation.is_immediate
    assert outcome(confirmation) == []
    assert led.asked == [b"group"]
    assert confirmation.may_begin()
    assert not confirmation.holds()
    assert Confirmation(Led(uses_rounds=False), b"group").is_immediate
