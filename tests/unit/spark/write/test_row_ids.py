"""Ids of rows: the same rows have the same ids in whatever order and pieces they come."""

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from headwater.spark.write.row_ids import CONTENT_BYTES, RowIds, added_sums, short_query

Row = tuple[bytes, bytes, bytes]

QUERY = "c126ec6a43854d87"
ROWS = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"a.b", b"c"]),
        st.sampled_from([b"", b"A: 1\r\n", b"A: 2\r\n"]),
        st.binary(max_size=3),
    ),
    max_size=40,
)


def ids_of(rows: list[Row], pieces: int = 1, partition: int = 3) -> list[bytes]:
    ids = RowIds(QUERY, 7, partition)
    made: list[bytes] = []
    step = max(1, -(-len(rows) // pieces))
    for begin in range(0, len(rows), step):
        piece = rows[begin : begin + step]
        made += ids.of([row[0] for row in piece], [row[1] for row in piece], [r[2] for r in piece])
    return made


def test_an_id_names_query_batch_and_partition() -> None:
    (row_id,) = ids_of([(b"a", b"", b"data")])
    assert re.fullmatch(rb"c126ec6a43854d87-7-3-[A-Za-z0-9+/]{16}-0", row_id)
    assert row_id.startswith(RowIds(QUERY, 7, 3).prefix)


def test_a_query_is_known_by_16_of_its_32_digits() -> None:
    assert short_query("c126ec6a-4385-4d87-a257-f377b24427fe") == QUERY


@given(ROWS)
def test_no_two_rows_of_a_partition_share_an_id(rows: list[Row]) -> None:
    assert len(set(ids_of(rows))) == len(rows)


@given(ROWS, st.randoms(use_true_random=False), st.integers(1, 5))
def test_neither_order_nor_pieces_matter(rows: list[Row], random: object, pieces: int) -> None:
    shuffled = [*rows]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    by_row: dict[Row, list[bytes]] = {}
    for row, row_id in zip(rows, ids_of(rows), strict=True):
        by_row.setdefault(row, []).append(row_id)
    for row, row_id in zip(shuffled, ids_of(shuffled, pieces), strict=True):
        assert row_id in by_row[row]


@given(ROWS)
def test_equal_rows_are_counted_from_0(rows: list[Row]) -> None:
    seen: Counter[Row] = Counter()
    for row, row_id in zip(rows, ids_of(rows), strict=True):
        assert row_id.endswith(b"-%d" % seen[row])
        seen[row] += 1


def test_other_partitions_and_batches_have_other_ids() -> None:
    row: list[Row] = [(b"a", b"", b"data")]
    assert ids_of(row, partition=1) != ids_of(row, partition=2)
    assert RowIds(QUERY, 1, 0).of([b"a"], [b""], [b""]) != RowIds(QUERY, 2, 0).of(
        [b"a"], [b""], [b""]
    )


def test_what_reads_alike_when_joined_is_told_apart() -> None:
    rows: list[Row] = [
        (b"a", b"", b"b"),
        (b"a\r\nb", b"", b""),
        (b"a", b"6\r\n", b"A: 1\r\n"),
        (b"a", b"", b"6\r\nA: 1\r\n"),
        (b"a", b"A: 1\r\n", b""),
    ]
    assert len({row_id[-18:-2] for row_id in ids_of(rows)}) == len(rows)


@given(ROWS)
def test_the_digest_is_that_of_the_rows_in_their_order(rows: list[Row]) -> None:
    def digest(rows: list[Row]) -> str:
        ids = RowIds(QUERY, 0, 0)
        for row in rows:
            ids.of([row[0]], [row[1]], [row[2]])
        assert ids.count == len(rows)
        return ids.digest()

    assert digest(rows) == digest([*rows])
    assert (digest(rows) == digest(rows[::-1])) == (rows == rows[::-1])
    assert not rows or digest(rows) != digest(rows[:-1])


def sum_of(rows: list[Row], partition: int = 0) -> int:
    ids = RowIds(QUERY, 0, partition)
    ids.of([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])
    return ids.content_sum


@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 40))
def test_sums_of_partitions_add_up_however_rows_are_cut_and_ordered(
    rows: list[Row], random: object, cut: int
) -> None:
    shuffled = [*rows]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    parts = (sum_of(shuffled[:cut], 1), sum_of(shuffled[cut:], 2))
    assert added_sums(*parts) == sum_of(rows) < 1 << (8 * CONTENT_BYTES)


@given(ROWS, ROWS)
def test_other_rows_have_another_sum(rows: list[Row], others: list[Row]) -> None:
    assert (sum_of(rows) == sum_of(others)) == (Counter(rows) == Counter(others))
