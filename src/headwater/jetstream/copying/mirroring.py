"""Mirrors: the messages of an origin become records with the sequences and times they have there.

A gap between two messages stays a gap. Messages that need no check of their own are stored as they
come, one record for each run of consecutive sequences.
"""

from itertools import pairwise
from typing import Final

from headwater.base.entropy import Entropy
from headwater.jetstream import header_names as names
from headwater.jetstream.copying.arrivals import Arrivals
from headwater.jetstream.copying.headers import copied
from headwater.jetstream.copying.origins import Origin
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Copying, Proposal
from headwater.jetstream.records import Copied, Published, Record, Skipped
from headwater.jetstream.streams.limits import OVERHEAD_BYTES_MAX
from headwater.jetstream.streams.publishing import checks
from headwater.jetstream.streams.stream import Stream
from headwater.store.log.message_log import Batch

# The beginnings of the names of headers on which a stream may act.
_ACTED_ON: Final = (names.TTL, names.ROLLUP, names.SCHEDULE, b"Nats-Request-Info")


def decide(stream: Stream, origin: Origin, arrivals: Arrivals, entropy: Entropy) -> Copying:
    """The records for messages that follow those the stream has, or will have."""
    ahead = stream.look_ahead
    following = ahead.next_sequence
    arrivals = _from(following, arrivals)
    if not len(arrivals):
        return Copying(Proposal())
    subjects = origin.subjects_of(arrivals.subjects, entropy)
    headers = copied(arrivals.headers)
    if _is_plain(stream, subjects, headers, arrivals.payloads):
        return Copying(Proposal(_runs(arrivals, subjects, headers, following, ahead.last_ns)))
    return _decide_each(stream, arrivals, subjects, headers)


def _from(following: int, arrivals: Arrivals) -> Arrivals:
    """The messages without those that the mirror is past, because a purge has moved its end."""
    begin, count = 0, len(arrivals)
    while begin < count and arrivals.sequences[begin] < following:
        begin += 1
    return arrivals.part(begin, count) if begin else arrivals


def beginning(stream: Stream, origin: Origin, sequence: int, identity: bytes) -> Proposal[Record]:
    """Note which stream the origin is, and give out all sequences up to one that it no longer has.

    A mirror that goes on with another stream of the name would mix the messages of two streams.
    """
    ahead, records = stream.look_ahead, list[Record]()
    if identity and stream.positions.of(origin.index_name).identity != identity:
        records.append(Copied(origin.index_name, 0, identity))
    if sequence >= ahead.next_sequence:
        records.append(Skipped(sequence, b"", b"", max(ahead.last_ns, 0)))
    return Proposal(records)


def completing(stream: Stream, origin: Origin, sequence: int, identity: bytes) -> Proposal[Record]:
    """Note the sequence of the origin up to which the mirror has all messages that it is to have.

    The origin has told it behind these messages, because the filter leaves out what came later.
    """
    known = stream.positions.of(origin.index_name)
    is_new = sequence >= stream.look_ahead.next_sequence and sequence > known.sequence
    if not is_new or known.identity != identity:
        return Proposal()
    return Proposal([Copied(origin.index_name, sequence, identity)])


def _is_plain(
    stream: Stream, subjects: list[bytes], headers: list[bytes], payloads: list[bytes]
) -> bool:
    """Whether messages need no check of their own."""
    rules, config = stream.publishing.rules, stream.config
    if not rules.takes_plain or stream.look_ahead.is_reconfigured:
        return False
    header_bytes = sum(map(len, headers))
    if header_bytes:
        joined = b"".join(headers)
        if any(map(joined.count, _ACTED_ON)) or max(map(len, headers)) > checks.HEADER_BYTES_MAX:
            return False
        largest = max(map(int.__add__, map(len, headers), map(len, payloads)))
    else:
        largest = max(map(len, payloads))
    subject_bytes = sum(map(len, subjects))
    size = header_bytes + sum(map(len, payloads)) + subject_bytes
    size += len(subjects) * OVERHEAD_BYTES_MAX + stream.look_ahead.byte_count
    return (
        checks.all_fit_records(subjects, subject_bytes, largest)
        and checks.all_within_message_size(config, largest)
        and stream.host.has_room(config.storage, size * (config.num_replicas or 1))
    )


def _runs(
    arrivals: Arrivals, subjects: list[bytes], headers: list[bytes], following: int, last_ns: int
) -> list[Record]:
    """A record for each run of consecutive sequences, and one for each gap."""
    sequences, times_ns = arrivals.sequences, arrivals.timestamps_ns
    count = len(sequences)
    begins = [0]
    if sequences[-1] - sequences[0] != count - 1:
        begins += [at for at in range(1, count) if sequences[at] != sequences[at - 1] + 1]
    records: list[Record] = []
    for begin, end in pairwise((*begins, count)):
        first = sequences[begin]
        if first > following:
            records.append(Skipped(first - 1, b"", b"", max(last_ns, 0)))
        batch = Batch(
            subjects[begin:end],
            headers[begin:end],
            arrivals.payloads[begin:end],
            times_ns[begin:end],
        )
        records.append(Published(first, batch))
        following, last_ns = first + end - begin, times_ns[end - 1]
    return records


def _decide_each(
    stream: Stream, arrivals: Arrivals, subjects: list[bytes], headers: list[bytes]
) -> Copying:
    """Check messages one by one, up to the first one that is refused."""
    admission = stream.publishing.admission(arrivals.timestamps_ns[0])
    refusal = None
    for message in zip(
        subjects,
        headers,
        arrivals.payloads,
        arrivals.sequences,
        arrivals.timestamps_ns,
        strict=True,
    ):
        try:
            admission.admit_mirrored(*message)
        except ApiError as error:
            refusal = error
            break
    proposal: Proposal[Record] = Proposal(admission.finish())
    proposal.republished = admission.republished
    return Copying(proposal, refusal)
