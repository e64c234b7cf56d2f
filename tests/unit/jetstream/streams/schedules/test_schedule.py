"""Schedules are accepted, refused and copied as by nats-server 2.15, from which the tables are."""

from datetime import tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.schedules.schedule import (
    Copy,
    ScheduleError,
    ScheduleRules,
    check_schedule,
    check_scheduler,
    copy_to_publish,
    parse_schedule,
    schedule_of,
)

SECOND = 10**9
# 2026-11-15T05:15:45.389Z
BLANKS_AND_CONTROLS = (b" ", b"\t", b"\r", b"\n", b"\f", b"\0", b"\x1b", b"\x7f")
NOW_NS = 1_794_719_745_389_000_000
FAR = b"@at 2100-01-01T00:00:00Z"
ALLOWED = ScheduleRules(allowed=True, ttl_allowed=False, subjects=(b"s.>",))
WITH_TTL = ScheduleRules(allowed=True, ttl_allowed=True, subjects=(b"s.>",))
FORBIDDEN = ScheduleRules(allowed=False, ttl_allowed=False, subjects=(b"s.>",))


def find_zone(name: str) -> tzinfo | None:
    return ZoneInfo(name) if name in ("UTC", "America/St_Johns", "Asia/Kolkata") else None


def block_of(**headers: bytes | None) -> bytes:
    lines = [
        b"%b: %b\r\n" % (name.replace("_", "-").encode(), value)
        for name, value in headers.items()
        if value is not None
    ]
    return b"NATS/1.0\r\n" + b"".join(lines) + b"\r\n"


def error_of(block: bytes, rules: ScheduleRules = ALLOWED) -> int:
    """The code with which a publish to `s.h` is refused; 0 if it is not."""
    try:
        check_schedule(block, b"s.h", rules, NOW_NS, find_zone)
    except ApiError as error:
        return error.err_code
    return 0


# --- patterns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        *("@at 2100-01-01T00:00:00Z", "@at 2100-01-01T00:00:00+24:00", "@at 2100-01-01T0:00:00Z"),
        *("@at 2100-01-01T00:00:00,5Z", "@at 1999-01-01T00:00:00Z", "@at 9999-01-01T00:00:00Z"),
        *("@every 1s", "@every 1.5s", "@every 1h", "@hourly", "@daily", "@midnight", "@weekly"),
        *("@monthly", "@yearly", "@annually", "* * * * * *", "0 30 9 * * mon-fri"),
    ],
)
def test_patterns_that_nats_server_takes(pattern: str) -> None:
    block = block_of(Nats_Schedule=pattern.encode(), Nats_Schedule_Target=b"s.t")
    assert error_of(block) == 0
    assert error_of(block, FORBIDDEN) == 10188


@pytest.mark.parametrize(
    "pattern",
    [
        *("@at 2100-01-01T00:00:00+25:00", "@at 2100-02-29T00:00:00Z", "@at 2100-1-01T00:00:00Z"),
        *("@at  2100-01-01T00:00:00Z", "@at 2100-01-01 00:00:00Z", "@at", "@at ", "@every 999ms"),
        *("@every 10000000h", "@every -1s", "@every x", "@every", "@every  1s", "@Hourly"),
        *("@reboot", "* * * * *", "0 0 0 30 2 *", "x"),
    ],
)
def test_patterns_that_nats_server_refuses(pattern: str) -> None:
    block = block_of(Nats_Schedule=pattern.encode(), Nats_Schedule_Target=b"s.t")
    assert error_of(block) == 10189
    assert error_of(block, FORBIDDEN) == 10188


@pytest.mark.parametrize("pattern", [b"", b"@at 0001-01-01T00:00:00Z", None])
def test_no_pattern_and_the_zero_time_are_no_schedule(pattern: bytes | None) -> None:
    block = block_of(Nats_Schedule=pattern, A=b"1")
    assert check_schedule(block, b"s.h", FORBIDDEN, NOW_NS, find_zone) == block
    assert schedule_of(block, find_zone) is None


@pytest.mark.parametrize(
    ("zone", "pattern", "error"),
    [
        (b"UTC", b"@daily", 0),
        (b"America/St_Johns", b"0 0 0 1 1 *", 0),
        (b"UTC", None, 0),
        (b"UTC", b"@every 1h", 10189),
        (b"UTC", FAR, 10189),
        (b"Foo/Bar", b"@daily", 10223),
        (b"Foo/Bar", FAR, 10223),
        (b"Foo/Bar", None, 10223),
        (b"", None, 10223),
        (b"\xff", None, 10223),
    ],
)
def test_a_time_zone_goes_with_cron_and_is_checked_always(
    zone: bytes, pattern: bytes | None, error: int
) -> None:
    headers = {"Nats_Schedule": pattern, "Nats_Schedule_Target": b"s.t"}
    block = block_of(**headers, Nats_Schedule_Time_Zone=zone)
    assert error_of(block) == error
    assert error_of(block, FORBIDDEN) == (10188 if error or pattern else 0)


# --- headers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "source", "error"),
    [
        (b"s.a", None, 0),
        (b"s.t", b"s.x", 0),
        (b"s.t", b"", 0),
        (None, None, 10190),
        (b"", None, 10190),
        (b"s.*", None, 10190),
        (b"s.>", None, 10190),
        (b"s..x", None, 10190),
        (b"s.a b", None, 10190),
        *((b"s.%b.b" % character, None, 10190) for character in BLANKS_AND_CONTROLS),
        *((b"s.a%bb" % character, None, 10190) for character in BLANKS_AND_CONTROLS),
        *((b"s.t", b"s.%b.b" % character, 10203) for character in BLANKS_AND_CONTROLS),
        (b"q.a", None, 10190),
        (b"s.ok ", None, 10190),
        (b"s.h", None, 10190),
        (b"s.t", b"s.t", 10203),
        (b"s.t", b"s.h", 10203),
        (b"s.t", b"s.*", 10203),
        (b"s.t", b"q.x", 10203),
        (b"q.t", b"q.x", 10190),
    ],
)
def test_targets_and_sources(target: bytes | None, source: bytes | None, error: int) -> None:
    headers = {"Nats_Schedule_Target": target, "Nats_Schedule_Source": source}
    assert error_of(block_of(Nats_Schedule=FAR, **headers)) == error


@pytest.mark.parametrize(
    ("headers", "error", "error_with_ttl"),
    [
        ({"Nats_Schedule_TTL": b"5m"}, 10166, 0),
        ({"Nats_Schedule_TTL": b"00"}, 10166, 0),
        ({"Nats_Schedule_TTL": b"never"}, 10166, 0),
        ({"Nats_Schedule_TTL": b""}, 0, 0),
        ({"Nats_Schedule_TTL": b"x"}, 10191, 10191),
        ({"Nats_Schedule_Rollup": b"sub"}, 0, 0),
        ({"Nats_Schedule_Rollup": b""}, 0, 0),
        ({"Nats_Schedule_Rollup": b"SUB"}, 10192, 10192),
        ({"Nats_Schedule_Rollup": b"all"}, 10192, 10192),
        ({"Nats_Schedule_Rollup": b"all", "Nats_Schedule_TTL": b"5"}, 10192, 10192),
        ({"Nats_Rollup": b"sub"}, 0, 0),
        ({"Nats_Rollup": b"SUB"}, 0, 0),
        ({"Nats_Rollup": b"all"}, 10192, 10192),
        ({"Nats_Rollup": b"x"}, 10192, 10192),
    ],
)
def test_what_copies_may_carry(headers: dict[str, bytes], error: int, error_with_ttl: int) -> None:
    block = block_of(Nats_Schedule=FAR, Nats_Schedule_Target=b"s.t", **headers)
    assert error_of(block) == error
    assert error_of(block, WITH_TTL) == error_with_ttl


def test_a_schedule_takes_the_place_of_the_one_before_it() -> None:
    block = block_of(Nats_Schedule=FAR, Nats_Schedule_Target=b"s.t", Nats_Msg_Id=b"x")
    assert check_schedule(block, b"s.h", ALLOWED, NOW_NS, find_zone) == (
        b"NATS/1.0\r\nNats-Schedule: @at 2100-01-01T00:00:00Z\r\nNats-Schedule-Target: s.t\r\n"
        b"Nats-Msg-Id: x\r\nNats-Rollup: sub\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("following", "scheduler", "error", "error_if_forbidden"),
    [
        (None, None, 0, 0),
        (None, b"s.sched", 10212, 10212),
        (b"", b"s.sched", 10212, 10212),
        (b"purge", None, 10212, 10212),
        (b"purge", b"", 10212, 10212),
        (b"purge", b"s.y", 10212, 10212),
        (b"purge", b"s.*", 10212, 10212),
        (b"purge", b"s. .x", 10212, 10212),
        (b"purge", b"s.\n.x", 10212, 10212),
        (b"purge", b"s.plain", 10212, 10188),
        (b"purge", b"s.none", 0, 10188),
        (b"purge", b"q.none", 0, 10188),
        (b"purge", b"s.sched", 0, 10188),
        (b"2030-01-01T00:00:00Z", b"s.sched", 10212, 10212),
    ],
)
def test_a_client_may_only_end_a_schedule(
    following: bytes | None, scheduler: bytes | None, error: int, error_if_forbidden: int
) -> None:
    stored = {b"s.sched": block_of(Nats_Schedule=FAR), b"s.plain": b""}
    block = block_of(Nats_Schedule_Next=following, Nats_Scheduler=scheduler)
    for allowed, expected in ((True, error), (False, error_if_forbidden)):
        try:
            check_scheduler(block, b"s.y", allowed, stored.get)
        except ApiError as refused:
            found = refused.err_code
        else:
            found = 0
        assert found == expected


# --- times ----------------------------------------------------------------------------------------


def next_texts(pattern: str, zone: str | None, count: int) -> list[str]:
    schedule = parse_schedule(pattern, ZoneInfo(zone) if zone else None)
    assert schedule is not None
    texts, last_ns = [], NOW_NS
    for _ in range(count):
        due = schedule.next_after(last_ns, NOW_NS)
        assert due.repeats
        texts.append(due.text.removeprefix("2026-11-15T"))
        last_ns = due.time_ns
    return texts


@pytest.mark.parametrize(
    ("pattern", "zone", "texts"),
    [
        ("@every 1s", None, ["05:15:46Z", "05:15:47Z"]),
        ("@every 1.5s", None, ["05:15:46.5Z", "05:15:48.5Z", "05:15:50.5Z"]),
        ("*/2 * * * * *", None, ["05:15:46Z", "05:15:48Z", "05:15:50Z"]),
        ("*/2 * * * * *", "America/St_Johns", ["01:45:46-03:30", "01:45:48-03:30"]),
        ("*/2 * * * * *", "Asia/Kolkata", ["10:45:46+05:30", "10:45:48+05:30"]),
        ("@hourly", None, ["06:00:00Z", "07:00:00Z"]),
        ("@daily", None, ["2026-11-16T00:00:00Z"]),
        ("@weekly", None, ["2026-11-22T00:00:00Z"]),
        ("@monthly", None, ["2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"]),
        ("@yearly", None, ["2027-01-01T00:00:00Z"]),
    ],
)
def test_the_next_times(pattern: str, zone: str | None, texts: list[str]) -> None:
    assert next_texts(pattern, zone, len(texts)) == texts


@pytest.mark.parametrize("pattern", ["@every 1m", "0 * * * * *"])
def test_times_that_passed_unattended_are_made_up_for_once(pattern: str) -> None:
    schedule = parse_schedule(pattern)
    assert schedule is not None
    hours_ago_ns = NOW_NS - 7200 * SECOND
    following = schedule.next_after(hours_ago_ns, NOW_NS)
    assert NOW_NS < following.time_ns <= NOW_NS + 61 * SECOND


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("@at 2026-11-15T05:15:45.389Z", NOW_NS),
        ("@at 9999-01-01T00:00:00Z", 2**63 - 1),
        ("@at 0000-01-01T00:00:00Z", -(2**63)),
    ],
)
def test_a_single_time_is_kept_within_64_bits(text: str, time_ns: int) -> None:
    schedule = parse_schedule(text)
    assert schedule is not None
    assert schedule.next_after(NOW_NS, NOW_NS)[::2] == (time_ns, False)


# --- copies ---------------------------------------------------------------------------------------

SOURCE = (b"NATS/1.0\r\nS: 1\r\nNats-TTL: 100\r\nNats-Rollup: sub\r\n\r\n", b"source body")


def copy_of(block: bytes, body: bytes = b"body") -> Copy | None:
    stored = {b"s.src": SOURCE}
    due_ns = 1_794_719_746 * SECOND
    return copy_to_publish(b"s.h", block, body, due_ns, due_ns + 1, find_zone, stored.get)


@pytest.mark.parametrize(
    ("headers", "stored"),
    [
        (
            {
                "Nats_Schedule": b"@at 2026-11-15T05:14:05Z",
                "A": b"1",
                "Nats_Msg_Id": b"id1",
                "Nats_Expected_Last_Sequence": b"0",
                "Nats_TTL": b"50",
                "Nats_Rollup": b"sub",
                "B": b"2",
            },
            b"A: 1\r\nB: 2\r\nNats-Scheduler: s.h\r\nNats-Schedule-Next: purge\r\n",
        ),
        (
            {"Nats_Schedule": b"@at 2026-11-15T05:14:05Z"},
            b"Nats-Scheduler: s.h\r\nNats-Schedule-Next: purge\r\n",
        ),
        (
            {
                "Nats_Schedule": b"@every 1s",
                "Nats_Schedule_TTL": b"5m",
                "Nats_Schedule_Rollup": b"sub",
                "X": b"y",
                "Nats_Rollup": b"sub",
            },
            b"X: y\r\nNats-Scheduler: s.h\r\nNats-Schedule-Next: 2026-11-15T05:15:47Z\r\n"
            b"Nats-TTL: 5m\r\nNats-Rollup: sub\r\n",
        ),
        (
            {"Nats_Schedule": b"*/2 * * * * *", "Nats_Schedule_Source": b"s.nothere"},
            b"Nats-Scheduler: s.h\r\nNats-Schedule-Next: 2026-11-15T05:15:48Z\r\n",
        ),
    ],
)
def test_a_copy_carries_what_the_schedule_does(headers: dict[str, bytes], stored: bytes) -> None:
    block = block_of(**headers, Nats_Schedule_Target=b"s.t")
    assert copy_of(block) == Copy(b"s.t", b"NATS/1.0\r\n" + stored + b"\r\n", b"body")


def test_a_copy_may_be_of_the_last_message_of_another_subject() -> None:
    block = block_of(
        Nats_Schedule=b"*/2 * * * * *",
        Nats_Schedule_Target=b"s.t",
        Nats_Schedule_Time_Zone=b"America/St_Johns",
        Nats_Schedule_Source=b"s.src",
    )
    assert copy_of(block) == Copy(
        b"s.t",
        b"NATS/1.0\r\nS: 1\r\nNats-Scheduler: s.h\r\n"
        b"Nats-Schedule-Next: 2026-11-15T01:45:48-03:30\r\n\r\n",
        b"source body",
    )


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Nats_Schedule": b"nonsense", "Nats_Schedule_Target": b"s.t"},
        {"Nats_Schedule": b"@hourly"},
        # Targets that an older version stored.
        {"Nats_Schedule": b"@hourly", "Nats_Schedule_Target": b"s. .t"},
        {"Nats_Schedule": b"@hourly", "Nats_Schedule_Target": b"s.\n.t"},
        {"Nats_Schedule": b"@hourly", "Nats_Schedule_Target": b"s.\r.t"},
        {"Nats_Schedule": b"@hourly", "Nats_Schedule_Target": b"s.t", "Nats_Schedule_TTL": b"x"},
        {
            "Nats_Schedule": b"@hourly",
            "Nats_Schedule_Target": b"s.t",
            "Nats_Schedule_Time_Zone": b"Gone/Since",
        },
    ],
)
def test_a_message_that_is_no_schedule_has_no_copy(headers: dict[str, bytes]) -> None:
    assert copy_of(block_of(**headers)) is None


@given(st.text("@ateverhouly 0123456789:-TZ*/,smh"))
def test_any_pattern_is_a_schedule_or_refused(pattern: str) -> None:
    try:
        schedule = parse_schedule(pattern)
        due = None if schedule is None else schedule.next_after(NOW_NS, NOW_NS)
    except ScheduleError as error:
        reason = str(error)
    else:
        assert due is None or not due.repeats or due.time_ns >= NOW_NS
        return
    assert reason
