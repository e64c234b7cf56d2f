"""Messages of an origin are read from their reply subjects, and nothing else is taken for one."""

import pytest

from headwater.jetstream.copying.arrivals import Arrivals, Control, arrived_in
from headwater.jetstream.streams.publishing.incoming import Incoming

HEARTBEAT = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 2\r\n\r\n"
HEADER = b"NATS/1.0\r\nA: b\r\n\r\n"


def incoming(*messages: tuple[bytes | None, int, bytes]) -> Incoming:
    found = Incoming()
    for reply, header_size, payload in messages:
        found.add(b"a.b", reply, header_size, payload)
    return found


def reply(sequence: int, number: int, pending: int = 0) -> bytes:
    return b"$JS.ACK.O.C.1.%d.%d.77.%d" % (sequence, number, pending)


def only(found: Incoming) -> Arrivals:
    [arrivals] = arrived_in(found)
    assert isinstance(arrivals, Arrivals)
    return arrivals


def test_neighbours_of_one_consumer_are_read_together() -> None:
    found = only(incoming((reply(3, 1, 5), -1, b"x"), (reply(7, 2, 4), 17, HEADER + b"y")))
    assert (found.sequences, found.numbers, found.pending) == ([3, 7], [1, 2], 4)
    assert (found.headers, found.payloads) == ([b"", HEADER[:17]], [b"x", HEADER[17:] + b"y"])
    assert (found.timestamps_ns, found.consumer) == ([77, 77], b"C")


def test_controls_stand_where_they_came() -> None:
    control = None, len(HEARTBEAT), HEARTBEAT
    message = reply(1, 1), -1, b"x"
    kinds = [type(each) for each in arrived_in(incoming(message, control, message, message))]
    assert kinds == [Arrivals, Control, Arrivals]


def test_the_longer_form_of_a_reply_is_read() -> None:
    found = only(incoming((b"$JS.ACK._.hash.O.C.1.3.1.77.5", -1, b"x")))
    assert (found.sequences, found.consumer, found.pending) == ([3], b"C", 5)


@pytest.mark.parametrize(
    "bad",
    [
        None,
        b"",
        b"inbox",
        b"$JS.ACK.O.C.1.x.1.77.0",
        b"$JS.ACK.O.C.1.3.1.77",
        b"$JS.ACK.O.C.1.-3.1.77.0",
        b"$JS.ACK.O.C.2.3.1.77.0",
        b"$JS.ACK.O.C.1..1.77.0",
        b"$JS.ACK.O.C.1.3.1.77." + b"9" * 40,
        b"$JS.FC.O.C.1.3.1.77.0",
    ],
)
def test_a_message_with_another_reply_is_left_out(bad: bytes | None) -> None:
    found = only(incoming((reply(3, 1), -1, b"x"), (bad, -1, b"y")))
    assert found.payloads == [b"x"]


def test_messages_of_two_consumers_are_told_apart() -> None:
    other = b"$JS.ACK.O.D.1.3.1.77.0"
    found = [*arrived_in(incoming((reply(3, 1), -1, b"x"), (other, -1, b"y")))]
    assert [each.consumer for each in found if isinstance(each, Arrivals)] == [b"C", b"D"]
