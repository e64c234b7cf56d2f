"""Publishes without conditions are accepted all at once, with the effect of single publishes."""

from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.header_names import MSG_ID, read_control_headers
from headwater.jetstream.streams.dedupe import DedupeWindow, id_in, ids_in
from headwater.jetstream.streams.publishing import checks
from headwater.jetstream.streams.publishing.checks import BATCH_LINES, ID_LINES, hold_only
from headwater.wire.headers import without_status
from tests.kit.stream_driver import Publish, StreamDriver

BATCH_ID, SEQUENCE = "Nats-Batch-Id", "Nats-Batch-Sequence"

# The pieces of a header block, sound or not.
PIECES = st.sampled_from(
    [
        *(b"NATS/1.0\r\n", b"NATS/1.0 404 x\r\n", b"\r\n", b"\r", b" ", b":", b"x", b"Own: y\r\n"),
        *(b"Nats-Msg-Id: a\r\n", b"Nats-Msg-Id:b\r\n", b"Nats-Msg-Id: ", b"Nats-", b"Nats-TTL: 1"),
    ]
)
BLOCKS = st.lists(PIECES, max_size=5).map(b"".join) | st.lists(PIECES, max_size=5).map(
    lambda pieces: b"NATS/1.0\r\n" + b"".join(pieces) + b"\r\n"
)


@given(st.lists(BLOCKS, min_size=1, max_size=4))
def test_headers_that_hold_only_ids_say_nothing_else(blocks: list[bytes]) -> None:
    assert ids_in(blocks) == [id_in(block) for block in blocks]
    if hold_only(blocks, ID_LINES):
        for block, message_id in zip(blocks, ids_in(blocks), strict=True):
            assert read_control_headers(block) == ({MSG_ID: message_id} if message_id else {})
            assert without_status(block) == block


def test_headers_of_a_batch_are_its_own_affair() -> None:
    block = b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: 1\r\n%b\r\n"
    plain = [block % b"", block % b"Nats-Msg-Id: a\r\nNats-Batch-Commit: 1\r\n"]
    assert hold_only(plain, BATCH_LINES)
    assert not hold_only(plain, ID_LINES)
    assert not hold_only([*plain, block % b"Nats-TTL: 1s\r\n"], BATCH_LINES)


HEADERS: dict[str, st.SearchStrategy[str]] = {
    "Nats-Msg-Id": st.sampled_from(["u", "v", "w", "x", "y", "z", "", "  x", "Nats-1"]),
    "Own": st.sampled_from(["header", "first\r\nNats-Msg-Id: y"]),
    "Nats-Other": st.just("x"),
}
PUBLISHES = st.builds(
    Publish,
    st.sampled_from(["S.a", "S.b"]),
    st.sampled_from([b"", b"x" * 40]),
    st.fixed_dictionaries({}, optional=HEADERS),
)
# The seconds before a turn, and the publishes in it.
TURNS = st.lists(
    st.tuples(st.integers(0, 3), st.lists(PUBLISHES, min_size=1, max_size=5)), max_size=6
)
CONFIGS = st.sampled_from(
    [{}, {"max_msgs": 3}, {"max_msg_size": 60}, {"duplicate_window": 0}, {"no_ack": True}]
)
# A publish that is refused and leaves nothing behind; the ones beside it are checked one by one.
REFUSED = Publish("S.a", b"", {"Nats-Expected-Stream": "another"}, reply=None)


@given(CONFIGS, st.sampled_from([*Storage]), TURNS)
@settings(deadline=None)
def test_all_at_once_is_as_one_by_one(
    config: dict[str, Any], storage: Storage, turns: list[tuple[int, list[Publish]]]
) -> None:
    config = {"duplicate_window": 4 * 10**9, **config}
    at_once, looked_at = StreamDriver(storage, **config), StreamDriver(storage, **config)
    for seconds, messages in turns:
        at_once.advance(seconds)
        looked_at.advance(seconds)
        at_once.publish_together(messages)
        looked_at.publish_together([*messages, REFUSED])
    at_once.check()
    assert at_once.stream.dump(at_once.now_ns) == looked_at.stream.dump(looked_at.now_ns)
    assert at_once.answers == looked_at.answers


IDS = st.sampled_from(["u", "v", "w", "x", "y", "z"])
# Headers that make the stream check a message by itself, against the messages believed stored.
RULED: dict[str, st.SearchStrategy[str]] = {
    "Nats-TTL": st.sampled_from(["1s", "nonsense"]),
    "Nats-Rollup": st.just("sub"),
    "Nats-Expected-Last-Sequence": st.sampled_from(["0", "2", "4"]),
    "Nats-Expected-Last-Subject-Sequence": st.sampled_from(["0", "1", "2"]),
    "Nats-Expected-Last-Msg-Id": IDS,
}


def publishes(headers: st.SearchStrategy[dict[str, str]]) -> st.SearchStrategy[Publish]:
    subjects, bodies = st.sampled_from(["S.a", "S.b"]), st.sampled_from([b"", b"x" * 40])
    return st.builds(Publish, subjects, bodies, headers)


PLAIN = publishes(st.fixed_dictionaries({}, optional={"Nats-Msg-Id": IDS}))
LOOKED_AT = st.sampled_from([*RULED]).flatmap(
    lambda name: publishes(st.fixed_dictionaries({name: RULED[name]}, optional=HEADERS))
)
BATCHED = st.lists(PLAIN, min_size=1, max_size=4) | st.lists(
    PLAIN | LOOKED_AT, min_size=1, max_size=4
)
# A pause, the messages of a batch, its commit if there is one, and the publishes after it.
BATCHES = st.lists(
    st.tuples(
        st.integers(0, 3),
        BATCHED,
        st.sampled_from(["1", "1", "eob", None]),
        st.lists(PLAIN | LOOKED_AT, max_size=2),
    ),
    max_size=5,
)


def batch_of(number: int, messages: list[Publish], commit: str | None) -> list[Publish]:
    """The messages with the headers of a batch."""
    if commit == "eob":
        messages = [*messages, Publish("S.a", b"")]
    numbered = [
        each._replace(headers={**each.headers, BATCH_ID: f"b{number}", SEQUENCE: str(place)})
        for place, each in enumerate(messages, 1)
    ]
    if commit is not None:
        numbered[-1].headers["Nats-Batch-Commit"] = commit
    return numbered


@given(
    st.sampled_from([{}, {"max_msgs": 3}, {"allow_rollup_hdrs": True}, {"allow_msg_ttl": True}]),
    st.sampled_from([*Storage]),
    BATCHES,
)
@settings(deadline=None)
def test_a_batch_taken_at_once_is_as_one_that_is_looked_at(
    config: dict[str, Any],
    storage: Storage,
    batches: list[tuple[int, list[Publish], str | None, list[Publish]]],
) -> None:
    config = {"duplicate_window": 4 * 10**9, "allow_atomic": True, **config}
    at_once, looked_at = StreamDriver(storage, **config), StreamDriver(storage, **config)
    for number, (seconds, messages, commit, others) in enumerate(batches):
        at_once.advance(seconds)
        looked_at.advance(seconds)
        turn = [*batch_of(number, messages, commit), *others]
        at_once.publish_together(turn)
        with patch.object(checks, "pass_all", lambda *_: False):
            looked_at.publish_together(turn)
    at_once.check()
    assert at_once.stream.dump(at_once.now_ns) == looked_at.stream.dump(looked_at.now_ns)
    assert at_once.answers == looked_at.answers


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([b"", b"a", b"b", b"c", b"d"]), min_size=1), st.integers(0, 9)
        )
    )
)
def test_ids_added_together_are_those_added_one_by_one(
    batches: list[tuple[list[bytes], int]],
) -> None:
    together, apart = DedupeWindow(10), DedupeWindow(10)
    sequence = now_ns = 0
    for ids, passed_ns in batches:
        now_ns += passed_ns
        together.add_all(ids, sequence + 1, [now_ns] * len(ids))
        for message_id in ids:
            sequence += 1
            if message_id:
                apart.add(message_id, sequence, now_ns)
        assert [*together.entries(now_ns)] == [*apart.entries(now_ns)]
        assert len(together) == len(apart)
        for message_id in (b"a", b"b", b"c", b"d"):
            assert together.has_any([b"e", message_id]) or not apart.find(message_id, now_ns)
            assert together.find(message_id, now_ns) == apart.find(message_id, now_ns)
