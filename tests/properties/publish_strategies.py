"""Strategies for streams with every kind of limit, and for publishes that they act on."""

from typing import Any

from hypothesis import strategies as st

from headwater.jetstream.config.stream_config import Discard
from tests.kit.stream_driver import Publish

SUBJECTS = ("S.a", "S.b", "S.c", "S.a.b")
SMALL = st.integers(min_value=0, max_value=6).map(str)

HEADERS: dict[str, st.SearchStrategy[str]] = {
    "Nats-Msg-Id": st.sampled_from(["x", "y", "z"]),
    "Nats-Expected-Last-Sequence": SMALL,
    "Nats-Expected-Last-Subject-Sequence": SMALL,
    "Nats-Expected-Last-Subject-Sequence-Subject": st.sampled_from(["S.a", "S.*", "S.>"]),
    "Nats-Expected-Last-Msg-Id": st.sampled_from(["x", "y"]),
    "Nats-Rollup": st.sampled_from(["sub", "all", "none"]),
    "Nats-TTL": st.sampled_from(["1", "5s", "never", "x"]),
    "Nats-Incr": st.sampled_from(["1", "-2", "x"]),
    "Nats-Schedule": st.sampled_from(["@at 2100-01-01T00:00:00Z", "@every 1h", "x"]),
    "Nats-Schedule-Target": st.sampled_from(["S.t", "S.a"]),
    "Nats-Schedule-Next": st.just("purge"),
    "Nats-Scheduler": st.sampled_from(["S.a", "S.b"]),
}

CONFIGS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"max_msgs": 3},
        {"max_msgs_per_subject": 1},
        {"max_msgs_per_subject": 2, "max_msgs": 4, "allow_rollup_hdrs": True},
        {"max_bytes": 300, "allow_rollup_hdrs": True},
        {"max_bytes": 300, "max_msgs_per_subject": 1},
        {"max_msgs": 3, "discard": Discard.NEW},
        {"max_bytes": 300, "discard": Discard.NEW, "max_msgs_per_subject": 1},
        {
            "max_msgs": 4,
            "discard": Discard.NEW,
            "max_msgs_per_subject": 2,
            "discard_new_per_subject": True,
            "allow_rollup_hdrs": True,
        },
        {"max_msgs": 3, "discard": Discard.NEW, "allow_rollup_hdrs": True},
        {"allow_msg_counter": True},
        {"allow_msg_schedules": True, "allow_msg_ttl": True},
        {"allow_msg_ttl": True, "max_age": 10**10, "subject_delete_marker_ttl": 10**9},
    ]
)


@st.composite
def publishes(draw: st.DrawFn) -> Publish:
    names = draw(st.lists(st.sampled_from([*HEADERS]), max_size=3, unique=True))
    headers = {name: draw(HEADERS[name]) for name in names}
    body = draw(st.sampled_from([b"", b"x" * 40, b"y" * 90]))
    return Publish(draw(st.sampled_from(SUBJECTS)), body, headers)


@st.composite
def batches(draw: st.DrawFn) -> list[Publish]:
    """An atomic batch, perhaps of one message, perhaps with a mistake in it."""
    members = draw(st.lists(publishes(), min_size=1, max_size=3))
    batch = []
    for number, member in enumerate(members, 1):
        headers = {**member.headers, "Nats-Batch-Id": "b", "Nats-Batch-Sequence": str(number)}
        if number == len(members):
            headers["Nats-Batch-Commit"] = "1"
        batch.append(member._replace(headers=headers))
    return batch


GROUPS = st.lists(st.one_of(publishes().map(lambda each: [each]), batches()), max_size=10)
