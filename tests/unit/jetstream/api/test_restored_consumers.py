"""Consumers of a backup are looked at as if they were asked for, and written down as if made."""

import json
from random import Random
from typing import Any

import pytest

from headwater.jetstream.api.restored_consumers import (
    AdmittedConsumer,
    admit_consumers,
    write_consumers,
)
from headwater.jetstream.backup.consumer_document import decode_consumer
from headwater.jetstream.backup.consumers import BackedUpConsumer
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.jetstream.streams.stream import Stream
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch
from headwater.store.recovery.opening import create_log, open_log
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy
from tests.kit.api_world import BEGINNING_NS, ApiWorld
from tests.kit.stream_driver import Surrounding

STATE = {
    "delivered": {"consumer_seq": 3, "stream_seq": 3},
    "ack_floor": {"consumer_seq": 1, "stream_seq": 1},
    "pending": {"3": {"Sequence": 3, "Timestamp": BEGINNING_NS}},
    "redelivered": {"3": 1},
}


def found(name: str, *, is_durable: bool = True, **config: Any) -> BackedUpConsumer:
    """A consumer as a backup has it."""
    chosen = {"name": name, "ack_policy": "explicit", **config}
    if is_durable:
        chosen["durable_name"] = name
    return decode_consumer(name, json.dumps({"config": chosen, "state": STATE}).encode())


def admitted(world: ApiWorld, *consumers: BackedUpConsumer) -> list[AdmittedConsumer]:
    return admit_consumers(world.api, world.stream.config, consumers, BEGINNING_NS)


def test_what_is_left_open_is_filled_in() -> None:
    (one,) = admitted(ApiWorld(server_max_ack_pending=7), found("C"))
    config = one.config
    assert (config.max_ack_pending, config.max_deliver, config.ack_wait) == (7, -1, 30 * 10**9)
    # No client requested the consumer, so the server adds nothing to its metadata.
    assert config.metadata == {}


def test_one_that_is_not_durable_stays_so_and_ends_when_nobody_uses_it() -> None:
    (one,) = admitted(ApiWorld(), found("C", is_durable=False))
    assert (one.config.durable_name, one.config.inactive_threshold) == ("", 5 * 10**9)


@pytest.mark.parametrize(
    ("stream", "consumers", "text"),
    [
        ({"max_consumers": 1}, [found("A"), found("B")],
         '"B": maximum consumers limit reached (10026)'),
        ({}, [found("A", num_replicas=3)],
         '"A": consumer config replica count exceeds parent stream (10126)'),
        ({}, [found("a.b")],
         "\"a.b\": consumer name can not contain '.', '*', '>', '\\', '/' (10052)"),
        ({"retention": "workqueue"}, [found("A", ack_policy="all")],
         '"A": workqueue stream requires explicit ack (10098)'),
        ({"retention": "workqueue"}, [found("A", filter_subject="s.a"),
                                      found("B", filter_subject="s.>")],
         '"B": filtered consumer not unique on workqueue stream (10100)'),
        ({"consumer_limits": {"max_ack_pending": 5}}, [found("A", max_ack_pending=6)],
         '"A": consumer max ack pending exceeds system limit of 5 (10121)'),
    ],
)  # fmt: skip
def test_the_stream_may_not_have_them(
    stream: dict[str, Any], consumers: list[BackedUpConsumer], text: str
) -> None:
    with pytest.raises(ApiError) as raised:
        admitted(ApiWorld(stream), *consumers)
    assert raised.value.err_code == 10062
    assert raised.value.description == f"restore failed: failed to add consumer {text}"


def test_what_is_written_down_comes_back_with_the_log() -> None:
    consumers = admitted(
        ApiWorld(), *(found(f"C{number}", description="d" * 2000) for number in range(200))
    )
    fleeting = admitted(ApiWorld(), found("M", mem_storage=True))
    disk = SimDisk()
    log = create_log(disk, "/s", SeededEntropy(Random(1)))
    log.append(Batch([b"s.a"] * 5, [b""] * 5, [b"x"] * 5, [BEGINNING_NS] * 5))
    write_consumers(log, [*consumers, *fleeting])
    log.close()

    opened = open_log(disk, "/s", SeededEntropy(Random(2)))
    stream = Stream(StreamConfig(name="S"), opened, BEGINNING_NS, Surrounding(BatchLimits()))
    stream.recover(BEGINNING_NS)
    adopting = Stream(
        StreamConfig(name="S"), MemoryLog(1), BEGINNING_NS, Surrounding(BatchLimits())
    )
    adopting.log.append(Batch([b"s.a"] * 5, [b""] * 5, [b"x"] * 5, [BEGINNING_NS] * 5))
    for consumer in consumers:
        adopting.consumers.adopt(consumer.entries)
    adopting.recover(BEGINNING_NS)

    assert len(stream.consumers) == 200
    assert stream.consumers.dump() == adopting.consumers.dump()
    state = stream.consumers.find("C7").state
    assert (state.pending, state.redelivered, state.floor_stream) == ({3: 3}, {3: 1}, 1)
