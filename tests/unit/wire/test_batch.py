"""Segments of publishes: split, joined, and runs as lists."""

import pytest

from headwater.wire.batch import NO_HEADERS, Publishes, Run

Rows = list[tuple[bytes, bytes | None, int, bytes, bytes]]

ROWS: Rows = [
    (b"a", None, NO_HEADERS, b"1", b"x"),
    (b"b", b"reply", NO_HEADERS, b"2", b"yy"),
    (b"c", None, 12, b"12 15", b"NATS/1.0\r\n\r\nzzz"),
]


def publishes(rows: Rows) -> Publishes:
    """Publishes of these rows."""
    made = Publishes([], [], [], [], [])
    for subject, reply, header_size, size, payload in rows:
        made.subjects.append(subject)
        made.replies.append(reply)
        made.header_sizes.append(header_size)
        made.sizes.append(size)
        made.payloads.append(payload)
    return made


def rows_of(made: Publishes) -> Rows:
    """The rows of publishes, whose lists are all of one length."""
    columns = (made.subjects, made.replies, made.header_sizes, made.sizes, made.payloads)
    return [*zip(*columns, strict=True)]


@pytest.mark.parametrize("count", range(len(ROWS) + 1))
def test_publishes_are_split_and_joined_without_a_change(count: int) -> None:
    whole = publishes(ROWS)
    first, rest = whole.split_at(count)
    assert (rows_of(first), rows_of(rest)) == (ROWS[:count], ROWS[count:])
    assert rows_of(first.followed_by(rest)) == ROWS


def test_joining_changes_neither_part() -> None:
    first, later = publishes(ROWS[:1]), publishes(ROWS[1:])
    first.followed_by(later).subjects.append(b"more")
    assert (rows_of(first), rows_of(later)) == (ROWS[:1], ROWS[1:])


def test_a_run_is_split_into_runs_with_its_control_line() -> None:
    run = Run(b"s", b"r", NO_HEADERS, b"1", [b"1", b"2", b"3"])
    for part, payloads in zip(run.split_at(1), ([b"1"], [b"2", b"3"]), strict=True):
        assert (part.subject, part.reply, part.header_size, part.size) == (b"s", b"r", -1, b"1")
        assert part.payloads == payloads


def test_a_run_as_publishes_repeats_its_control_line() -> None:
    run = Run(b"s", b"r", NO_HEADERS, b"1", [b"1", b"2"])
    expected: Rows = [(b"s", b"r", NO_HEADERS, b"1", payload) for payload in (b"1", b"2")]
    assert rows_of(run.as_publishes()) == expected
