"""The account as the host of a stream."""

from headwater.jetstream.streams.host import Host
from headwater.store.log.message_log import Batch
from tests.kit.api_world import ApiWorld


def test_an_account_counts_the_bytes_of_its_streams_when_they_say_so() -> None:
    world = ApiWorld({"storage": "memory"})
    host: Host = world.account
    stream = world.stream
    stream.log.append(Batch([b"s.a"], [b""], [b"x"], [1]))
    storage = stream.config.storage
    assert world.account.used_bytes(storage) == 0
    host.update_usage(stream)
    assert world.account.used_bytes(storage) == stream.log.byte_count > 0
    assert host.server.usage.used(storage) == stream.log.byte_count
