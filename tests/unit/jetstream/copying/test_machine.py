"""The machine of an origin asks, accepts messages in order, and begins again behind the applied."""

import json
from typing import Any, Final

import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream import error_codes
from headwater.jetstream.api.documents import ErrorDocument
from headwater.jetstream.config.stream_config import StreamConsumerSource
from headwater.jetstream.copying.arrivals import Control
from headwater.jetstream.copying.machine import (
    BACKOFF_NS_MAX,
    JITTER_NS,
    REQUEST_GAP_NS,
    Confirm,
    CopyMachine,
    Phase,
)
from headwater.jetstream.copying.patience import ANSWER_NS, SILENCE_NS
from headwater.jetstream.streams.origin_positions import NOWHERE, Position
from tests.kit.copied_messages import ENTROPY, arrivals, origin_of

NOW_NS: Final = 1_800_000_000 * NS_PER_S


def answer(delivered: int = 0, number: int = 0, floor: int | None = None, **other: Any) -> bytes:
    document = {
        "name": "C",
        "config": {"ack_policy": "none", "deliver_subject": "d"},
        "delivered": {"consumer_seq": number, "stream_seq": delivered},
        "ack_floor": {"stream_seq": delivered if floor is None else floor},
        **other,
    }
    return json.dumps(document).encode()


def machine(is_mirrored: bool = True, **settings: Any) -> CopyMachine:
    return CopyMachine(origin_of(is_mirrored, **settings), ENTROPY, NOW_NS)


def copying(position: Position = NOWHERE, is_mirrored: bool = True) -> CopyMachine:
    made = machine(is_mirrored)
    assert made.run_due(NOW_NS)
    made.ask(position, NOW_NS)
    made.answered(b"", answer(), NOW_NS)
    assert made.phase is Phase.COPYING
    return made


def heartbeat(last: int, stalled: bytes = b"") -> Control:
    line = b"Nats-Consumer-Stalled: %b\r\n" % stalled if stalled else b""
    header = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\n%b\r\n" % (last, line)
    return Control(header, None)


class TestAnswers:
    def test_a_refusal_is_told_and_the_origin_is_asked_again(self) -> None:
        made = machine()
        made.ask(NOWHERE, NOW_NS)
        error = {"code": 404, "err_code": 10059, "description": "stream not found"}
        made.answered(b"", json.dumps({"error": error}).encode(), NOW_NS)
        assert made.info(NOW_NS).error == ErrorDocument(404, 10059, "stream not found")
        assert made.phase is Phase.WAITING
        assert not made.run_due(NOW_NS)
        assert made.run_due(NOW_NS + REQUEST_GAP_NS + JITTER_NS)

    def test_requests_for_an_origin_that_is_gone_are_ever_further_apart(self) -> None:
        made, now_ns, waits = machine(), NOW_NS, []
        for _ in range(12):
            made.ask(NOWHERE, now_ns)
            made.answered(b"", b"no document", now_ns)
            waits.append(made.due_ns - now_ns)
            now_ns = made.due_ns
        assert waits == sorted(waits, key=lambda wait: wait // (2 * JITTER_NS))
        assert BACKOFF_NS_MAX <= waits[-1] <= BACKOFF_NS_MAX + JITTER_NS

    def test_a_request_without_an_answer_is_sent_again(self) -> None:
        made = machine()
        made.ask(NOWHERE, NOW_NS)
        assert not made.run_due(NOW_NS + ANSWER_NS - 1)
        made.run_due(NOW_NS + ANSWER_NS)
        assert made.phase is Phase.WAITING

    def test_an_answer_that_comes_late_is_of_no_use(self) -> None:
        made = copying()
        made.answered(b"", b"no document", NOW_NS)
        assert made.phase is Phase.COPYING

    def test_another_stream_of_that_name_is_copied_from_its_beginning(self) -> None:
        made = machine(is_mirrored=False)
        made.ask(Position(9, b"old"), NOW_NS)
        code = error_codes.CONSUMER_STREAM_IDENTITY_MISMATCH.err_code
        made.answered(b"", json.dumps({"error": {"err_code": code}}).encode(), NOW_NS)
        ask = made.ask(Position(9, b"old"), NOW_NS)
        assert b"old" not in ask.header
        assert b"opt_start_seq" not in ask.body
        made.answered(b"NATS/1.0\r\nNats-Stream-Identity: new\r\n\r\n", answer(), NOW_NS)
        assert (made.sequence, made.identity) == (0, b"new")

    def test_a_mirror_does_not_go_on_with_another_stream_of_that_name(self) -> None:
        made = machine()
        made.ask(Position(9, b"old"), NOW_NS)
        code = error_codes.CONSUMER_STREAM_IDENTITY_MISMATCH.err_code
        made.answered(b"", json.dumps({"error": {"err_code": code}}).encode(), NOW_NS)
        told = made.info(NOW_NS).error
        assert told is not None
        assert (made.is_of_another, told.err_code) == (True, code)
        assert b"old" in made.ask(Position(9, b"old"), NOW_NS).header
        made.answered(b"NATS/1.0\r\nNats-Stream-Identity: old\r\n\r\n", answer(), NOW_NS)
        assert not made.is_of_another

    def test_a_named_consumer_has_to_acknowledge_by_flow_control(self) -> None:
        named = StreamConsumerSource(name="C", deliver_subject="d")
        made = machine(consumer=named)
        assert made.ask(NOWHERE, NOW_NS).subject == b"$JS.API.CONSUMER.RESET.O.C"
        made.answered(b"", answer(), NOW_NS)
        assert made.error is not None
        assert made.error.err_code == error_codes.MIRROR_CONSUMER_REQUIRES_ACK_FC.err_code

    def test_a_durable_consumer_goes_back_to_what_was_confirmed(self) -> None:
        made = machine(is_mirrored=False)
        made.ask(NOWHERE, NOW_NS)
        config = {"ack_policy": "flow_control", "deliver_subject": "d"}
        again = made.answered(b"", answer(9, 9, floor=4, config=config), NOW_NS)
        assert again is not None
        assert again.subject == b"$JS.API.CONSUMER.RESET.O.C"
        assert made.answered(b"", answer(4, 0, floor=4, config=config), NOW_NS) is None
        assert (made.phase, made.sequence) == (Phase.COPYING, 4)


class TestMessages:
    def test_are_accepted_in_order(self) -> None:
        made = copying()
        found = made.take(arrivals((3, "a", b""), (5, "a", b""), pending=8), NOW_NS)
        assert found is not None
        assert found.sequences == [3, 5]
        assert (made.sequence, made.lag) == (5, 7)

    def test_that_the_stream_has_are_left_out(self) -> None:
        made = copying(Position(4))
        found = made.take(arrivals((3, "a", b""), (4, "a", b""), (5, "a", b"")), NOW_NS)
        assert found is not None
        assert found.sequences == [5]
        assert made.take(arrivals((5, "a", b""), first_number=4), NOW_NS) is None

    def test_behind_a_gap_are_asked_for_again(self) -> None:
        made = copying()
        made.take(arrivals((1, "a", b"")), NOW_NS)
        assert made.take(arrivals((3, "a", b""), first_number=3), NOW_NS) is None
        assert made.phase is Phase.WAITING
        assert made.sequence == 1

    def test_before_a_gap_count(self) -> None:
        made = copying()
        batch = arrivals((1, "a", b""), (2, "a", b""), (9, "a", b""))
        batch.numbers = [1, 2, 4]
        found = made.take(batch, NOW_NS)
        assert found is not None
        assert found.sequences == [1, 2]
        assert made.phase is Phase.WAITING

    def test_that_go_back_are_a_gap(self) -> None:
        made = copying()
        found = made.take(arrivals((5, "a", b""), (4, "a", b"")), NOW_NS)
        assert found is not None
        assert found.sequences == [5]
        assert made.phase is Phase.WAITING

    def test_of_another_consumer_are_nothing(self) -> None:
        made = copying()
        batch = arrivals((1, "a", b""))
        batch.consumer = b"D"
        assert made.take(batch, NOW_NS) is None
        assert made.phase is Phase.COPYING

    def test_that_are_not_stored_are_asked_for_again(self) -> None:
        made = copying()
        made.take(arrivals((1, "a", b"")), NOW_NS)
        made.not_stored(ErrorDocument(500, 1, "full"), NOW_NS)
        assert (made.phase, made.info(NOW_NS).error) == (
            Phase.WAITING,
            ErrorDocument(500, 1, "full"),
        )


class TestControls:
    def test_a_heartbeat_behind_a_lost_message_shows_the_gap(self) -> None:
        made = copying()
        made.take(arrivals((1, "a", b"")), NOW_NS)
        assert made.control(heartbeat(1), NOW_NS) is None
        phases = [made.phase]
        made.control(heartbeat(2), NOW_NS)
        assert [*phases, made.phase] == [Phase.COPYING, Phase.WAITING]

    def test_a_request_to_confirm_names_the_last_message(self) -> None:
        made = copying()
        made.take(arrivals((4, "a", b""), (6, "a", b"")), NOW_NS)
        assert made.control(Control(b"NATS/1.0 100 F\r\n\r\n", b"fc"), NOW_NS) == Confirm(
            b"fc", 2, 6
        )

    def test_a_stalled_consumer_is_confirmed(self) -> None:
        made = copying()
        made.take(arrivals((4, "a", b"")), NOW_NS)
        assert made.control(heartbeat(1, b"fc"), NOW_NS) == Confirm(b"fc", 1, 4)

    @pytest.mark.parametrize("last", [b"", b"x", b"9" * 40])
    def test_a_heartbeat_of_another_form_is_only_heard(self, last: bytes) -> None:
        made = copying()
        header = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %b\r\n\r\n" % last
        assert made.control(Control(header, None), NOW_NS + 5) is None
        assert (made.phase, made.heard_ns) == (Phase.COPYING, NOW_NS + 5)

    def test_silence_has_the_origin_asked_again(self) -> None:
        made = copying()
        made.control(heartbeat(0), NOW_NS + NS_PER_S)
        made.run_due(NOW_NS + SILENCE_NS)
        phases = [made.phase]
        made.run_due(NOW_NS + NS_PER_S + SILENCE_NS)
        assert [*phases, made.phase] == [Phase.COPYING, Phase.WAITING]


class TestInfo:
    def test_an_origin_that_was_never_heard_of_is_not_active(self) -> None:
        assert machine().info(NOW_NS).active == -1

    def test_the_time_since_the_last_sign_is_told(self) -> None:
        made = copying()
        made.take(arrivals((4, "a", b"")), NOW_NS)
        info = made.info(NOW_NS + 7)
        assert (info.name, info.active, info.seq) == ("O", 7, 0)

    def test_a_source_tells_its_sequence(self) -> None:
        made = copying(Position(4, b"id"), is_mirrored=False)
        assert made.info(NOW_NS).seq == 4

    @pytest.mark.parametrize(("pending", "is_near"), [(0, True), (9, True), (10, False)])
    def test_few_messages_behind_is_nearly_caught_up(self, pending: int, is_near: bool) -> None:
        made = copying()
        assert not made.is_nearly_caught_up
        made.take(arrivals((4, "a", b""), pending=pending), NOW_NS)
        assert made.is_nearly_caught_up is is_near
