"""Offsets: the fields that a checkpoint keeps, and the losses that are found after it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.client.api.answers import StreamInfo
from headwater.spark.read.offsets import (
    Changes,
    Offset,
    OffsetError,
    PlannedRange,
    StreamsOffset,
    first_sequence,
    keeps_messages,
    loss_of,
)

CREATED = "2026-11-15T05:00:00Z"


def info(first: int = 1, last: int = 0, created: str = CREATED, **config: Any) -> StreamInfo:
    messages = max(0, last - first + 1)
    return StreamInfo("orders", created, config, messages, 0, first, last, 0, "", "", last)


def at(sequence: int) -> Offset:
    return Offset("orders", CREATED, sequence)


RANGES = st.builds(PlannedRange, st.integers(1), st.integers(1), st.none() | st.integers(0, 10**9))


class TestJson:
    @given(
        st.builds(
            Offset,
            st.text(min_size=1),
            st.text(),
            st.integers(1),
            st.lists(RANGES).map(tuple),
            st.integers(0),
            st.none() | st.lists(st.text()).map(tuple),
        )
    )
    def test_what_is_written_is_read(self, offset: Offset) -> None:
        assert Offset.from_json(json.loads(json.dumps(offset.to_json()))) == offset

    def test_the_form_is_fixed_since_checkpoints_outlive_versions(self) -> None:
        offset = Offset("orders", CREATED, 11, (PlannedRange(1, 10, 7),), 3)
        assert json.dumps(offset.to_json()) == (
            '{"stream": "orders", "created": "2026-11-15T05:00:00Z", "next": 11,'
            ' "ranges": [[1, 10, 7]], "lost": 3}'
        )
        latest = replace(offset, subjects=("a", "b"), changes=Changes.LATEST, head=12)
        assert json.dumps(latest.to_json()) == (
            '{"stream": "orders", "created": "2026-11-15T05:00:00Z", "next": 11,'
            ' "ranges": [[1, 10, 7]], "lost": 3, "subjects": ["a", "b"], "changes": "latest",'
            ' "head": 12}'
        )
        assert Offset.from_json(latest.to_json()) == latest

    def test_several_streams_have_an_offset_each(self) -> None:
        offset = StreamsOffset({"b": at(2), "a": at(1)}, 4)
        document = offset.to_json()
        assert [*document] == ["streams", "lost"]
        assert [*document["streams"]] == ["a", "b"]
        assert document["streams"]["a"] == at(1).to_json()
        assert StreamsOffset.from_json(json.loads(json.dumps(document))) == offset
        others: list[dict[str, Any]] = [{"streams": {"a": {}}}, {"streams": []}, at(1).to_json()]
        for other in others:
            with pytest.raises(OffsetError, match="use another"):
                StreamsOffset.from_json(other)

    @pytest.mark.parametrize(
        "document",
        [{}, {"seq": 5}, at(1).to_json() | {"ranges": [[1]]}, at(1).to_json() | {"next": "x"}],
    )
    def test_a_checkpoint_of_something_else_is_refused(self, document: dict[str, Any]) -> None:
        with pytest.raises(OffsetError, match="use another checkpointLocation"):
            Offset.from_json(document)

    def test_a_checkpoint_of_another_stream_is_refused(self) -> None:
        at(1).check_stream("orders")
        with pytest.raises(OffsetError, match="belongs to stream orders, the options name bills"):
            at(1).check_stream("bills")


class TestLoss:
    @pytest.mark.parametrize(
        ("offset", "now"),
        [
            (at(1), info(1, 0)),
            (at(1), info(1, 10)),
            (at(5), info(1, 10)),
            (at(5), info(5, 10)),
            (at(11), info(1, 10)),
            # All messages were read, then purged.
            (at(11), info(11, 10)),
        ],
    )
    def test_nothing_is_lost_while_the_next_is_there_or_to_come(
        self, offset: Offset, now: StreamInfo
    ) -> None:
        assert loss_of(offset, now, keeps=True) is None

    def test_what_went_before_it_was_read_is_lost(self) -> None:
        loss = loss_of(at(5), info(8, 10), keeps=True)
        assert loss is not None
        assert (loss.sequences, loss.next) == (3, 8)
        assert "lost 3 sequences, 5 to 7" in loss.text

    def test_a_purge_of_all_is_a_loss_of_what_was_not_read(self) -> None:
        loss = loss_of(at(5), info(11, 10), keeps=True)
        assert loss is not None
        assert (loss.sequences, loss.next) == (6, 11)

    def test_where_messages_go_by_design_they_are_not_lost(self) -> None:
        assert loss_of(at(5), info(8, 10), keeps=False) is None

    @pytest.mark.parametrize("keeps", [True, False])
    def test_a_stream_made_anew_is_another_one(self, keeps: bool) -> None:
        loss = loss_of(at(5), info(1, 10, created="2027"), keeps)
        assert loss is not None
        assert loss.next == 1
        assert "deleted and created again" in loss.text

    @pytest.mark.parametrize("keeps", [True, False])
    def test_a_stream_that_ends_before_what_was_read_was_cut(self, keeps: bool) -> None:
        loss = loss_of(at(12), info(1, 10), keeps)
        assert loss is not None
        assert loss.next == 11
        assert "ends at sequence 10" in loss.text

    def test_a_start_in_the_future_is_not_a_cut(self) -> None:
        assert loss_of(at(100), info(1, 10), keeps=True, waits_for_start=True) is None


@pytest.mark.parametrize(
    ("config", "keeps"),
    [
        ({}, True),
        ({"retention": "limits", "max_msgs_per_subject": -1}, True),
        ({"max_msgs_per_subject": 5}, False),
        ({"retention": "workqueue"}, False),
        ({"retention": "interest"}, False),
        ({"allow_msg_ttl": True}, False),
    ],
)
def test_which_streams_keep_their_messages(config: dict[str, Any], keeps: bool) -> None:
    assert keeps_messages(info(1, 1, **config)) is keeps


def test_the_first_sequence_of_an_empty_stream_is_the_one_to_come() -> None:
    assert first_sequence(info(1, 0)) == 1
    assert first_sequence(info(6, 5)) == 6
    assert first_sequence(info(3, 5)) == 3
