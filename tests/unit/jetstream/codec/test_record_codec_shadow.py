"""The shadow replica of the tests sees a codec that leaves out a field."""

from collections.abc import Callable
from typing import Any, Final, get_args

import pytest

from headwater.base.clock import NS_PER_S
from headwater.base.errors import ProgrammerError
from headwater.jetstream.codec.record_codec import AnyRecord, RecordCodec
from headwater.jetstream.config.consumer_config import AckPolicy, DeliverPolicy, PriorityPolicy
from headwater.jetstream.config.stream_config import Retention, Storage, StreamSource
from headwater.jetstream.consumers.records import Dropped, Forgotten
from headwater.jetstream.records import Published, Record
from tests.kit.consumer_driver import ConsumerDriver
from tests.kit.copied_messages import arrivals, source


def publish_and_remove(driver: ConsumerDriver) -> None:
    """Records of the stream itself."""
    driver.publish("S.a", b"1", Nats_Msg_Id="a")
    driver.publish("S.a", b"2")
    driver.publish("S.a", b"3", Nats_Rollup="sub")
    driver.publish("S.t", b"4", Nats_TTL="5")
    driver.publish("S.t", b"4", Nats_TTL="500")
    driver.fill("S.b", "S.b", "S.c", "S.d", "S.d", "S.e", "S.e")
    driver.purge(b"S.b", keep=1)
    driver.purge(b"S.d", before=10)
    driver.delete(11, 8)
    driver.now_ns += NS_PER_S
    driver.update(max_msgs=100, duplicate_window=NS_PER_S // 2)
    driver.advance(10)
    driver.publish("S.c", b"5")


def consume(driver: ConsumerDriver) -> None:
    """Records of consumers."""
    driver.fill("S.a", "S.a", "S.b", "S.a", "S.b", "S.a")
    driver.create(max_deliver=2, ack_wait=10 * NS_PER_S)
    driver.create("L", deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subject="S.>")
    driver.create(
        "A",
        ack_policy=AckPolicy.ALL,
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=2,
    )
    got = driver.pull(4)
    driver.ack(got[0])
    driver.ack(got[1], payload=b"+WPI")
    driver.advance(3)
    driver.ack(got[2], payload=b"+WPI")
    driver.check()
    driver.advance(11)
    driver.pull(2)
    driver.advance(11)
    driver.pull(5)
    driver.delete(5)
    driver.ack(driver.pull(4, name="A")[2])
    driver.pull(1, name="L")
    driver.change("L", filter_subject="S.b")
    driver.check()
    driver.reset(3, "A")
    driver.create("D")
    driver.drop("D")


def pin(driver: ConsumerDriver) -> None:
    """The record of a pinned client."""
    driver.create(
        priority_groups=("g",),
        priority_policy=PriorityPolicy.PINNED_CLIENT,
        priority_timeout=60 * NS_PER_S,
    )
    driver.fill("S.a")
    driver.pull(1, group="g", expires=30)


def skip(driver: ConsumerDriver) -> None:
    """Messages that no consumer needs, on an interest stream."""
    driver.create(filter_subject="S.needed")
    driver.publish("S.a", b"1", Nats_Msg_Id="a")
    driver.fill("S.needed")
    driver.now_ns += NS_PER_S
    driver.publish("S.needed", b"1")
    driver.publish("S.needed", b"2", Nats_Rollup="sub")
    driver.publish("S.b", b"1", Nats_Msg_Id="b")


def copy(driver: ConsumerDriver) -> None:
    """Messages of a source, with the position up to which it is copied."""
    source(driver, arrivals((5, "a", b"1"), (7, "b", b"2")))


WORK: Final[dict[str, tuple[Callable[[ConsumerDriver], None], dict[str, Any]]]] = {
    "stream": (publish_and_remove, {"allow_rollup_hdrs": True, "allow_msg_ttl": True}),
    "consumers": (consume, {}),
    "pin": (pin, {}),
    "skip": (skip, {"retention": Retention.INTEREST, "allow_rollup_hdrs": True}),
    "copy": (copy, {"sources": (StreamSource(name="O"),)}),
}

# A field of the decoded record that has another value, and the work in which this shows.
LEFT_OUT: Final[dict[str, tuple[str, Any]]] = {
    "Published.first_sequence": ("stream", 1),
    "Published.rolls_up": ("stream", False),
    "Published.batch.subjects": ("stream", b"S.x"),
    "Published.batch.headers": ("stream", b""),
    "Published.batch.payloads": ("stream", b""),
    "Published.batch.timestamps_ns": ("stream", 1),
    "Published.batch.expiries_ns": ("stream", 0),
    "Skipped.first_sequence": ("skip", 9),
    "Skipped.header": ("skip", b""),
    "Skipped.timestamp_ns": ("skip", 0),
    "Removed.sequences": ("stream", []),
    "Purged.pattern": ("stream", b">"),
    "Purged.before": ("stream", 0),
    "Purged.keep": ("stream", 0),
    "ConsumerCreated.name": ("consumers", "x"),
    "ConsumerCreated.created_ns": ("consumers", 0),
    "ConsumerCreated.start_sequence": ("consumers", 0),
    "ConsumerCreated.lasts_until": ("consumers", 0),
    "ConsumerConfigured.name": ("consumers", "C"),
    "ConsumerConfigured.place": ("consumers", 5),
    "ConsumerDeleted.name": ("consumers", "C"),
    "ConsumerReset.name": ("consumers", "C"),
    "ConsumerReset.start_sequence": ("consumers", 1),
    "Delivered.name": ("consumers", "L"),
    "Delivered.again": ("consumers", ()),
    "Delivered.sequences": ("consumers", ()),
    "Delivered.now_ns": ("consumers", 0),
    "Acked.name": ("consumers", "L"),
    "Acked.sequences": ("consumers", ()),
    "Acked.floor": ("consumers", None),
    "Postponed.sequences": ("consumers", [4]),
    "Postponed.sent_ns": ("consumers", [0]),
    "Exhausted.sequences": ("consumers", []),
    "Copied.source": ("copy", b"P > >"),
    "Copied.sequence": ("copy", 1),
    "Copied.identity": ("copy", b""),
    "Copied.last_sequence": ("copy", 9),
    "Pinned.pin_id": ("pin", ""),
    "Pinned.now_ns": ("pin", 0),
}


def run(name: str) -> None:
    work, config = WORK[name]
    driver = ConsumerDriver(Storage.MEMORY, **config)
    work(driver)
    driver.check()


def test_the_work_has_every_record_that_a_stream_proposes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[type] = set()
    decode = RecordCodec.decode

    def noting(self: RecordCodec, data: bytes) -> AnyRecord:
        record = decode(self, data)
        seen.add(type(record))
        return record

    monkeypatch.setattr(RecordCodec, "decode", noting)
    for name in WORK:
        run(name)
    # These follow from changes of the stream.
    assert seen == {*get_args(Record)} - {Dropped, Forgotten}


@pytest.mark.parametrize("field", LEFT_OUT)
def test_a_field_that_the_codec_leaves_out_shows(
    field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, *path = field.split(".")
    name, value = LEFT_OUT[field]
    decode = RecordCodec.decode

    def forgetful(self: RecordCodec, data: bytes) -> AnyRecord:
        record = decode(self, data)
        if type(record).__name__ == kind:
            if isinstance(record, Published) and path[0] == "batch":
                count = len(record.batch.subjects)
                setattr(record.batch, path[1], [value] * count)
            else:
                setattr(record, path[0], value)
        return record

    monkeypatch.setattr(RecordCodec, "decode", forgetful)
    with pytest.raises((AssertionError, ProgrammerError)):
        run(name)
