"""The parts of the stream commands that need no server: units, settings, tables, archives."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cli.shell.exits import CommandFailed
from headwater.cli.shell.settings_options import given_settings
from headwater.cli.shell.tables import Column, Columns
from headwater.cli.shell.units import (
    SIZE_BYTES_MAX,
    age_text,
    duration_ns_text,
    parse_duration_ns,
    parse_size_bytes,
    parse_time,
    time_text,
)
from headwater.cli.streams.archive import (
    BEGINNINGS,
    COMPRESSED,
    DATA_FILE,
    META_FILE,
    PLAIN,
    FrameWalk,
    archive_writer,
    holds_backup,
    read_backup,
)
from headwater.cli.streams.commands import doomed_text
from headwater.cli.streams.render import (
    info_text,
    ranges_text,
    report_table,
    stored_headers,
    streams_table,
)
from headwater.cli.streams.settings import SETTINGS
from headwater.go.numbers import MAX_INT64

SECOND = 10**9

# --- units --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("0", 0),
        ("2", 2 * SECOND),
        ("1.5s", 1_500_000_000),
        ("500ms", SECOND // 2),
        ("1us1ns", 1001),
        ("2h30m", 9000 * SECOND),
        ("1m1ms", 60 * SECOND + 10**6),
        ("7d", 604_800 * SECOND),
        ("1w", 604_800 * SECOND),
        ("1Y", 365 * 86_400 * SECOND),
    ],
)
def test_durations_are_read_exactly(text: str, duration_ns: int) -> None:
    assert parse_duration_ns(text) == duration_ns


@pytest.mark.parametrize(
    "text", ["", "s", "-1s", "+1s", "1x", "1 s", "1e3", "1s2", "1h,2m", "300y"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration of up to 292 years"):
        parse_duration_ns(text)


@given(st.integers(0, MAX_INT64))
def test_a_duration_that_is_shown_and_read_again_is_the_same(duration_ns: int) -> None:
    assert parse_duration_ns(duration_ns_text(duration_ns)) == duration_ns


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1048576", 2**20), ("10MB", 10 * 2**20), ("1.5 GiB", 3 * 2**29), ("2k", 2048),
     ("512B", 512), ("1tib", 2**40), ("unlimited", -1), ("-1", -1)],
)  # fmt: skip
def test_sizes_are_read_with_units_of_1024(text: str, size: int) -> None:
    assert parse_size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-5", "1XB", "ten", f"{SIZE_BYTES_MAX + 1}"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|more bytes"):
        parse_size_bytes(text)


def test_api_times_are_read_with_nanoseconds_and_offsets() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 123456, UTC)
    assert parse_time("2026-01-02T03:04:05.123456789Z") == moment
    assert parse_time("2026-01-02T04:04:05.123456+01:00") == moment
    assert time_text("2026-01-02T03:04:05.1Z") == "2026-01-02 03:04:05.100 UTC"
    assert parse_time("0001-01-01T00:00:00Z") is None
    assert parse_time("yesterday") is None


@pytest.mark.parametrize(
    ("time", "age"),
    [
        ("2026-01-02T00:00:00Z", "now"),
        ("2026-01-03T00:00:00Z", "now"),
        ("2026-01-01T23:59:01Z", "59s ago"),
        ("2026-01-01T00:00:00Z", "1d ago"),
        ("2024-01-01T00:00:00Z", "2y ago"),
        ("0001-01-01T00:00:00Z", "never"),
    ],
)
def test_ages_are_told_in_one_unit(time: str, age: str) -> None:
    assert age_text(time, datetime(2026, 1, 2, tzinfo=UTC)) == age


# --- settings -----------------------------------------------------------------------------------


def test_every_setting_has_its_own_key_flag_and_parameter() -> None:
    for attribute in ("key", "flag", "parameter"):
        values = [getattr(setting, attribute) for setting in SETTINGS]
        assert len(set(values)) == len(values)


def test_settings_go_into_the_configuration_and_what_is_not_given_does_not() -> None:
    given = given_settings(
        SETTINGS,
        {
            "subjects_setting": ("a.>,b", "c"),
            "placement_tags_setting": ("ssd",),
            "republish_setting": ("a.>", "live.>"),
            "metadata_setting": (("k", "v"), ("l", "w")),
            "max_msgs_setting": 0,
            "allow_direct_setting": False,
            "mirror_setting": None,
            "sources_setting": (),
        },
    )
    assert SETTINGS.changed({"metadata": {"k": "old", "kept": "x"}, "max_age": 5}, given) == {
        "metadata": {"k": "v", "kept": "x", "l": "w"},
        "max_age": 5,
        "subjects": ["a.>", "b", "c"],
        "placement": {"tags": ["ssd"]},
        "republish": {"src": "a.>", "dest": "live.>"},
        "max_msgs": 0,
        "allow_direct": False,
    }


def test_a_change_leaves_the_base_alone() -> None:
    base: dict[str, Any] = {"placement": {"cluster": "a"}, "republish": {"dest": "x"}}
    new = SETTINGS.changed(base, {"placement.cluster": "b"}, unset=["republish", "not there"])
    assert new == {"placement": {"cluster": "b"}}
    assert base == {"placement": {"cluster": "a"}, "republish": {"dest": "x"}}


def test_a_default_is_no_difference_from_what_is_not_set() -> None:
    server = {
        "max_msgs": -1, "max_age": 0, "num_replicas": 1, "storage": "file", "sealed": False,
        "consumer_limits": {}, "metadata": {"_nats.ver": "2.15.1"}, "persist_mode": "default",
    }  # fmt: skip
    assert SETTINGS.differences(server, {}) == {}
    assert SETTINGS.differences({}, server) == {}
    assert SETTINGS.differences(server, {"max_msgs": 5, "unheard_of": [1]}) == {
        "max_msgs": (-1, 5),
        "unheard_of": (None, [1]),
    }
    assert SETTINGS.differences({"sealed": True}, {}) == {"sealed": (True, None)}


def test_no_ack_timeout_at_all_is_not_the_servers_own() -> None:
    assert SETTINGS.differences({}, {"ack_timeout": 0}) == {"ack_timeout": (None, 0)}
    assert SETTINGS.value_text("ack_timeout", 0) == "never"


def test_null_in_a_file_is_what_is_not_set() -> None:
    base = {"placement": None, "metadata": None}
    assert SETTINGS.changed(base, {"placement.tags": ["a"], "metadata": {"k": "v"}}) == {
        "placement": {"tags": ["a"]},
        "metadata": {"k": "v"},
    }


# --- forecasts of a purge -----------------------------------------------------------------------

STATE = {"messages": 8, "bytes": 800, "first_seq": 1, "last_seq": 10, "num_deleted": 2,
         "subjects": {"a": 3, "b": 1}}  # fmt: skip


@pytest.mark.parametrize(
    ("subject", "seq", "keep", "text"),
    [
        (None, None, None, "all 8 messages (800 B)"),
        (None, None, 3, "5 of 8 messages (800 B)"),
        (None, None, 9, "0 of 8 messages (800 B)"),
        (None, 1, None, "0 of 8 messages (800 B)"),
        (None, 6, None, "up to 5 of 8 messages (800 B)"),
        (None, 11, None, "all 8 messages (800 B)"),
        (None, 2**64, None, "all 8 messages (800 B)"),
        (">", None, None, "4 of 8 messages (800 B)"),
        (">", None, 1, "3 of 8 messages (800 B)"),
        (">", 3, None, "up to 2 of 8 messages (800 B)"),
        (">", 11, None, "4 of 8 messages (800 B)"),
    ],
)
def test_a_purge_says_what_goes(
    subject: str | None, seq: int | None, keep: int | None, text: str
) -> None:
    assert doomed_text(STATE, subject, seq, keep) == text


def test_a_purge_of_a_stream_without_gaps_is_told_exactly() -> None:
    state = {"messages": 10, "bytes": 1, "first_seq": 1, "last_seq": 10}
    assert doomed_text(state, None, 6, None) == "5 of 10 messages (1 B)"


# --- looks --------------------------------------------------------------------------------------


def table() -> Columns:
    columns = Columns(
        (Column("name", is_text=True), Column("subjects", is_text=True, can_shrink=True),
         Column("n"))
    )  # fmt: skip
    columns.add("A", "one.two.three.four.five", "1")
    columns.add("LONGER", "日本\x1b\n", "12,345")
    columns.totals = ("2 streams", "", "12,346")
    return columns


def test_a_table_is_as_wide_as_it_needs_for_a_pipe() -> None:
    assert table().text(None).plain == (
        "name       subjects                      n\n"
        "A          one.two.three.four.five       1\n"
        "LONGER     日本\\x1b\\n               12,345\n"
        "2 streams                           12,346"
    )


@pytest.mark.parametrize("width", range(27, 43))
def test_a_table_fits_the_terminal_by_cutting_what_may_be_cut(width: int) -> None:
    lines = table().text(width).split("\n")
    assert max(line.cell_len for line in lines) == width
    assert ("…" in lines[1].plain) == (width < 42)
    assert lines[2].plain.endswith("12,345")


def test_what_can_not_be_cut_is_not() -> None:
    lines = table().text(10).split("\n")
    assert lines[1].plain == "A          one.two…       1"


@pytest.mark.parametrize(
    ("sequences", "text"),
    [([2], "2"), ([5, 2, 6, 7], "2, 5 to 7"), (list(range(1, 101, 2)),
      ", ".join(str(n) for n in range(1, 41, 2)) + " and 30 more ranges")],
)  # fmt: skip
def test_sequences_are_shown_as_ranges(sequences: list[int], text: str) -> None:
    assert ranges_text(sequences) == text


CLUSTERED: dict[str, Any] = {
    "config": {"name": "A", "num_replicas": 3, "storage": "file"},
    "created": "2026-01-01T00:00:00Z",
    "state": {
        "messages": 5, "bytes": 2048, "first_seq": 1, "first_ts": "2026-01-01T00:00:00Z",
        "last_seq": 7, "last_ts": "2026-01-01T23:59:00Z", "num_subjects": 2, "num_deleted": 1,
        "lost": {"msgs": [4], "bytes": 100}, "consumer_count": 1,
    },
    "cluster": {
        "name": "C", "leader": "n1",
        "replicas": [
            {"name": "n2", "current": True, "active": 5 * 10**8},
            {"name": "n3", "current": False, "offline": True, "active": 60 * SECOND, "lag": 12},
        ],
    },
    "mirror": {"name": "ORIGIN", "lag": 3, "active": 2 * SECOND},
    "sources": [
        {"name": "S", "lag": 1, "active": -1, "error": {"description": "stream not found"}},
    ],
}  # fmt: skip


def test_a_clustered_stream_is_shown_with_who_has_it_and_where_it_comes_from() -> None:
    shown = info_text(CLUSTERED, datetime(2026, 1, 2, tzinfo=UTC)).plain
    for line in (
        "  Last:       7 at 2026-01-01 23:59:00.000 UTC (1m ago)",
        "  Lost:       1 message (100 B)",
        "  Leader:   n1",
        "  Replica:  n2, current, seen 500ms ago",
        "  Replica:  n3, offline, seen 1m ago, 12 operations behind",
        "  Mirror:  ORIGIN, 3 messages behind, seen 2s ago",
        "  Source:  S, 1 message behind, not seen yet, stream not found",
    ):
        assert f"{line}\n" in f"{shown}\n"


def test_a_change_of_the_servers_is_shown_with_its_state() -> None:
    changing = {"name": "C", "leader": "n1", "desired": {"status": {"description": "adding n2"}}}
    shown = info_text({**CLUSTERED, "cluster": changing}, datetime(2026, 1, 2, tzinfo=UTC)).plain
    assert "  Leader:            n1\n  Change under way:  adding n2\n" in shown
    leaderless = {"name": "C", "replicas": [{"name": "n2"}], "desired": {}}
    shown = info_text({**CLUSTERED, "cluster": leaderless}, datetime(2026, 1, 2, tzinfo=UTC)).plain
    assert "  Leader:            none at the moment\n" in shown
    assert "  Replica:           n2, not current, not seen yet\n" in shown
    assert "  Change under way:  begun\n" in shown


def test_a_list_has_the_servers_of_each_stream_where_there_is_a_cluster() -> None:
    alone = {**CLUSTERED, "config": {"name": "B", "num_replicas": 1}, "cluster": {"leader": "n1"}}
    one: dict[str, Any] = {**alone, "cluster": {"name": "C", "leader": "n2"}}
    now = datetime(2026, 1, 2, tzinfo=UTC)
    header, first, second = streams_table([CLUSTERED, one], now).text(None).plain.splitlines()
    assert header.split()[:3] == ["name", "subjects", "replicas"]
    assert "  n1*, n2, n3!  " in first
    assert "  n2*  " in second
    assert "replicas" not in streams_table([alone], now).text(None).plain


def test_a_report_marks_the_leader_and_who_is_not_current() -> None:
    leaderless: dict[str, Any] = {**CLUSTERED, "cluster": {"replicas": [{"name": "n2"}]}}
    lines = report_table([CLUSTERED, leaderless], "messages", False).text(None).plain.splitlines()
    assert "  n1*, n2, n3!  " in lines[1]
    assert "  (no leader), n2!  " in lines[2]
    assert lines[3].split() == ["2", "streams", "10", "4.0", "KiB", "4", "2", "2", "2"]


def test_text_from_the_server_can_not_steer_the_terminal() -> None:
    evil = {**CLUSTERED, "config": {"name": "A\x1b[2J", "description": "x\ny\x07"}}
    shown = info_text(evil, datetime(2026, 1, 2, tzinfo=UTC)).plain
    assert "A\\x1b[2J" in shown
    assert "x\\ny\\x07" in shown
    assert "\x1b" not in shown


def test_headers_may_come_twice_and_a_status_line_is_none() -> None:
    # NATS/1.0 503 a: b, then A: 1, A:2 and B with nothing.
    block = "TkFUUy8xLjAgNTAzIGE6IGINCkE6IDENCkE6Mg0KQjoNCg0K"
    assert stored_headers({"hdrs": block}) == {"A": ["1", "2"], "B": [""]}
    assert stored_headers({}) == {}


# --- archives -----------------------------------------------------------------------------------


def frame(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + len(body).to_bytes(3, "little") + body


CHECKSUM = b"\1\2\3\4"
WHOLE = b"".join(
    (
        BEGINNINGS[0],
        frame(COMPRESSED, CHECKSUM + b"\x80\x10" + b"z" * 30),
        frame(0xFE, b"\0" * 17),
        frame(PLAIN, CHECKSUM + b"y" * 100),
        BEGINNINGS[1],
        frame(COMPRESSED, CHECKSUM + b"\x05x"),
    )
)
UNPACKED_BYTES = 2048 + 100 + 5


def walked(*pieces: bytes) -> FrameWalk:
    frames = FrameWalk()
    for piece in pieces:
        frames.feed(piece)
    return frames


def test_frames_are_followed_however_they_are_cut() -> None:
    ways = [
        [WHOLE],
        [bytes([byte]) for byte in WHOLE],
        *([WHOLE[:cut], WHOLE[cut:]] for cut in range(len(WHOLE))),
    ]
    for way in ways:
        frames = walked(*way)
        assert frames.finish() == ""
        assert (frames.packed_bytes, frames.unpacked_bytes) == (len(WHOLE), UNPACKED_BYTES)


def test_an_archive_cut_short_is_noticed_unless_the_cut_is_between_frames() -> None:
    whole_at = {10, 50, 71, 179, 189, len(WHOLE)}
    for cut in range(1, len(WHOLE) + 1):
        assert (walked(WHOLE[:cut]).finish() == "") == (cut in whole_at), cut


@pytest.mark.parametrize(
    ("more", "problem"),
    [(frame(0x02, b"abc"), "unknown kind 0x02"), (frame(PLAIN, b"ab"), "shorter than its")],
)
def test_frames_no_reader_could_take_are_a_problem(more: bytes, problem: str) -> None:
    assert problem in walked(WHOLE + more + b"behind").finish()


def test_what_does_not_begin_as_s2_is_only_counted() -> None:
    frames = walked(b"HEADWATER snapshot", b"of another kind")
    assert (frames.finish(), frames.packed_bytes, frames.unpacked_bytes) == ("", 33, 0)


CONFIG = {"name": "ORDERS", "storage": "file"}


def test_a_backup_is_there_when_it_is_finished_and_not_before(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "backup"
    with archive_writer(folder) as writer:
        writer.write(WHOLE[:40])
        writer.write(WHOLE[40:])
        assert not holds_backup(folder)
        writer.finish(CONFIG, {"messages": 3})
    assert sorted(path.name for path in folder.iterdir()) == [META_FILE, DATA_FILE]
    assert json.loads((folder / META_FILE).read_text()) == {
        "config": CONFIG,
        "state": {"messages": 3},
        "archive": {"bytes": len(WHOLE), "sha256": hashlib.sha256(WHOLE).hexdigest()},
    }
    found = read_backup(folder)
    assert (found.config, found.state) == (CONFIG, {"messages": 3})
    assert found.archive_bytes == len(WHOLE)


def test_a_backup_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    backup_in(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with archive_writer(tmp_path) as writer:
        writer.write(WHOLE[:-1])
        with pytest.raises(CommandFailed, match="cut short"):
            writer.finish(CONFIG, {})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandFailed, match="file cannot be written"):
        archive_writer(tmp_path / "file").__enter__()


def backup_in(folder: Path) -> None:
    with archive_writer(folder) as writer:
        writer.write(WHOLE)
        writer.finish(CONFIG, {})


def test_a_backup_of_the_nats_tool_has_no_digest_and_is_read(tmp_path: Path) -> None:
    (tmp_path / DATA_FILE).write_bytes(WHOLE)
    (tmp_path / META_FILE).write_text(json.dumps({"config": CONFIG, "state": {}}))
    assert read_backup(tmp_path).archive_bytes == len(WHOLE)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (WHOLE[:-1], "cut short"),
        (WHOLE[:50], f"it has 50 bytes, not {len(WHOLE)}"),
        (WHOLE[:-1] + b"!", "not those that were backed up"),
        (b"", "not"),
    ],
)
def test_a_damaged_archive_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    backup_in(tmp_path)
    (tmp_path / DATA_FILE).write_bytes(data)
    with pytest.raises(CommandFailed, match=problem):
        read_backup(tmp_path)


@pytest.mark.parametrize("meta", ["", "[]", "{}", '{"config": 1, "state": {}}'])
def test_a_description_that_is_none_is_refused(tmp_path: Path, meta: str) -> None:
    backup_in(tmp_path)
    (tmp_path / META_FILE).write_text(meta)
    with pytest.raises(CommandFailed, match="does not describe a backup"):
        read_backup(tmp_path)


@pytest.mark.parametrize("gone", [META_FILE, DATA_FILE])
def test_half_a_backup_is_none(tmp_path: Path, gone: str) -> None:
    backup_in(tmp_path)
    (tmp_path / gone).unlink()
    with pytest.raises(CommandFailed, match=f"holds no whole backup: {gone}: No such file"):
        read_backup(tmp_path)
