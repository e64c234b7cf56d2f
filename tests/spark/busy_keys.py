"""Keys of a bucket that are put all the time."""

from contextlib import AbstractContextManager

from tests.kit.stream_servers import Message, Server
from tests.spark.hot_keys import Writer, written_by

KEYS = [f"k{number}" for number in range(10)]


def puts(*keys: str) -> list[Message]:
    return [Message(f"$KV.b.{key}", b"x") for key in keys]


def busy_writer(server: Server) -> AbstractContextManager[Writer]:
    """Puts all keys, round after round, as fast as it can."""
    return written_by(Writer(server, lambda publish: publish(puts(*KEYS))))
