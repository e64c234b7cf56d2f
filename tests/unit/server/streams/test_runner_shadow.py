"""The shadow of a stream that runs sees answers, orders and bytes that are not those of the log."""

import re
from collections.abc import Callable

import pytest

from headwater.jetstream.codec import record_codec
from headwater.jetstream.consumers.records import Acked, Delivered
from headwater.jetstream.group import Group
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record, Removed
from tests.kit.shadows import Shadows, shadowed
from tests.kit.stream_world import StreamWorld


def work() -> StreamWorld:
    """A server whose streams and consumers have records of several kinds in flight."""
    world = StreamWorld()
    world.create("S", subjects=["s.>"], max_msgs_per_subject=2, allow_rollup_hdrs=True)
    world.sync()
    chosen = {"durable_name": "C", "ack_policy": "explicit"}
    world.call("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": chosen})
    for number in range(4):
        world.push("s.a", b"%d" % number, Nats_Msg_Id=str(number))
    world.sync()
    # The sync of this one is under way: the entries behind it share the next.
    world.publish("s.b")
    world.push("s.a")
    world.call("CONSUMER.MSG.NEXT.S.C", {"batch": 1})
    (ack,) = set(re.findall(rb"[$]JS[.]ACK[.]\S+", world.caller.connection.received))
    world.caller.send(b"PUB %b 0\r\n\r\n" % ack)
    world.sync()
    world.call("STREAM.MSG.DELETE.S", {"seq": 4})
    world.push("s.b")
    world.publish("s.c")
    world.sync()
    return world


def run_followed() -> Shadows:
    """The shadows of such a server at its end."""
    with shadowed() as shadows:
        work()
    return shadows


def test_a_stream_that_runs_and_its_shadow_are_equal() -> None:
    assert run_followed().compared == 1


def answer_before(patched: pytest.MonkeyPatch) -> None:
    """Answer publishes before their records are applied."""
    apply = Group._apply_some

    def apply_late(self: Group[Record, object], proposal: Proposal[Record]) -> bool:
        if proposal.has_messages:
            self._driver.release(proposal)
        return apply(self, proposal)

    patched.setattr(Group, "_apply_some", apply_late)


def apply_out_of_order(patched: pytest.MonkeyPatch) -> None:
    """Apply acknowledgements before the deliveries that they are about."""
    advance = Group.advance

    def advance_out_of_order(self: Group[Record, object], index: int) -> None:
        last = [[type(record) for record in each.records] for each in self.in_flight][-2:]
        if last == [[Delivered], [Acked]] and self.in_flight[-1].index <= index:
            second, first = self.in_flight.pop(), self.in_flight.pop()
            first.index, second.index = second.index, first.index
            self.in_flight += [second, first]
        advance(self, index)

    patched.setattr(Group, "advance", advance_out_of_order)


def skip_a_field(patched: pytest.MonkeyPatch) -> None:
    """Have the codec leave out the sequences of a removal."""
    kind, encode = record_codec._ENCODERS[Removed]

    def encode_less(record: Removed) -> bytes:
        return encode(Removed([], record.erase))

    patched.setitem(record_codec._ENCODERS, Removed, (kind, encode_less))


PLANTED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "an answer comes before its records are applied": (answer_before, "an answer comes before"),
    "an ack is applied before its delivery": (apply_out_of_order, "before an earlier one"),
    "a field is not in the bytes": (skip_a_field, "the shadow has another messages"),
}


@pytest.mark.parametrize(("plant", "fault"), PLANTED.values(), ids=PLANTED)
def test_a_server_that_does_otherwise_is_found(
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    fault: str,
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=fault):
        run_followed()
