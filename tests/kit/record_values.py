"""Records for tests of their bytes: one example of every kind, and strategies for any values."""

from typing import Any, Final

from hypothesis import strategies as st

from headwater.go.json import Time
from headwater.jetstream.codec.record_codec import AnyRecord
from headwater.jetstream.config.consumer_config import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    PriorityPolicy,
    ReplayPolicy,
)
from headwater.jetstream.config.stream_config import (
    Compression,
    ConsumerLimits,
    Discard,
    ExternalStream,
    PersistMode,
    Placement,
    ReadConsistency,
    Republish,
    Retention,
    Storage,
    StreamConfig,
    StreamSource,
    SubjectTransformConfig,
    WriteConsistency,
)
from headwater.jetstream.consumers.records import (
    Acked,
    ConsumerConfigured,
    ConsumerCreated,
    ConsumerDeleted,
    ConsumerReset,
    Delivered,
    Dropped,
    Exhausted,
    Forgotten,
    Pinned,
    Postponed,
)
from headwater.jetstream.records import (
    Configured,
    Copied,
    Published,
    Purged,
    Removed,
    Skipped,
    StreamCreated,
    StreamDeleted,
)
from headwater.store.log.message_log import Batch

NOW_NS: Final = 1_800_000_000_123_456_789
INCARNATION: Final = bytes(range(16))
HEADER: Final = b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"
LARGE_HEADER: Final = b"NATS/1.0\r\nname: " + b"v" * 65_517 + b"\r\n\r\n"
LONG_SUBJECT: Final = b"S." + b"x" * 65_533

CONSUMER_CONFIG: Final = ConsumerConfig(
    durable_name="é",
    deliver_policy=DeliverPolicy.BY_START_TIME,
    opt_start_time=Time(NOW_NS, "2027-01-15T09:00:00.123456789+01:00"),
    ack_policy=AckPolicy.EXPLICIT,
    backoff=(1, 2**62),
    filter_subjects=("a.*", "b.>"),
    metadata={"a": "<>&"},
    max_deliver=3,
)
STREAM_CONFIG: Final = StreamConfig(
    name="S",
    description="\u2028 and \U0001f600",
    subjects=("a", "b.*"),
    retention=Retention.WORKQUEUE,
    max_msgs=-1,
    placement=Placement(cluster="c", tags=("x",)),
    sources=(
        StreamSource(
            name="O",
            opt_start_time=Time.from_json(b'"2026-01-02T03:04:05.678+02:00"'),
            subject_transforms=(SubjectTransformConfig(src="a", dest="b"),),
            external=ExternalStream(api="$JS.x.API"),
        ),
    ),
    republish=Republish(src="a", dest="r.a", headers_only=True),
    consumer_limits=ConsumerLimits(max_ack_pending=5),
    metadata={"key": "value", "<": ">"},
    ack_timeout=0,
)

# At least one record of every kind.
EXAMPLES: Final[list[AnyRecord]] = [
    Published(7, Batch([b"S.a"], [b""], [b"x"], [NOW_NS])),
    Published(
        2**63,
        Batch([b"S.a", b"S.b"], [HEADER, b""], [b"", b"x" * 300], [NOW_NS, -1], [0, NOW_NS]),
        rolls_up=True,
    ),
    Skipped(8, b"S.a", HEADER, NOW_NS),
    Removed([9, 2, 3, 4, 7], erase=True),
    Removed([]),
    Purged(b">", 2**63, 5, NOW_NS),
    Configured(STREAM_CONFIG, NOW_NS),
    Copied(b"O > >", 2**63, b"abcdefgh", 9),
    Copied(b"", 0, b""),
    StreamCreated("$G", "S", INCARNATION, STREAM_CONFIG, NOW_NS),
    StreamDeleted("é", "S", INCARNATION),
    ConsumerCreated("C", CONSUMER_CONFIG, NOW_NS, 7, 12),
    ConsumerConfigured("C", CONSUMER_CONFIG, 5),
    ConsumerDeleted("C"),
    ConsumerReset("C", 2**63),
    Delivered("C", [9, 2, 5], [10, 11, 12, 20], NOW_NS),
    Delivered("C", (), range(1, 1000), NOW_NS),
    Acked("C", [3], NOW_NS),
    Acked("C", [], NOW_NS, (2, 3)),
    Acked("C", [1, 2, 5], NOW_NS, (2, 5)),
    Postponed("C", [5, 1], [NOW_NS, -5]),
    Exhausted("C", [1, 7]),
    Dropped("C", [1, 7]),
    Forgotten("C", 7, NOW_NS),
    Pinned("C", "id", NOW_NS),
    Pinned("C", "", 0),
]


def values_of(record: AnyRecord) -> dict[str, Any]:
    """All values of a record, alike for equal records."""
    values: dict[str, Any] = {"kind": type(record).__name__}
    for name in record.__slots__:
        value = getattr(record, name)
        if isinstance(value, Batch):
            values |= {column: [*getattr(value, column)] for column in Batch.COLUMNS}
            values["expiries_ns"] = value.expiries_ns if any(value.expiries_ns) else []
        elif name in ("again", "sequences", "sent_ns"):
            # The sequences of these are sets.
            is_set = isinstance(record, Acked | Exhausted | Dropped)
            values[name] = sorted({*value}) if is_set else [*value]
        elif name != "encoded":
            values[name] = value
    return values


# --- strategies -----------------------------------------------------------------------------------

SEQUENCES: Final = st.integers(1, 2**64 - 1)
NUMBERS: Final = st.integers(0, 2**64 - 1)
TIMES_NS: Final = st.integers(-(2**63), 2**63 - 1)
NAMES: Final = st.text(max_size=20)
_SUBJECTS: Final = st.one_of(
    st.binary(max_size=20), st.sampled_from([b"", b">", "S.ü.*".encode(), LONG_SUBJECT])
)
_HEADERS: Final = st.one_of(
    st.just(b""), st.binary(max_size=20), st.sampled_from([HEADER, LARGE_HEADER])
)
# Some of them follow each other, some do not, some are there twice.
SEQUENCE_LISTS: Final = st.one_of(
    st.lists(st.integers(1, 12), max_size=12),
    st.lists(SEQUENCES, max_size=4),
    st.tuples(st.integers(1, 2**40), st.integers(0, 3000)).map(
        lambda pair: [*range(pair[0], pair[0] + pair[1])]
    ),
)
_TEXTS: Final = st.lists(NAMES, max_size=3).map(tuple)
_INT64: Final = st.integers(-(2**63), 2**63 - 1)
_CLOCKS: Final = st.sampled_from(
    [
        None,
        Time.from_json(b'"2026-01-02T03:04:05.678+02:00"'),
        Time.from_json(b'"1970-01-01T00:00:00Z"'),
    ]
)
_SOURCES: Final = st.builds(
    StreamSource,
    name=NAMES,
    opt_start_seq=NUMBERS,
    opt_start_time=_CLOCKS,
    filter_subject=NAMES,
    subject_transforms=st.lists(
        st.builds(SubjectTransformConfig, src=NAMES, dest=NAMES), max_size=2
    ).map(tuple),
    external=st.none() | st.builds(ExternalStream, api=NAMES, deliver=NAMES),
)
STREAM_CONFIGS: Final = st.builds(
    StreamConfig,
    name=NAMES,
    subjects=_TEXTS,
    retention=st.sampled_from(Retention),
    max_msgs=_INT64,
    max_age=_INT64,
    discard=st.sampled_from(Discard),
    storage=st.sampled_from(Storage),
    compression=st.sampled_from(Compression),
    first_seq=NUMBERS,
    # An empty list of tags is left out of the JSON, and comes back as none.
    placement=st.none()
    | st.builds(Placement, cluster=NAMES, tags=_TEXTS.map(lambda texts: texts or None)),
    mirror=st.none() | _SOURCES,
    sources=st.lists(_SOURCES, max_size=2).map(tuple),
    republish=st.none() | st.builds(Republish, src=NAMES, dest=NAMES, headers_only=st.booleans()),
    sealed=st.booleans(),
    allow_atomic=st.booleans(),
    persist_mode=st.sampled_from(PersistMode),
    metadata=st.dictionaries(NAMES, NAMES, max_size=3),
    read_consistency=st.sampled_from(ReadConsistency),
    write_consistency=st.sampled_from(WriteConsistency),
    ack_timeout=st.none() | _INT64,
)
CONSUMER_CONFIGS: Final = st.builds(
    ConsumerConfig,
    durable_name=NAMES,
    deliver_policy=st.sampled_from(DeliverPolicy),
    opt_start_seq=NUMBERS,
    opt_start_time=_CLOCKS,
    ack_policy=st.sampled_from(AckPolicy),
    backoff=st.lists(_INT64, max_size=3).map(tuple),
    filter_subjects=_TEXTS,
    replay_policy=st.sampled_from(ReplayPolicy),
    flow_control=st.booleans(),
    metadata=st.dictionaries(NAMES, NAMES, max_size=3),
    pause_until=_CLOCKS,
    priority_policy=st.sampled_from(PriorityPolicy),
)


@st.composite
def _batches(draw: st.DrawFn) -> Batch:
    messages = draw(
        st.lists(
            st.tuples(_SUBJECTS, _HEADERS, st.binary(max_size=40), TIMES_NS, st.just(0) | TIMES_NS),
            min_size=1,
            max_size=4,
        )
    )
    subjects, headers, payloads, timestamps_ns, expiries_ns = map(list, zip(*messages, strict=True))
    return Batch(
        subjects, headers, payloads, timestamps_ns, draw(st.just([]) | st.just(expiries_ns))
    )


_POSTPONEMENTS: Final = st.lists(st.tuples(SEQUENCES, TIMES_NS), max_size=4)

PUBLISHES: Final[st.SearchStrategy[Published]] = st.builds(
    Published, st.integers(1, 2**63), _batches(), st.booleans()
)
RECORDS: Final[st.SearchStrategy[AnyRecord]] = st.one_of(
    PUBLISHES,
    st.builds(Skipped, SEQUENCES, _SUBJECTS, _HEADERS, TIMES_NS),
    st.builds(Removed, SEQUENCE_LISTS, st.booleans(), st.booleans()),
    st.builds(Purged, _SUBJECTS, NUMBERS, NUMBERS, TIMES_NS),
    st.builds(Configured, STREAM_CONFIGS, TIMES_NS),
    st.builds(Copied, _SUBJECTS, NUMBERS, st.binary(max_size=20), NUMBERS),
    st.builds(
        StreamCreated, NAMES, NAMES, st.binary(min_size=16, max_size=16), STREAM_CONFIGS, TIMES_NS
    ),
    st.builds(StreamDeleted, NAMES, NAMES, st.binary(min_size=16, max_size=16)),
    st.builds(ConsumerCreated, NAMES, CONSUMER_CONFIGS, TIMES_NS, NUMBERS, NUMBERS),
    st.builds(ConsumerConfigured, NAMES, CONSUMER_CONFIGS, NUMBERS),
    st.builds(ConsumerDeleted, NAMES),
    st.builds(ConsumerReset, NAMES, NUMBERS),
    st.builds(Delivered, NAMES, SEQUENCE_LISTS, SEQUENCE_LISTS, TIMES_NS),
    st.builds(Acked, NAMES, SEQUENCE_LISTS, TIMES_NS, st.none() | st.tuples(NUMBERS, NUMBERS)),
    st.builds(
        lambda name, pairs: Postponed(
            name, [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        ),
        NAMES,
        _POSTPONEMENTS,
    ),
    st.builds(Exhausted, NAMES, SEQUENCE_LISTS),
    st.builds(Dropped, NAMES, SEQUENCE_LISTS),
    st.builds(Forgotten, NAMES, NUMBERS, TIMES_NS),
    st.builds(Pinned, NAMES, NAMES, TIMES_NS),
)
