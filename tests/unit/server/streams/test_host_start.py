"""Streams come back when a server starts."""

import pytest

from headwater.jetstream.streams import file as stream_file
from headwater.server.streams.storage import stream_store
from tests.kit.stored_world import StoredWorld


def test_the_configuration_of_each_stream_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a configuration takes longer than opening the log of a small stream."""
    world = StoredWorld().start()
    for name in ("A", "B", "C"):
        world.create(name, compression="s2")
    read: list[str] = []

    def counted(data: bytes, name: str) -> stream_file.StreamBody:
        read.append(name)
        return stream_file.decode_body(data, name)

    monkeypatch.setattr(stream_store, "decode_body", counted)
    after = world.after_restart().start()
    assert sorted(read) == ["$G/A", "$G/B", "$G/C"]
    assert after.request("$JS.API.STREAM.INFO.B")["config"]["compression"] == "s2"
