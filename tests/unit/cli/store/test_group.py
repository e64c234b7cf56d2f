"""`headwater store inspect` and `verify` on real folders: what they tell; that they only read."""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.base.checksums import crc32
from headwater.cli.commands import run
from headwater.cli.store.opening import store_reader
from headwater.cli.store.read_only_files import DecodedFiles, ReadOnlyError, lock_holder
from headwater.cli.streams.archive import BEGINNINGS, DATA_FILE, archive_writer
from headwater.runtime.entropy import SystemEntropy
from headwater.runtime.filesystem import SystemFileSystem, boot_id
from headwater.store.disk.cipher import Cipher, ServerKey, StretchingCost
from headwater.store.disk.encoding import Encoding
from headwater.store.disk.format import HEADER_BYTES, RECORD_BYTES, encode_entry
from headwater.store.disk.journal import TRUNCATING, encode_ranges
from headwater.store.groups.frames import GroupMode, GroupState, SnapshotMark
from headwater.store.log.message_log import Batch
from headwater.store.store import Store, SyncMode, open_store
from tests.kit import entries
from tests.kit.copied_frames import CopyingAhead
from tests.kit.terminal import in_terminal

SEGMENT_BYTES_MAX = 2000
BATCH = 5
CHEAP = StretchingCost(10, 8, 1)
# Twenty messages fill a segment.
MESSAGE_BYTES = RECORD_BYTES + len("o.1") + 60
SECOND_RECORD = HEADER_BYTES + MESSAGE_BYTES
THIRD_RECORD = SECOND_RECORD + MESSAGE_BYTES
FIRST_SEGMENT = "streams/ORDERS/segment-00000000000000000001.hw"


def opened(folder: Path, machine: str = "", encoding: Encoding | None = None) -> Store:
    """A store as a server has it."""
    store = open_store(
        SystemFileSystem(),
        str(folder),
        SystemEntropy(),
        machine or boot_id(),
        modes={"EVENTS": SyncMode.ALWAYS},
        segment_bytes_max=SEGMENT_BYTES_MAX,
        encoding=encoding,
    )
    return entries.redo(store)


def append(store: Store, name: str, batches: int) -> None:
    """Batches of five messages of about a hundred bytes, on three subjects."""
    for number in range(batches):
        subjects = [b"o.%d" % (place % 3) for place in range(BATCH)]
        batch = Batch(subjects, [b""] * BATCH, [b"x" * 60] * BATCH, [1000 + number] * BATCH)
        entries.append(store, name, batch)


def fill(store: Store) -> None:
    """ORDERS with 50 messages in three segments, EVENTS with 10 in one."""
    store.create_stream("ORDERS")
    append(store, "ORDERS", 10)
    store.create_stream("EVENTS", mode=SyncMode.ALWAYS)
    append(store, "EVENTS", 2)
    store.logs["ORDERS"].delete([3, 4, 20])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store that was closed in order."""
    store = opened(tmp_path / "store")
    fill(store)
    store.close()
    return tmp_path / "store"


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A store whose server was killed while it was open."""
    store = opened(tmp_path / "living")
    fill(store)
    shutil.copytree(tmp_path / "living", tmp_path / "crashed")
    store.close()
    return tmp_path / "crashed"


class Told:
    """The exit code of a command, and its output."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Kind and file of each finding."""
        return [(each["kind"], each["file"]) for each in self.json["problems"]]


Command = Callable[..., Told]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `headwater store ...`."""

    def call(*arguments: object) -> Told:
        code = run(["store", *map(str, arguments)])
        out, err = capsys.readouterr()
        return Told(code, out, err)

    return call


def contents(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Every file's bytes, time of change and mode, and every folder's."""
    return {
        str(path): (path.read_bytes() if path.is_file() else b"", stat.st_mtime_ns, stat.st_mode)
        for path in [folder, *folder.rglob("*")]
        for stat in [path.stat()]
    }


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Nothing in a folder is changed meanwhile."""
    before = contents(folder)
    yield
    assert contents(folder) == before


def flip(path: Path, offset: int) -> None:
    """Turn a bit; a negative offset counts from the end."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def cut(path: Path, count: int) -> None:
    """Take bytes off the end."""
    os.truncate(path, path.stat().st_size - count)


# --- a sound store ------------------------------------------------------------------------------


def test_inspect_shows_a_line_for_each_stream(command: Command, folder: Path) -> None:
    told = command("inspect", folder)
    assert told.code == 0
    assert told.err == ""
    first, _, header, *streams = told.out.splitlines()
    assert first == f"Store in {folder}: closed in order"
    assert header.split() == [
        *("stream", "messages", "bytes", "first", "last", "subjects", "segments", "deleted"),
        *("lost", "on", "disk", "sync"),
    ]
    events, orders = (line.split() for line in streams)
    assert events[:2] == ["EVENTS", "10"]
    assert orders[:2] == ["ORDERS", "47"]
    assert orders[4:10] == ["1", "50", "3", "3", "3", "0"]
    assert orders[-1] == "synced"


def test_inspect_says_what_the_server_says(command: Command, folder: Path) -> None:
    (_, orders) = command("inspect", folder, "--json").json["streams"]
    store = opened(folder)
    log = store.logs["ORDERS"]
    assert (
        orders.items()
        >= {
            "messages": log.messages,
            "bytes": log.byte_count,
            "first_sequence": log.first_sequence,
            "last_sequence": log.last_sequence,
            "subjects": log.subject_count,
            "deleted": log.deleted_count,
            "lost": [],
        }.items()
    )
    store.close()


def test_inspect_of_a_stream_shows_segments_and_journal(command: Command, folder: Path) -> None:
    told = command("inspect", folder, "ORDERS")
    assert told.code == 0
    lines = [line.split() for line in told.out.splitlines()]
    name = "segment-000000000000000000"
    assert [line[:4] + line[-1:] for line in lines if line and line[0].startswith(name)] == [
        [f"{name}01.hw", "1", "20", "17", "sealed"],
        [f"{name}21.hw", "21", "40", "20", "sealed"],
        [f"{name}41.hw", "41", "50", "10", "open"],
    ]
    assert ["deleted", "1"] in lines
    (stream,) = command("inspect", folder, "ORDERS", "--json").json["streams"]
    assert stream["journal"] == {"deleted": 1}
    assert stream["segment_files"][1].items() >= {"first_sequence": 21, "live": 20}.items()


def test_verify_ends_with_a_line_for_scripts(command: Command, folder: Path) -> None:
    told = command("verify", folder)
    assert (told.code, told.err) == (0, "")
    assert told.out == "2 streams, 57 messages, 0 problems\n"


def test_the_json_of_a_store_has_these_fields(command: Command, folder: Path) -> None:
    flip(folder / FIRST_SEGMENT, HEADER_BYTES + 40)
    told = command("verify", folder, "--json").json
    assert set(told) == {
        *("folder", "in_use_by", "closed_in_order", "machine_restarted", "write_ahead"),
        *("groups", "streams", "messages", "problems", "notes"),
    }
    assert set(told["streams"][0]) == {
        *("name", "messages", "bytes", "first_sequence", "last_sequence", "reserved_sequence"),
        *("subjects", "segments", "deleted", "lost", "disk_bytes", "sync"),
    }
    assert told["write_ahead"] == {"files": 0, "frames": 0, "bytes": 0}
    (problem,) = told["problems"]
    assert problem == {
        "kind": "damaged",
        "stream": "ORDERS",
        "file": FIRST_SEGMENT,
        "offset": HEADER_BYTES,
        "detail": problem["detail"],
        "server": "reports these sequences as lost; the rest stays readable",
        "lost": [[1, 1]],
    }


def test_names_that_are_no_file_names_are_shown_as_they_are(
    command: Command, tmp_path: Path
) -> None:
    store = opened(tmp_path / "store")
    store.create_stream("a b/é\x1b")
    store.close()
    told = command("inspect", tmp_path / "store")
    assert "a b/é\\x1b" in told.out
    assert command("inspect", tmp_path / "store", "a b/é\x1b").code == 0


def test_an_empty_store_has_no_streams(command: Command, tmp_path: Path) -> None:
    opened(tmp_path / "store").close()
    assert "No streams." in command("inspect", tmp_path / "store").out
    assert command("verify", tmp_path / "store").out == "0 streams, 0 messages, 0 problems\n"


def test_inspect_counts_consensus_groups(command: Command, tmp_path: Path) -> None:
    store = opened(tmp_path / "store")
    for number in range(2):
        mark, state = SnapshotMark(1, 1, b"m"), GroupState(1, "a")
        store.groups.create(b"%016d" % number, GroupMode.SYNCED, mark, state)
    store.commit()
    store.close()
    assert "closed in order; 2 consensus groups" in command("inspect", tmp_path / "store").out
    told = command("verify", tmp_path / "store", "--json").json
    assert (told["groups"], told["problems"]) == (2, [])


def test_compressed_files_are_read_like_others(command: Command, tmp_path: Path) -> None:
    store = opened(tmp_path / "store", encoding=Encoding(compresses=True))
    fill(store)
    store.close()
    assert command("verify", tmp_path / "store").out == "2 streams, 57 messages, 0 problems\n"


def test_an_encrypted_store_is_read_with_its_key(command: Command, tmp_path: Path) -> None:
    server_key = ServerKey("open sesame", None, Cipher.AES_GCM, CHEAP)
    store = opened(tmp_path / "store", encoding=Encoding(server_key=server_key))
    fill(store)
    shutil.copytree(tmp_path / "store", tmp_path / "crashed")
    store.close()
    key_file = tmp_path / "key"
    key_file.write_text("open sesame\n")
    for folder in (tmp_path / "store", tmp_path / "crashed"):
        with unchanged(folder):
            told = command("verify", folder, "--key-file", key_file)
        assert told.out == "2 streams, 57 messages, 0 problems\n"
    segment = tmp_path / "crashed/streams/ORDERS/segment-00000000000000000041.hw"
    flip(segment, -1)
    assert command("verify", tmp_path / "crashed", "--key-file", key_file).code == 1


def test_without_its_key_an_encrypted_store_is_not_opened(command: Command, tmp_path: Path) -> None:
    server_key = ServerKey("open sesame", None, Cipher.AES_GCM, CHEAP)
    store = opened(tmp_path / "store", encoding=Encoding(server_key=server_key))
    fill(store)
    store.close()
    told = command("inspect", tmp_path / "store")
    assert told.code == 3
    assert told.err.endswith("Give the key it was made with: --key-file FILE.\n")
    (tmp_path / "key").write_text("open barley")
    assert command("inspect", tmp_path / "store", "--key-file", tmp_path / "key").code == 3
    (tmp_path / "key").write_text("\n")
    assert command("inspect", tmp_path / "store", "--key-file", tmp_path / "key").code == 2


# --- damage -------------------------------------------------------------------------------------


def test_a_damaged_record_costs_its_message_only(command: Command, folder: Path) -> None:
    flip(folder / FIRST_SEGMENT, SECOND_RECORD + 40)
    told = command("verify", folder)
    assert told.code == 1
    lines = told.out.splitlines()
    assert lines[0].startswith(f"damaged  {FIRST_SEGMENT} at byte ")
    assert lines[1] == "    lost: 2"
    assert lines[2] == "    a server reports these sequences as lost; the rest stays readable"
    assert lines[-1] == "2 streams, 56 messages, 1 problems"


def test_a_deleted_message_that_is_damaged_is_no_loss(command: Command, folder: Path) -> None:
    flip(folder / FIRST_SEGMENT, THIRD_RECORD + 40)
    told = command("verify", folder, "--json")
    assert told.code == 1
    assert told.problems == [("damaged", FIRST_SEGMENT)]
    assert told.json["problems"][0]["lost"] == []
    assert told.json["messages"] == 57


def test_loss_that_a_server_has_noticed_is_not_found_again(command: Command, folder: Path) -> None:
    flip(folder / FIRST_SEGMENT, SECOND_RECORD + 40)
    store = opened(folder)
    assert store.logs["ORDERS"].get(2) is None
    store.close()
    told = command("verify", folder, "--json")
    assert (told.code, told.problems) == (0, [])
    (_, orders) = told.json["streams"]
    assert (orders["lost"], orders["messages"]) == ([[2, 2]], 46)


@pytest.mark.parametrize(
    ("file", "offset", "kind"),
    [
        (FIRST_SEGMENT, 20, "unreadable"),
        (FIRST_SEGMENT, -20, "unsealed"),
        (FIRST_SEGMENT, -2, "unsealed"),
        ("streams/ORDERS/segment-00000000000000000041.hw", -1, "torn"),
        ("streams/ORDERS/journal.hw", 8, "unreadable"),
        ("streams/ORDERS/journal.hw", HEADER_BYTES + 10, "torn"),
        ("streams/ORDERS/index.hw", HEADER_BYTES + 10, "unused"),
        ("streams/ORDERS/stream.hw", 20, "unreadable"),
        ("store.hw", 20, "unreadable"),
    ],
)
def test_every_file_is_checked(
    command: Command, folder: Path, file: str, offset: int, kind: str
) -> None:
    flip(folder / file, offset)
    with unchanged(folder):
        told = command("verify", folder, "--json")
    assert told.code == 1
    assert (kind, file) in told.problems
    assert all(problem["server"] for problem in told.json["problems"])


def test_every_bit_of_a_segment_matters(command: Command, folder: Path) -> None:
    """Offsets of each field of header, record and footer, and some of payloads."""
    path = folder / FIRST_SEGMENT
    original = path.read_bytes()
    for offset in [*range(0, HEADER_BYTES + 150, 3), *range(-150, 0, 3)]:
        flip(path, offset)
        assert command("verify", folder, "--json").code == 1, offset
        path.write_bytes(original)


def test_a_torn_end_is_told_wherever_it_is_torn(command: Command, crashed: Path) -> None:
    path = crashed / "streams/ORDERS/segment-00000000000000000041.hw"
    original = path.read_bytes()
    for count in range(1, 90, 7):
        path.write_bytes(original[:-count])
        told = command("verify", crashed, "--json")
        assert (told.code, told.problems) == (1, [("torn", f"{path.relative_to(crashed)}")])
        assert told.json["messages"] == 56
        path.write_bytes(original)


def test_damage_after_the_machine_fell_may_end_the_log(command: Command, tmp_path: Path) -> None:
    store = opened(tmp_path / "store", machine="another life of this machine")
    fill(store)
    shutil.copytree(tmp_path / "store", tmp_path / "fallen")
    store.close()
    flip(tmp_path / "fallen/streams/ORDERS/segment-00000000000000000041.hw", SECOND_RECORD + 40)
    told = command("verify", tmp_path / "fallen", "--json").json
    assert told["machine_restarted"] is True
    assert told["problems"][0]["server"].startswith("ends a log here")


def test_a_cut_that_was_not_finished_is_a_remark(command: Command, crashed: Path) -> None:
    with (crashed / "streams/ORDERS/journal.hw").open("ab") as file:
        file.write(encode_entry(50, TRUNCATING, encode_ranges([(50, 50)])))
    told = command("verify", crashed)
    assert told.code == 0
    assert "cutting off the end of the log was begun" in told.err


def test_a_missing_segment_is_a_hole(command: Command, folder: Path) -> None:
    (folder / "streams/ORDERS/segment-00000000000000000021.hw").unlink()
    for name in ("inspect", "verify"):
        told = command(name, folder, "--json")
        assert told.code == 1
        assert told.json["problems"][0]["lost"] == [[21, 40]]


def test_damage_inside_the_journal_costs_one_entry(command: Command, folder: Path) -> None:
    store = opened(folder)
    store.logs["ORDERS"].delete([7])
    store.close()
    journal = folder / "streams/ORDERS/journal.hw"
    flip(journal, HEADER_BYTES + 30)
    told = command("verify", folder, "--json")
    (problem,) = (each for each in told.json["problems"] if each["kind"] == "damaged")
    assert (problem["file"], problem["offset"]) == ("streams/ORDERS/journal.hw", HEADER_BYTES)


def test_what_a_newer_version_wrote_is_not_called_damaged(command: Command, folder: Path) -> None:
    path = folder / FIRST_SEGMENT
    data = bytearray(path.read_bytes())
    data[8] += 1
    data[60:HEADER_BYTES] = crc32(data[:60]).to_bytes(4, "little")
    path.write_bytes(data)
    told = command("verify", folder, "--json")
    assert ("newer", FIRST_SEGMENT) in told.problems
    assert "use a newer Headwater" in told.json["problems"][0]["server"]


def test_a_store_that_was_repaired_is_sound(command: Command, crashed: Path) -> None:
    cut(crashed / "streams/ORDERS/segment-00000000000000000041.hw", 7)
    assert command("verify", crashed).code == 1
    opened(crashed).close()
    told = command("verify", crashed)
    assert (told.code, told.out) == (0, "2 streams, 56 messages, 0 problems\n")
    assert "bytes that an earlier start set aside are in" in told.err


def test_a_missing_stream_file_is_told(command: Command, folder: Path) -> None:
    (folder / "streams/ORDERS/stream.hw").unlink()
    told = command("verify", folder, "--json")
    assert told.code == 1
    assert told.problems == [("missing", "streams/ORDERS/stream.hw")]


def test_inspect_points_to_verify_where_it_finds_damage(command: Command, folder: Path) -> None:
    flip(folder / "streams/ORDERS/journal.hw", 8)
    told = command("inspect", folder)
    assert told.code == 1
    assert "\nunreadable  streams/ORDERS/journal.hw: " in told.out
    assert told.err.endswith(f"headwater store verify {folder}\n")


@pytest.mark.parametrize("seed", range(4))
def test_what_is_told_is_what_a_server_then_finds(
    tmp_path: Path, folder: Path, crashed: Path, seed: int
) -> None:
    """`verify` and a server agree on messages and losses, whatever byte is changed or cut off.

    A server applies the entries of a stream again, which `verify` only reports.
    """
    rng = random.Random(seed)
    for number in range(6):
        damaged = tmp_path / f"damaged-{number}"
        shutil.copytree(rng.choice([folder, crashed]), damaged)
        files = sorted(path for path in damaged.rglob("*.hw") if path.name != "store.hw")
        path = rng.choice([each for each in files if each.name != "stream.hw"])
        offset = rng.randrange(path.stat().st_size)
        if rng.random() < 0.7:
            flip(path, offset)
        else:
            os.truncate(path, offset)
        told = store_reader(str(damaged), thorough=True).read()
        store = opened(damaged)
        for stream in told.streams:
            log = store.logs[stream.name]
            if any(note.startswith(f"{stream.name}: a server applies") for note in told.notes):
                continue
            for sequence in range(1, 51):
                log.get(sequence)
            found = (log.messages, log.byte_count, log.subject_count, list(log.lost))
            assert found == (
                *(stream.messages, stream.byte_count, stream.subjects),
                list(stream.lost),
            ), (path, offset)
            assert told.problems or not log.findings.reported
        store.close()


# --- the write-ahead file -----------------------------------------------------------------------


def test_a_store_that_was_not_closed_says_so(command: Command, crashed: Path) -> None:
    told = command("inspect", crashed, "--json").json
    assert told["closed_in_order"] is False
    assert told["write_ahead"]["frames"] == 3
    assert [stream["sync"] for stream in told["streams"]] == ["write-ahead", "unknown"]
    assert "not closed in order; write-ahead: 3 frames" in command("inspect", crashed).out


def test_what_the_write_ahead_file_of_an_earlier_version_has_is_not_lost(
    command: Command, tmp_path: Path
) -> None:
    store = opened(tmp_path)
    log = store.create_stream("EVENTS", mode=SyncMode.ALWAYS)
    ahead = CopyingAhead(SystemFileSystem(), str(tmp_path), SystemEntropy())
    ahead.add_stream(log)
    for _ in range(10):
        ahead.append(log, Batch([b"e"], [b""], [b"x" * 60], [1000]))
    store.abandon()
    segment = "streams/EVENTS/segment-00000000000000000001.hw"
    cut(tmp_path / segment, 300)
    with unchanged(tmp_path):
        told = command("verify", tmp_path)
    assert told.code == 0
    assert told.out == "1 streams, 10 messages, 0 problems\n"
    assert told.err.startswith(f"{segment}: a server completes this file")
    store = opened(tmp_path)
    assert store.logs["EVENTS"].messages == 10
    store.close()


def test_entries_that_a_server_has_to_apply_are_told(command: Command, tmp_path: Path) -> None:
    store = open_store(SystemFileSystem(), str(tmp_path), SystemEntropy(), boot_id())
    store.create_stream("S", mode=SyncMode.ALWAYS).add_entry(1, 0, b"entry")
    store.commit()
    store.abandon()
    told = command("verify", tmp_path)
    assert told.code == 0
    assert told.err.startswith("S: a server applies 1 entries of the write-ahead file")


def test_a_damaged_write_ahead_file_is_told(command: Command, crashed: Path) -> None:
    (ahead,) = crashed.glob("ahead-*")
    flip(ahead, -1)
    assert command("verify", crashed, "--json").problems == [("damaged", ahead.name)]
    flip(ahead, 20)
    assert command("verify", crashed, "--json").problems == [("unreadable", ahead.name)]


# --- only reading -------------------------------------------------------------------------------


def test_nothing_on_the_disk_is_changed(command: Command, folder: Path, crashed: Path) -> None:
    cut(crashed / "streams/ORDERS/segment-00000000000000000041.hw", 7)
    for store in (folder, crashed):
        with unchanged(store):
            command("inspect", store)
            command("inspect", store, "ORDERS")
            command("verify", store)


def test_files_that_may_only_be_read_are_enough(command: Command, folder: Path) -> None:
    paths = [folder, *folder.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert command("verify", folder).code == 0
    finally:
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize(
    "change",
    [
        lambda files, path: files.create(f"{path}.new"),
        lambda files, path: files.make_folder(f"{path}.new"),
        lambda files, path: files.remove(path),
        lambda files, path: files.remove_folder(path),
        lambda files, path: files.rename(path, f"{path}.new"),
        lambda files, path: files.sync_folder(path),
        lambda files, path: files.lock(path),
        lambda files, path: files.open(path).write(b"x"),
        lambda files, path: files.open(path).overwrite(0, b"x"),
        lambda files, path: files.open(path).truncate(0),
        lambda files, path: files.open(path).sync(),
    ],
)
def test_every_way_to_change_something_is_refused(
    tmp_path: Path, change: Callable[[DecodedFiles, str], object]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with unchanged(tmp_path), pytest.raises(ReadOnlyError):
        change(DecodedFiles(str(tmp_path), None), str(path))


# --- beside a server ----------------------------------------------------------------------------


def test_a_store_in_use_is_read_and_said_to_be(command: Command, tmp_path: Path) -> None:
    store = opened(tmp_path / "store")
    fill(store)
    holder = f"process {os.getpid()}"
    with unchanged(tmp_path / "store"):
        told = command("verify", tmp_path / "store")
        assert (told.code, told.out) == (0, "2 streams, 57 messages, 0 problems\n")
        assert told.err.startswith(f"Process {os.getpid()} has the store open")
        assert f"in use by {holder}" in command("inspect", tmp_path / "store").out
        told = command("inspect", tmp_path / "store", "--json")
        assert told.json["in_use_by"] == holder
    append(store, "ORDERS", 1)
    store.close()
    assert lock_holder(str(tmp_path / "store" / "lock")) == ""


def test_what_is_being_written_is_no_damage(command: Command, tmp_path: Path) -> None:
    store = opened(tmp_path / "store")
    fill(store)
    for path in (tmp_path / "store").glob("streams/*/*-*41.hw"):
        with path.open("ab") as file:
            file.write(bytes(20))
    assert command("verify", tmp_path / "store").code == 0


def test_strict_refuses_a_store_in_use(command: Command, tmp_path: Path) -> None:
    store = opened(tmp_path / "store")
    for name in ("inspect", "verify"):
        told = command(name, tmp_path / "store", "--strict")
        assert told.code == 3
        assert f"is in use by process {os.getpid()}\nStop the server first" in told.err
    store.close()
    assert command("verify", tmp_path / "store", "--strict").code == 0


# --- folders that cannot be opened --------------------------------------------------------------


def test_what_is_no_store_is_refused_with_advice(command: Command, tmp_path: Path) -> None:
    for name in ("inspect", "verify"):
        told = command(name, tmp_path / "nowhere")
        assert (told.code, told.out) == (3, "")
        assert told.err.startswith(f"Error: There is no folder {tmp_path}/nowhere\nGive the folder")
        assert command(name, tmp_path).code == 3
        failure = json.loads(command(name, tmp_path, "--json").err)
        assert failure["exit_code"] == 3


def test_an_unknown_stream_is_answered_with_those_there_are(command: Command, folder: Path) -> None:
    told = command("inspect", folder, "ORDER")
    assert told.code == 2
    assert told.err.endswith("Streams there: EVENTS, ORDERS.\n")


def test_the_folder_that_a_server_was_given_holds_its_store(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    folder.rename(tmp_path / "jetstream")
    inspected = command("inspect", tmp_path, "--json")
    assert (inspected.code, inspected.json["folder"]) == (0, f"{tmp_path}/jetstream")
    assert [stream["name"] for stream in inspected.json["streams"]] == ["EVENTS", "ORDERS"]
    assert command("verify", tmp_path).out == "2 streams, 57 messages, 0 problems\n"


def test_a_stream_is_found_without_its_account_where_one_account_has_it(
    command: Command, tmp_path: Path
) -> None:
    store = opened(tmp_path)
    for key in ("$G/ORDERS", "A/EVENTS", "B/EVENTS"):
        store.create_stream(key)
    store.close()

    def found(name: str) -> list[str]:
        streams = command("inspect", tmp_path, name, "--json").json["streams"]
        return [stream["name"] for stream in streams]

    assert found("ORDERS") == ["$G/ORDERS"]
    assert found("A/EVENTS") == ["A/EVENTS"]
    told = command("inspect", tmp_path, "EVENTS")
    assert (told.code, told.err) == (
        2,
        f"Error: 2 accounts have a stream EVENTS in {tmp_path}\n"
        "Streams there: A/EVENTS, B/EVENTS.\n",
    )
    assert command("inspect", tmp_path, "VENTS").code == 2


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """The backup of a stream with two messages."""
    with archive_writer(tmp_path / "backup") as writer:
        writer.write(BEGINNINGS[0] + b"\x01\x05\x00\x00crc:x")
        writer.finish({"name": "ORDERS"}, {"messages": 2})
    return tmp_path / "backup"


def test_the_backup_of_a_stream_is_verified_too(command: Command, backup: Path) -> None:
    told = command("verify", backup)
    assert (told.code, told.out) == (0, "1 streams, 2 messages, 0 problems\n")
    assert command("verify", backup, "--json").json == {
        "folder": str(backup), "backup_of": "ORDERS", "messages": 2, "problems": [],
    }  # fmt: skip


def test_a_damaged_backup_is_a_problem(command: Command, backup: Path) -> None:
    archive = backup / DATA_FILE
    archive.write_bytes(archive.read_bytes()[:-1] + b"y")
    told = command("verify", backup)
    assert told.code == 1
    assert "its bytes are not those that were backed up" in told.out
    assert told.out.endswith("\n1 streams, 0 messages, 1 problems\n")
    (problem,) = command("verify", backup, "--json").json["problems"]
    assert problem["kind"] == "damaged"


def test_inspecting_a_backup_is_answered_with_the_commands_for_backups(
    command: Command, backup: Path
) -> None:
    told = command("inspect", backup)
    assert told.code == 3
    assert f"headwater store verify {backup}\n" in told.err
    assert f"headwater stream restore {backup}\n" in told.err


def test_a_wrong_command_line_ends_with_2(command: Command, folder: Path) -> None:
    assert command("verify").code == 2
    assert command("verify", folder, "--quickly").code == 2


def test_the_help_has_examples_and_exit_codes(command: Command) -> None:
    assert "\n  1  damage was found\n" in command("--help").out
    for name in ("inspect", "verify"):
        examples = command(name, "--help").out.partition("Examples:\n")[2].splitlines()
        assert len(examples) == 4
        assert all(f"headwater store {name} " in example for example in examples)


def test_a_terminal_shows_progress_and_colour(folder: Path) -> None:
    flip(folder / FIRST_SEGMENT, SECOND_RECORD + 40)
    seen = in_terminal("store", "verify", str(folder))
    assert "Verifying" in seen
    assert "\x1b[1;31mdamaged" in seen
    assert seen.rstrip().endswith("2 streams, 56 messages, 1 problems")
