"""`headwater store tail` on real folders."""

import json
from pathlib import Path

import pytest

from headwater.cli.commands import run
from headwater.jetstream.codec.log_entries import encode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.records import Published
from headwater.runtime.entropy import SystemEntropy
from headwater.runtime.filesystem import SystemFileSystem, boot_id
from headwater.store.disk.cipher import Cipher, ServerKey, StretchingCost
from headwater.store.disk.encoding import Encoding
from headwater.store.groups.frames import GroupEntry
from headwater.store.groups.lost_tails import encode_tail
from headwater.store.log.message_log import Batch
from headwater.store.store import open_store

CHEAP = StretchingCost(10, 8, 1)


def lose(folder: Path, encoding: Encoding | None = None) -> None:
    """A store with a stream that has lost two messages."""
    store = open_store(
        SystemFileSystem(), str(folder), SystemEntropy(), boot_id(), encoding=encoding
    )
    log = store.create_stream("A/ORDERS")
    batch = Batch([b"o.1", b"o.2"], [b"", b""], [b"one", b"tw\x1bo"], [1, 2])
    data = encode_entry(RecordCodec(log.record_seed), [Published(7, batch)])
    entries = [GroupEntry(12, 3, 0, 1, 0, data)]
    log.set_aside("tail-12", encode_tail(log.record_seed, entries))
    store.close()


def test_the_messages_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lose(tmp_path / "jetstream")
    assert run(["store", "tail", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[:3] for line in lines] == [
        ["A/ORDERS", "7", "o.1"],
        ["A/ORDERS", "8", "o.2"],
    ]
    assert lines[0].endswith("one")
    assert "\x1b" not in lines[1]


def test_json_has_all_of_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lose(tmp_path)
    assert run(["store", "tail", str(tmp_path), "ORDERS", "--json"]) == 0
    first, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert first.pop("file").endswith("/set-aside/tail-12.0")
    assert first == {
        "stream": "A/ORDERS",
        "sequence": 7,
        "subject": "o.1",
        "header": "",
        "payload": b"one".hex(),
        "time_ns": 1,
    }


def test_other_streams_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lose(tmp_path)
    assert run(["store", "tail", str(tmp_path), "EVENTS"]) == 0
    assert capsys.readouterr().out == ""


def test_an_encrypted_tail_is_read_with_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = ServerKey("secret", None, Cipher.CHACHA20_POLY1305, CHEAP)
    lose(tmp_path / "store", Encoding(server_key=key))
    (tmp_path / "key").write_text("secret\n")
    arguments = [str(tmp_path / "store"), "--key-file", str(tmp_path / "key")]
    assert run(["store", "tail", *arguments]) == 0
    assert "one" in capsys.readouterr().out


def test_a_damaged_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lose(tmp_path)
    (path,) = tmp_path.rglob("tail-12.0")
    path.write_bytes(path.read_bytes()[:-1])
    assert run(["store", "tail", str(tmp_path)]) == 1
    assert "tail-12.0" in capsys.readouterr().err
