"""Old backups with something wrong inside, where the checksums around them say all is well."""

import base64
import io
import json
import tarfile
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.backup.blocks import decode_index, members
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.backup.filling import Rules
from headwater.jetstream.backup.s2 import BEGINNING, S2Reader, plain_frame
from headwater.jetstream.backup.tar import TarReader
from tests.kit.recorded.record_backups import RECORDED
from tests.unit.jetstream.backup.taking_in import NOW_NS, contents, pieces, taken_in

RULES: Final = Rules(stream_name="S", max_payload=1000, gap_bytes_max=100_000)
META: Final = b'{"name": "S", "Created": "2026-01-02T03:04:05Z"}'
C_FILES: Final = [
    ("obs/C/meta.inf", b'{"Name": "C", "durable_name": "C"}'),
    ("obs/C/meta.sum", b"0123456789abcdef"),
    ("obs/C/o.dat", bytes([22, 2, 0, 0, 0, 0, 0, 0])),
]
RECORDED_BACKUPS: Final = json.loads(RECORDED.read_text())


def record(sequence: int, subject: bytes = b"s", body: bytes = b"", header: bytes = b"") -> bytes:
    """A record of a block; its hash is not looked at."""
    rest = (len(header).to_bytes(4, "little") + header if header else b"") + body + bytes(8)
    length = 22 + len(subject) + len(rest) | (1 << 31 if header else 0)
    return b"".join(
        (
            length.to_bytes(4, "little"),
            sequence.to_bytes(8, "little"),
            NOW_NS.to_bytes(8, "little"),
            len(subject).to_bytes(2, "little"),
            subject,
            rest,
        )
    )


def erased(sequence: int) -> bytes:
    return record(sequence | 1 << 63, b"")


def tombstone(sequence: int) -> bytes:
    return record(sequence | 1 << 62, b"")


def packed(*files: tuple[str, bytes]) -> bytes:
    """A backup of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.mtime = 0.5
            tar.addfile(info, io.BytesIO(data))
    return wrapped(buffer.getvalue())


def wrapped(plain: bytes) -> bytes:
    return BEGINNING + b"".join(map(plain_frame, pieces(plain, 1 << 16)))


def restored(*blocks: bytes) -> tuple[list[int], int]:
    """The sequences that come back from blocks, and the last one given out."""
    files = [(f"msgs/{number}.blk", block) for number, block in enumerate(blocks, 1)]
    _, log = taken_in([packed(("meta.inf", META), *files)], RULES)
    return [message.sequence for message in contents(log)], log.last_sequence


def test_records_erased_and_deleted_are_not_messages() -> None:
    first = record(1) + record(2) + erased(3) + record(4) + record(5)
    second = tombstone(2) + record(6) + tombstone(5) + record(9)
    assert restored(first, second) == ([1, 4, 6, 9], 9)


def test_an_emptied_stream_keeps_its_last_sequence() -> None:
    assert restored(tombstone(7)) == ([], 7)
    assert restored(record(1) + record(2), tombstone(1) + tombstone(2)) == ([], 2)
    assert restored() == ([], 0)


def test_a_sequence_that_comes_again_is_not_taken_twice() -> None:
    assert restored(record(1) + record(2), record(2) + record(3)) == ([1, 2, 3], 3)


def test_header_and_payload_are_told_apart() -> None:
    block = record(1, b"s", b"payload", b"NATS/1.0\r\n\r\n") + record(2, b"s", b"payload")
    _, log = taken_in([packed(("meta.inf", META), ("msgs/1.blk", block))], RULES)
    assert [(found.header, found.payload) for found in contents(log)] == [
        (b"NATS/1.0\r\n\r\n", b"payload"),
        (b"", b"payload"),
    ]


def test_the_time_of_creation_is_in_the_backup() -> None:
    reader, _ = taken_in([packed(("meta.inf", META))], RULES)
    assert reader.created_ns == 1_767_323_045 * 10**9


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ([("msgs/1.blk", record(1))], "no meta.inf"),
        ([("meta.inf", b"{")], "error in meta.inf"),
        ([("meta.inf", b'{"name": "S", "Created": "yesterday"}')], "error in meta.inf"),
        ([("meta.inf", b'{"name": "T"}')], "names do not match"),
        ([("meta.inf", META), ("../../etc/passwd", b"x")], "unexpected content"),
        ([("meta.inf", b"[" * 100_000)], "error in meta.inf"),
        ([("meta.inf", META), ("obs/C/meta.inf", b"{}")], "one of its files is missing"),
        ([("meta.inf", META), *C_FILES[:2], ("obs/D/o.dat", b"")], 'consumer ."C".: one of its'),
        ([("meta.inf", META), *C_FILES, *C_FILES], 'the consumer "C" twice'),
        ([("meta.inf", META), ("obs/C/other", b"")], "unexpected content"),
        ([("meta.inf", META), ("obs/C/D/o.dat", b"")], "unexpected content"),
        ([("meta.inf", META), ("obs//o.dat", b"")], "unexpected content"),
        ([("meta.inf", META), ("obs/\udcff/o.dat", b"")], "unexpected content"),
        ([("meta.inf", META), ("errors.txt", b"disk full")], "not made to its end: disk full"),
        ([("meta.inf", META), ("msgs/1.blk", record(1)[:-1])], "ends within a message"),
        ([("meta.inf", META), ("msgs/1.blk", bytes(30))], "no possible size"),
        ([("meta.inf", META), ("msgs/1.blk", record(1, b"s", bytes(1001)))], "maximum payload"),
        ([("meta.inf", META), ("msgs/1.blk", record(1, b"a b"))], "no valid subject"),
        ([("meta.inf", META), ("msgs/1.blk", record(1) + tombstone(10_000))], "more memory"),
        ([("meta.inf", META), ("msgs/index.db", b"")], "index is not one"),
        ([("meta.inf", META), ("msgs/index.db", b"\x0b\x09")], "unknown version"),
        ([("meta.inf", META), ("msgs/index.db", b"\x0b\x04\x01")], "index is cut short"),
    ],
)
def test_files_that_are_refused(files: list[tuple[str, bytes]], text: str) -> None:
    with pytest.raises(BackupError, match=text):
        taken_in([packed(*files)], RULES)


def test_links_and_folders_are_refused() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("msgs")
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    with pytest.raises(BackupError, match="something else than files"):
        taken_in([wrapped(buffer.getvalue())], RULES)


def test_an_index_says_what_limits_have_removed() -> None:
    """Fields in order: messages, bytes, first, time, last, time, subjects, blocks …"""
    node = (2).to_bytes(8, "little") + (0b101).to_bytes(8, "little") + bytes(31 * 8 + 2)
    deleted = b"\x16\x02" + (1).to_bytes(4, "little") + (2).to_bytes(4, "little") + node
    index = b"\x0b\x04" + bytes([2, 0, 3, 0, 6, 0, 0, 1, 1, 0, 2, 0, 6, 0, 2, 0, 0]) + deleted

    found = decode_index(index)
    block = b"".join(map(record, (1, 2, 3, 4, 6)))
    files = [("meta.inf", META), ("msgs/1.blk", block), ("msgs/index.db", index)]
    _, log = taken_in([packed(*files)], RULES)

    assert (found.messages, found.first_sequence, found.last_sequence) == (2, 3, 6)
    assert found.blocks == [(2, 6)]
    assert [members(each) for each in found.deleted] == [[2, 4]]
    assert [message.sequence for message in contents(log)] == [3, 6]


def test_an_index_that_counts_other_messages_is_noticed() -> None:
    index = b"\x0b\x04" + bytes([3, 0, 1, 0, 2, 0, 0, 1, 1, 0, 1, 0, 2, 0, 0, 0, 0])
    files = [("meta.inf", META), ("msgs/1.blk", record(1) + record(2)), ("msgs/index.db", index)]
    with pytest.raises(BackupError, match="speaks of 3 messages, and it has 2"):
        taken_in([packed(*files)], RULES)


# --- damage ------------------------------------------------------------------------------------


def plain(title: str) -> bytes:
    """The uncompressed bytes of a recorded backup."""
    reader = S2Reader()
    reader.feed(base64.b64decode(RECORDED_BACKUPS[title]["backup"]))
    found = b""
    while (piece := reader.read()) is not None:
        found += piece
    return found


@pytest.mark.parametrize("title", ["2.10.26 HOLES", "2.14.6 HOLES", "2.14.6 CUT", "2.15.1 HOLES"])
def test_wrong_bytes_inside_are_refused_or_make_another_backup(title: str) -> None:
    """Anything but a refusal or a log is a failure."""
    data = plain(title)
    rules = Rules(
        stream_name=RECORDED_BACKUPS[title]["stream"], max_payload=1000, gap_bytes_max=10_000
    )
    interesting = [place for place, byte in enumerate(data) if byte][::9]
    for place in interesting:
        for wrong in (0xFF, data[place] ^ 1):
            changed = data[:place] + bytes([wrong]) + data[place + 1 :]
            try:
                taken_in([wrapped(changed)], rules)
            except BackupError:
                continue


@given(st.binary(max_size=2000), st.integers(1, 600))
def test_garbage_is_no_tar_archive(garbage: bytes, size: int) -> None:
    reader = TarReader()
    try:
        for piece in pieces(garbage, size):
            reader.feed(piece)
            while reader.read() is not None:
                pass
    except BackupError:
        pass


@given(st.binary(max_size=600))
def test_garbage_is_no_index(garbage: bytes) -> None:
    for version in (1, 2, 3, 4):
        try:
            decode_index(b"\x0b" + bytes([version]) + garbage)
        except BackupError:
            continue
