"""Fast batches: stored as they come, answered for many at once, ended by gaps or not."""

import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.stream_config import Discard
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.jetstream.streams.publishing.fast_batch import (
    Member,
    Operation,
    is_fast,
    read_member,
)
from tests.kit.stream_driver import Publish, StreamDriver
from tests.unit.jetstream.conftest import Drive

START, APPEND, COMMIT, COMMIT_WITHOUT, PING = Operation


class Publisher:
    """A publisher of one batch."""

    def __init__(self, driver: StreamDriver, batch: str = "b", flow: int = 100, gap: str = "fail"):
        self._driver = driver
        self._words = f"{batch}.{flow}.{gap}"

    def send(self, number: int, operation: Operation, body: bytes = b"x", **headers: str) -> str:
        """Publish a message; returns the answers, one on each line."""
        reply = f"inbox.{self._words}.{number}.{operation}.$FI".encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answers = self._driver.publish_together([Publish("S.a", body, named, reply)])
        assert all(answer.subject == reply for answer in answers)
        return "\n".join(answer.text for answer in answers)


def fast(drive: Drive, limits: BatchLimits | None = None, **config: object) -> StreamDriver:
    return drive(limits, allow_batched=True, **config)


def flow_ack(sequence: int, messages: int) -> str:
    return f'{{"type":"ack","seq":{sequence},"msgs":{messages}}}'


def gap(expected: int, sequence: int) -> str:
    return f'{{"type":"gap","last_seq":{expected},"seq":{sequence}}}'


def ack(sequence: int, count: int, batch: str = "b") -> str:
    return f'{{"stream":"S","seq":{sequence},"batch":"{batch}","count":{count}}}'


# --- reply subjects -------------------------------------------------------------------------------


def test_a_reply_subject_says_what_a_message_is() -> None:
    member = read_member(b"_INBOX.x.y.id.200.ok.7.2.$FI")
    assert member == Member(b"id", 200, True, 7, COMMIT)


@pytest.mark.parametrize(
    ("flow", "asked"), [(b"0", 10), (b"-5", 10), (b"x", 10), (b"1", 1), (b"70000", 65_535)]
)
def test_a_flow_that_is_none_is_ten(flow: bytes, asked: int) -> None:
    member = read_member(b"p.id." + flow + b".ok.1.0.$FI")
    assert member is not None
    assert member.flow == asked


@pytest.mark.parametrize(
    "words",
    [
        b"1.ok.1.0",
        b"p.id.1.maybe.1.0",
        b"p.id.1.ok.0.0",
        b"p.id.1.ok.2.0",
        b"p.id.1.ok.1.1",
        b"p.id.1.ok.1.3",
        b"p.id.1.ok.1.5",
        b"p.id.1.ok.1.x",
        b"p.id.1.ok.1.-1",
        b"p.id.1.ok..0",
        b"p.id.1.ok.%d.1" % (2**64 - 1),
        b"p.id.1.ok.1" + b"0" * 5000 + b".1",
    ],
)
def test_what_is_malformed_is_still_of_a_fast_batch(words: bytes) -> None:
    assert is_fast(words + b".$FI")
    assert read_member(words + b".$FI") is None


def test_a_bare_suffix_is_no_fast_batch() -> None:
    assert not is_fast(b".$FI")
    assert not is_fast(b"inbox.FI")


# --- the usual course -----------------------------------------------------------------------------


def test_a_batch_is_answered_at_its_start_and_at_its_end(drive: Drive) -> None:
    driver = fast(drive)
    publisher = Publisher(driver)
    assert publisher.send(1, START) == flow_ack(0, 100)
    assert driver.sequences == [1], "it is stored as it comes"
    assert publisher.send(2, APPEND) == ""
    assert publisher.send(3, COMMIT) == ack(3, 3)
    assert publisher.send(4, APPEND).count("10208") == 1


def test_a_batch_without_headers_is_seen_in_the_middle_of_a_turn(drive: Drive) -> None:
    driver = fast(drive)
    messages = [
        Publish("S.a", b"x"),
        Publish("S.a", b"x", reply=b"p.b.9.ok.1.2.$FI"),
        Publish("S.a", b"x", reply=None),
    ]
    answers = driver.publish_together(messages)
    assert [answer.text for answer in answers] == ['{"stream":"S","seq":1}', ack(2, 1)]


def test_the_message_that_ends_a_batch_may_be_left_out(drive: Drive) -> None:
    driver = fast(drive)
    publisher = Publisher(driver)
    publisher.send(1, START)
    assert publisher.send(2, COMMIT_WITHOUT) == ack(1, 1)
    assert driver.sequences == [1]


def test_every_so_many_messages_are_answered(drive: Drive) -> None:
    publisher = Publisher(fast(drive), flow=2)
    publisher.send(1, START)
    answers = [publisher.send(number, APPEND) for number in (2, 3, 4, 5)]
    assert answers == [flow_ack(2, 2), "", flow_ack(4, 2), ""]


def test_a_second_batch_begins_slowly_and_doubles(drive: Drive) -> None:
    driver = fast(drive)
    Publisher(driver, "first").send(1, START)
    second = Publisher(driver, "second", flow=4)
    assert second.send(1, START) == "\n".join([flow_ack(0, 1), flow_ack(1, 2)])
    answers = [second.send(number, APPEND) for number in range(2, 8)]
    assert answers == ["", flow_ack(3, 4), "", "", "", flow_ack(7, 4)]


def test_a_batch_slows_down_to_its_share(drive: Drive) -> None:
    driver = fast(drive)
    first = Publisher(driver, "first", flow=500)
    first.send(1, START)
    for number in range(4):
        Publisher(driver, str(number)).send(1, START)
    for number in range(2, 500):
        assert first.send(number, APPEND) == ""
    assert first.send(500, APPEND) == flow_ack(500, 250)


def test_a_ping_repeats_the_last_answer(drive: Drive) -> None:
    driver = fast(drive)
    publisher = Publisher(driver, flow=2)
    publisher.send(1, START)
    assert publisher.send(1, PING) == flow_ack(0, 2)
    publisher.send(2, APPEND)
    assert publisher.send(2, PING) == flow_ack(2, 2)
    assert driver.sequences == [1, 2]


# --- gaps -----------------------------------------------------------------------------------------


def test_a_gap_ends_a_batch_without_gaps(drive: Drive) -> None:
    publisher = Publisher(fast(drive))
    publisher.send(1, START)
    assert publisher.send(3, APPEND) == "\n".join([gap(2, 3), ack(1, 1)])
    assert "10208" in publisher.send(4, APPEND)


def test_a_gap_is_told_where_gaps_are_allowed(drive: Drive) -> None:
    publisher = Publisher(fast(drive), gap="ok")
    publisher.send(1, START)
    assert publisher.send(4, APPEND) == gap(2, 4)
    assert publisher.send(7, COMMIT) == "\n".join([gap(5, 7), ack(3, 7)])


@pytest.mark.parametrize("mode", ["ok", "fail"])
def test_a_sequence_that_comes_again_ends_the_batch(drive: Drive, mode: str) -> None:
    publisher = Publisher(fast(drive), gap=mode)
    publisher.send(1, START)
    publisher.send(2, APPEND)
    assert publisher.send(2, APPEND) == "\n".join([gap(3, 2), ack(2, 2)])


def test_a_ping_shows_a_gap(drive: Drive) -> None:
    publisher = Publisher(fast(drive))
    publisher.send(1, START)
    assert publisher.send(4, PING) == "\n".join([gap(2, 5), ack(1, 1)])


def test_a_ping_passes_a_gap_where_gaps_are_allowed(drive: Drive) -> None:
    publisher = Publisher(fast(drive), gap="ok", flow=3)
    publisher.send(1, START)
    assert publisher.send(4, PING) == "\n".join([gap(2, 5), flow_ack(3, 3)])
    assert publisher.send(5, COMMIT) == ack(2, 5)


# --- errors ---------------------------------------------------------------------------------------


def test_an_error_of_the_first_message_is_a_plain_refusal(drive: Drive) -> None:
    publisher = Publisher(fast(drive))
    flow, refusal = publisher.send(1, START, Nats_Expected_Stream="OTHER").split("\n")
    assert flow == flow_ack(0, 100)
    assert refusal.startswith('{"error":{"code":400,"err_code":10060')
    assert "10208" in publisher.send(2, APPEND)


def test_a_later_error_ends_the_batch_before_it(drive: Drive) -> None:
    publisher = Publisher(fast(drive))
    publisher.send(1, START)
    error, end = publisher.send(2, APPEND, Nats_Expected_Stream="OTHER").split("\n")
    assert error.startswith('{"type":"err","seq":2,"error":{"code":400,"err_code":10060')
    assert end == ack(1, 1)


def test_an_error_is_passed_over_where_gaps_are_allowed(drive: Drive) -> None:
    driver = fast(drive)
    publisher = Publisher(driver, gap="ok")
    assert "err_code" in publisher.send(1, START, Nats_Expected_Stream="OTHER")
    assert '{"type":"err","seq":2' in publisher.send(2, APPEND, Nats_TTL="1")
    assert publisher.send(3, COMMIT) == ack(1, 3)
    assert driver.sequences == [1]


def test_a_wrong_last_id_is_an_error_as_any_other(drive: Drive) -> None:
    publisher = Publisher(fast(drive))
    publisher.send(1, START)
    assert publisher.send(2, APPEND, Nats_Expected_Last_Msg_Id="x").endswith(ack(1, 1))


def test_a_full_stream_ends_a_batch(drive: Drive) -> None:
    driver = fast(drive, max_msgs=1, discard=Discard.NEW)
    publisher = Publisher(driver)
    publisher.send(1, START)
    assert publisher.send(2, COMMIT).endswith(ack(1, 1))


@pytest.mark.parametrize("config", [{"sealed": True}, {"max_msg_size": 0}])
def test_what_keeps_any_message_out_leaves_the_batch(
    drive: Drive, config: dict[str, object]
) -> None:
    driver = fast(drive)
    publisher = Publisher(driver)
    publisher.send(1, START)
    before = driver.config
    driver.update(**config)
    assert '"error"' in publisher.send(2, APPEND)
    driver.update(sealed=False, max_msg_size=before.max_msg_size)
    assert publisher.send(2, COMMIT) == ack(2, 2)


@pytest.mark.parametrize(
    ("batch", "number", "operation", "code"),
    [("b", 2, APPEND, 10208), ("i" * 65, 1, START, 10207), ("b", 1, APPEND, 10206)],
)
def test_a_mistake_is_told(
    drive: Drive, batch: str, number: int, operation: Operation, code: int
) -> None:
    assert f'"err_code":{code}' in Publisher(fast(drive), batch).send(number, operation)


def test_fast_batches_have_to_be_allowed(drive: Drive) -> None:
    assert "10205" in Publisher(drive()).send(1, START)


def test_a_level_that_is_not_met_ends_the_batch(drive: Drive) -> None:
    driver = fast(drive)
    publisher = Publisher(driver)
    publisher.send(1, START, Nats_Required_Api_Level="1")
    assert "Level" not in driver.stream.log.get(1).header.decode()  # type: ignore[union-attr]
    assert "10185" in publisher.send(2, APPEND, Nats_Required_Api_Level="99")
    assert "10208" in publisher.send(3, APPEND)


def test_a_stream_without_acks_tells_flow_and_end(drive: Drive) -> None:
    publisher = Publisher(fast(drive, no_ack=True), flow=2)
    assert publisher.send(1, START) == ""
    assert publisher.send(2, APPEND) == flow_ack(2, 2)
    assert publisher.send(4, APPEND) == "\n".join([gap(3, 4), ack(2, 2)])
    assert publisher.send(5, APPEND) == ""


# --- duplicates -----------------------------------------------------------------------------------


def test_a_duplicate_counts_and_is_not_stored(drive: Drive) -> None:
    driver = fast(drive)
    publisher = Publisher(driver, flow=2)
    publisher.send(1, START, Nats_Msg_Id="a")
    assert publisher.send(2, APPEND, Nats_Msg_Id="a") == flow_ack(2, 2)
    assert publisher.send(3, COMMIT, Nats_Msg_Id="a") == ack(1, 3)
    assert driver.sequences == [1]


def test_a_batch_of_one_duplicate_is_acked_as_such(drive: Drive) -> None:
    driver = fast(drive)
    driver.publish("S.a", Nats_Msg_Id="a")
    answer = Publisher(driver).send(1, COMMIT, Nats_Msg_Id="a")
    assert answer == '{"stream":"S","seq":1,"duplicate": true,"batch":"b","count":1}'
    assert Publisher(driver, gap="ok").send(1, COMMIT, Nats_Msg_Id="a") == ack(0, 1)


# --- limits ---------------------------------------------------------------------------------------


def test_open_batches_have_a_limit(drive: Drive) -> None:
    driver = fast(drive, BatchLimits(per_stream_max=1))
    first, second = Publisher(driver, "first"), Publisher(driver, "second")
    first.send(1, START)
    assert "10211" in second.send(1, START)
    first.send(2, COMMIT)
    assert second.send(1, START) == flow_ack(0, 100)


def test_a_silent_batch_is_forgotten(drive: Drive) -> None:
    driver = fast(drive, BatchLimits(idle_ns_max=5 * NS_PER_S, total_max=1))
    publisher = Publisher(driver)
    publisher.send(1, START)
    driver.advance(4)
    publisher.send(1, PING)
    driver.advance(4.9)
    assert publisher.send(2, APPEND) == ""
    driver.advance(5)
    assert "10208" in publisher.send(3, APPEND)
    assert driver.abandoned == [], "what it stored stays, so nobody has to be told"
    assert publisher.send(1, START) == flow_ack(0, 100)
    driver.stream.publishing.drop_batches()
    assert publisher.send(1, START) == flow_ack(0, 100), "a stream that ends leaves no batch behind"
