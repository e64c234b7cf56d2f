"""An ExpiryQueue tells what is due, in order of time, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.store.index.expiry import ExpiryQueue

pairs = st.lists(
    st.tuples(st.integers(1, 2**64 - 1), st.integers(1, 2**62)), unique_by=lambda pair: pair[0]
)


@given(pairs, pairs, st.integers(0, 2**62))
def test_tells_what_is_due_oldest_first(
    one_by_one: list[tuple[int, int]], at_once: list[tuple[int, int]], now_ns: int
) -> None:
    queue = ExpiryQueue()
    for sequence, expiry_ns in one_by_one:
        queue.add(sequence, expiry_ns)
    queue.extend(at_once)
    everything = sorted((expiry, sequence) for sequence, expiry in one_by_one + at_once)
    due = [(sequence, expiry) for expiry, sequence in everything if expiry <= now_ns]
    later = [(sequence, expiry) for expiry, sequence in everything if expiry > now_ns]
    assert queue.due(now_ns) == due
    assert queue.due(now_ns) == []
    assert sorted(queue.pending()) == sorted(later)
    assert len(queue) == len(later)
    assert queue.next_ns() == (later[0][1] if later else 0)


@given(pairs, st.integers(0, 2**64))
def test_a_cut_forgets_what_comes_after_a_sequence(
    given_pairs: list[tuple[int, int]], last_sequence: int
) -> None:
    queue = ExpiryQueue()
    queue.extend(given_pairs)
    queue.cut(last_sequence)
    kept = [pair for pair in given_pairs if pair[0] <= last_sequence]
    assert sorted(queue.pending()) == sorted(kept)
    assert queue.due(2**63) == sorted(kept, key=lambda pair: (pair[1], pair[0]))
