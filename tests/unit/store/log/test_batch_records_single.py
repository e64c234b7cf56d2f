"""A log is equal whether its messages came one by one or together."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.store.log.batch_records import encode_batch, message_sizes
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import Batch, StoredMessage
from headwater.store.store import open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng

MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"a.b", b"a.b.c"]),
        st.sampled_from([b"", b"NATS/1.0\r\nX: y\r\n\r\n"]),
        st.binary(max_size=20),
        st.sampled_from([0, 0, 0, 9]),
    ),
    min_size=1,
    max_size=6,
)


def batch_of(messages: list[tuple[bytes, bytes, bytes, int]], with_expiries: bool) -> Batch:
    subjects, headers, payloads, expiries = (
        [message[0] for message in messages],
        [message[1] for message in messages],
        [message[2] for message in messages],
        [message[3] for message in messages],
    )
    times = [7] * len(messages)
    return Batch(subjects, headers, payloads, times, expiries if with_expiries else None)


@given(MESSAGES, st.booleans())
def test_records_and_sizes_are_equal(
    messages: list[tuple[bytes, bytes, bytes, int]], with_expiries: bool
) -> None:
    batch = batch_of(messages, with_expiries)
    data, lengths = encode_batch(3, batch, 11)
    singles = [batch_of([message], with_expiries) for message in messages]
    encoded = [encode_batch(3 + number, single, 11) for number, single in enumerate(singles)]
    assert data == b"".join(part for part, _ in encoded)
    assert lengths == [length for _, (length,) in encoded]
    sizes = [
        message_sizes(single, one)[0] for single, (_, one) in zip(singles, encoded, strict=True)
    ]
    assert message_sizes(batch, lengths) == sizes


@given(MESSAGES, st.booleans())
def test_logs_in_memory_are_equal(
    messages: list[tuple[bytes, bytes, bytes, int]], with_expiries: bool
) -> None:
    together, single = MemoryLog(), MemoryLog()
    together.append(batch_of(messages, with_expiries))
    for message in messages:
        single.append(batch_of([message], with_expiries))
    assert (together.byte_count, together.messages) == (single.byte_count, single.messages)
    assert together.expiries.pending() == single.expiries.pending()
    for sequence in range(1, len(messages) + 2):
        assert together.get(sequence) == single.get(sequence)


@given(MESSAGES, st.sampled_from([0, 10, 1000]))
def test_a_file_is_read_message_by_message_as_it_is_read_at_once(
    messages: list[tuple[bytes, bytes, bytes, int]], bytes_max: int
) -> None:
    disk = SimDisk(1)
    entropy = SeededEntropy(labelled_rng(1, "store"))
    store = open_store(disk, "/store", entropy, disk.boot_id)
    log = store.create_stream("S", b"", 1)
    log.append(batch_of(messages, with_expiries=False))
    log.delete([2])
    log.append(batch_of(messages, with_expiries=False))
    at_once = log.read(1, 100, 1 << 30)
    read: list[StoredMessage] = []
    sequence = 1
    while len(one := log.read(sequence, 1, bytes_max)):
        read += one
        sequence = one.sequences[0] + 1
    assert read == [*at_once]
