"""Sources: the messages of an origin become messages of the stream, each with a note of its origin.

Before each record of messages stands one about the position of the source, which holds once these
messages are stored. A message whose id the stream knows already is passed over, and its position
counts all the same.
"""

from headwater.base.entropy import Entropy
from headwater.jetstream.copying.arrivals import Arrivals
from headwater.jetstream.copying.headers import sourced
from headwater.jetstream.copying.origins import Origin
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Copying, Proposal
from headwater.jetstream.records import Copied, Published, Record, Skipped
from headwater.jetstream.streams.limits import OVERHEAD_BYTES_MAX
from headwater.jetstream.streams.publishing import checks
from headwater.jetstream.streams.publishing.checks import DuplicateError
from headwater.jetstream.streams.stream import Stream
from headwater.store.log.message_log import Batch


def decide(
    stream: Stream,
    origin: Origin,
    arrivals: Arrivals,
    identity: bytes,
    entropy: Entropy,
    now_ns: int,
) -> Copying:
    """The records for messages of a source that follow those which were copied."""
    now_ns = stream.look_ahead.stream_time(now_ns)
    subjects = origin.subjects_of(arrivals.subjects, entropy)
    provenances = origin.provenances(arrivals.sequences, arrivals.subjects, identity)
    headers = sourced(arrivals.headers, provenances)
    if _is_plain(stream, subjects, headers, arrivals.payloads):
        count, first = len(subjects), stream.look_ahead.next_sequence
        batch = Batch(subjects, headers, arrivals.payloads, [now_ns] * count)
        last = first + count - 1
        position = Copied(origin.index_name, arrivals.sequences[-1], identity, last)
        return Copying(Proposal([position, Published(first, batch)]))
    return _decide_each(stream, origin, arrivals, subjects, headers, identity, now_ns)


def _is_plain(
    stream: Stream, subjects: list[bytes], headers: list[bytes], payloads: list[bytes]
) -> bool:
    """Whether messages need no check of their own."""
    ahead, config = stream.look_ahead, stream.config
    if not stream.publishing.rules.takes_plain or ahead.is_reconfigured:
        return False
    largest = max(map(int.__add__, map(len, headers), map(len, payloads)))
    subject_bytes = sum(map(len, subjects))
    size = sum(map(len, headers)) + sum(map(len, payloads)) + subject_bytes
    size += len(subjects) * OVERHEAD_BYTES_MAX + ahead.byte_count
    return checks.pass_all(
        config, ahead, subjects, headers, subject_bytes, largest, checks.SOURCED_LINES
    ) and stream.host.has_room(config.storage, size * (config.num_replicas or 1))


def _decide_each(
    stream: Stream,
    origin: Origin,
    arrivals: Arrivals,
    subjects: list[bytes],
    headers: list[bytes],
    identity: bytes,
    now_ns: int,
) -> Copying:
    """Check messages one by one, up to the first one that is refused."""
    admission = stream.publishing.admission(now_ns)
    refusal = None
    # The sequence of the source behind each sequence of the stream, and behind all messages.
    copied: dict[int, int] = {}
    done = 0
    for subject, header, payload, sequence in zip(
        subjects, headers, arrivals.payloads, arrivals.sequences, strict=True
    ):
        try:
            admission.admit_sourced(subject, header, payload)
            copied[admission.draft.next_sequence - 1] = sequence
        except DuplicateError:
            pass
        except ApiError as error:
            refusal = error
            break
        done = sequence
    records: list[Record] = []
    for record in admission.finish():
        assert isinstance(record, Published | Skipped)
        last = record.last_sequence
        records += (Copied(origin.index_name, copied[last], identity, last), record)
    if done and not (copied and copied[max(copied)] == done):
        records.append(Copied(origin.index_name, done, identity))
    proposal: Proposal[Record] = Proposal(records)
    proposal.republished = admission.republished
    return Copying(proposal, refusal)
