"""Records of the meta group for tests: strategies, streams and servers by short names."""

from collections.abc import Iterable
from typing import Any, Final

from hypothesis import strategies as st

from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.meta.assignments import Assignments
from headwater.jetstream.meta.codec import decode_entry, encode_entry
from headwater.jetstream.meta.records import (
    INCARNATION_BYTES,
    AnswerTo,
    MetaRecord,
    ReplicaCause,
    ReplicasChanged,
    ReplicasSettled,
    ServerDescribed,
    ServerRemoved,
    StreamAssigned,
    StreamUnassigned,
    StreamUpdated,
)
from headwater.jetstream.records import StreamCreated
from tests.kit.record_values import NAMES, STREAM_CONFIGS, TIMES_NS

GIB: Final = 1 << 30
CLUSTER: Final = "trio"


def incarnation(number: int) -> bytes:
    """Another one for each number."""
    return number.to_bytes(INCARNATION_BYTES, "little")


def created(name: str, number: int, account: str = "A", **settings: Any) -> StreamCreated:
    """The creation of a stream, as the API has checked it."""
    config = StreamConfig(**{"name": name, "num_replicas": 1, **settings})
    return StreamCreated(account, name, incarnation(number), config, number)


def described(name: str, *tags: str, storage: int = GIB, cluster: str = CLUSTER) -> ServerDescribed:
    """A server with room for streams."""
    return ServerDescribed(name, cluster, tags, GIB // 4, storage)


def apply_all(assignments: Assignments, records: Iterable[MetaRecord]) -> None:
    """Apply the records of one entry, as another server reads them."""
    for record in decode_entry(encode_entry([*records])):
        assignments.apply(record)


# --- strategies -----------------------------------------------------------------------------------

_INCARNATIONS: Final = st.binary(min_size=INCARNATION_BYTES, max_size=INCARNATION_BYTES)
_NAME_LISTS: Final = st.lists(NAMES, max_size=4, unique=True).map(tuple)
_SERVER_LISTS: Final = st.lists(NAMES, min_size=1, max_size=4, unique=True).map(tuple)
_TEXTS: Final = st.binary(max_size=20)
_ANSWERS: Final = st.none() | st.builds(AnswerTo, NAMES, _TEXTS, _TEXTS, _TEXTS, _TEXTS)
_BYTES: Final = st.integers(-1, 2**63 - 1)


def _streams(
    names: st.SearchStrategy[str],
    incarnations: st.SearchStrategy[bytes],
    configs: st.SearchStrategy[StreamConfig],
) -> st.SearchStrategy[MetaRecord]:
    stream = (names, names, incarnations)
    causes = st.sampled_from(ReplicaCause)
    return st.one_of(
        st.builds(StreamAssigned, *stream, configs, TIMES_NS, _SERVER_LISTS, _ANSWERS),
        st.builds(StreamUpdated, *stream, configs, _ANSWERS),
        st.builds(ReplicasChanged, *stream, _SERVER_LISTS, causes, _NAME_LISTS, _ANSWERS),
        st.builds(ReplicasSettled, *stream, _SERVER_LISTS),
        st.builds(StreamUnassigned, *stream, _ANSWERS),
    )


_SERVER_RECORDS: Final = st.one_of(
    st.builds(ServerDescribed, NAMES, NAMES, _NAME_LISTS, _BYTES, _BYTES, st.booleans()),
    st.builds(ServerRemoved, NAMES, _ANSWERS),
)
META_RECORDS: Final[st.SearchStrategy[MetaRecord]] = st.one_of(
    _streams(NAMES, _INCARNATIONS, STREAM_CONFIGS), _SERVER_RECORDS
)
# Of few streams, so that most records find one.
COLLIDING_RECORDS: Final[st.SearchStrategy[MetaRecord]] = st.one_of(
    _streams(
        st.sampled_from("ST"),
        st.integers(1, 3).map(incarnation),
        st.builds(StreamConfig, name=NAMES, num_replicas=st.integers(1, 5)),
    ),
    st.builds(ServerDescribed, st.sampled_from("abc"), NAMES),
    st.builds(ServerRemoved, st.sampled_from("abc")),
)
