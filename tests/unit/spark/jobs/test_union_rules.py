"""The sequence at which the stream goes on behind the archive, and the refused unions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from headwater.client.api.answers import StreamInfo
from headwater.spark.jobs.archive.log import StoredFile
from headwater.spark.jobs.archive.manifest import Manifest
from headwater.spark.jobs.union import start_of_tail, subjects_of_both
from headwater.spark.options import OptionError
from headwater.spark.read.offsets import DataLossError

FILE = StoredFile("part", (), 1, (0,))


@dataclass
class Archived:
    """A snapshot that ends at a sequence, by the time the stream was made."""

    reached: dict[str, int] = field(default_factory=dict)
    files: Sequence[StoredFile] = (FILE,)

    def next_sequence(self, created: str) -> int | None:
        return self.reached.get(created)


def stream(first: int, last: int, **config: Any) -> StreamInfo:
    messages = max(0, last - first + 1)
    return StreamInfo("orders", "c1", config, messages, 0, first, last, 0, "", "", last)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (1, 200),  # all there still
        (101, 200),  # the archived messages have expired
        (50, 100),  # nothing new
        (101, 100),  # nothing at all any more
    ],
)
def test_the_tail_begins_where_the_record_ends(first: int, last: int) -> None:
    assert start_of_tail(Archived({"c1": 101}), stream(first, last), True) == 101


def test_an_archive_without_anything_leaves_all_to_the_stream() -> None:
    assert start_of_tail(Archived(files=()), stream(7, 9), True) == 7


def test_an_archive_of_nothing_but_what_was_passed_over_has_an_end_too() -> None:
    assert start_of_tail(Archived({"c1": 101}, files=()), stream(1, 200), True) == 101


@pytest.mark.parametrize(
    ("archived", "info", "text", "start"),
    [
        (Archived({"c1": 101}), stream(121, 200), "lost 20 sequences, 101 to 120", 121),
        (Archived({"c1": 101}), stream(121, 120), "lost 20 sequences, 101 to 120", 121),
        (Archived({"c1": 101}), stream(1, 50), "ends at sequence 50, before 100", 101),
        (Archived({"c0": 101}), stream(3, 50), "deleted and created again", 3),
    ],
)
def test_a_gap_is_an_error_unless_it_is_allowed(
    archived: Archived,
    info: StreamInfo,
    text: str,
    start: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(DataLossError, match=text) as error:
        start_of_tail(archived, info, fail_on_data_loss=True)
    assert "\n" not in str(error.value)
    assert "fail_on_data_loss" in str(error.value)
    assert start_of_tail(archived, info, fail_on_data_loss=False) == start
    assert text in caplog.text


def test_a_stream_whose_messages_go_by_design_has_no_gap() -> None:
    info = stream(121, 200, retention="workqueue")
    assert start_of_tail(Archived({"c1": 101}), info, True) == 101


ALL = Manifest("orders", "delta", (), ())
SOME = Manifest("orders", "delta", (), ("orders.eu.>", "orders.us.*"))


def test_without_a_wish_both_sides_give_what_is_archived() -> None:
    assert subjects_of_both(ALL, "orders", ()) == ()
    assert subjects_of_both(SOME, "orders", ()) == SOME.subjects


def test_a_part_of_what_is_archived_may_be_asked_for() -> None:
    assert subjects_of_both(ALL, "orders", ["x.>"]) == ("x.>",)
    assert subjects_of_both(SOME, "orders", ["orders.us.ny"]) == ("orders.us.ny",)


@pytest.mark.parametrize("subject", ["orders.>", "orders.us.>", "orders.fr.x"])
def test_what_was_not_archived_is_refused_not_left_out(subject: str) -> None:
    with pytest.raises(OptionError, match=r"^option subjects: .* is not all in the archive"):
        subjects_of_both(SOME, "orders", [subject])


def test_another_stream_is_refused() -> None:
    with pytest.raises(OptionError, match=r"^option stream='bills' .* holds the stream orders"):
        subjects_of_both(ALL, "bills", ())
