"""The state of mirrors and sources, as rows, as a table and as advice."""

from typing import Any

from headwater.cli.streams.copies import (
    ADVICE_LINES_MAX,
    absent_origins_advice,
    behind_text,
    copies_of,
    copies_table,
    copy_row,
    missing_advice,
)

SECOND = 10**9
NOT_FOUND = {"code": 404, "err_code": 10059, "description": "stream not found"}


def stream(name: str, **more: Any) -> dict[str, Any]:
    """The information of a stream, as far as it is about copies."""
    return {"config": {"name": name, **more.pop("config", {})}, **more}


ALL = stream(
    "ALL",
    sources=[
        {"name": "US", "lag": 1, "active": -1, "error": NOT_FOUND},
        {
            "name": "EU", "lag": 1200, "active": 2 * SECOND, "filter_subject": "eu.>",
            "external": {"api": "$JS.hub.API", "deliver": ""},
        },
    ],
)  # fmt: skip


def test_each_origin_is_a_row_with_lag_age_and_error() -> None:
    assert [copy_row(copy) for copy in copies_of(ALL)] == [
        ("Source", "EU at $JS.hub.API (filter=eu.>), 1,200 messages behind, seen 2s ago"),
        ("Source", "US, 1 message behind, not seen yet, stream not found"),
    ]


def test_a_table_has_a_line_for_each_origin() -> None:
    header, first, second = copies_table(copies_of(ALL)).text(None).plain.splitlines()
    assert header.split() == ["copy", "kind", "origin", "details", "lag", "active", "error"]
    assert first.split() == [
        "ALL", "source", "EU", "at", "$JS.hub.API", "filter=eu.>", "1,200", "2s", "ago",
    ]  # fmt: skip
    assert second.split() == ["ALL", "source", "US", "1", "never", "stream", "not", "found"]


def test_a_stream_without_a_leader_tells_its_settings_alone() -> None:
    (copy,) = copies_of(stream("M", config={"mirror": {"name": "A", "opt_start_seq": 5}}))
    assert copy_row(copy) == ("Mirror", "A (start=5), state unknown")
    assert copies_table([copy]).text(None).plain.splitlines()[1].split() == [
        "M", "mirror", "A", "start=5", "unknown", "unknown",
    ]  # fmt: skip
    assert copies_of(stream("PLAIN")) == []


def test_an_error_without_words_is_still_an_error() -> None:
    (copy,) = copies_of(stream("M", mirror={"name": "A", "error": {"code": 500}}))
    assert copy.error == "error"


def test_a_missing_origin_comes_with_the_next_step_once() -> None:
    both = copies_of(ALL) + copies_of(stream("M", mirror={"name": "US", "error": NOT_FOUND}))
    assert missing_advice(both) == [
        "There is no stream US for ALL to copy; copying begins once it exists. "
        "Make it with: headwater stream add US"
    ]
    elsewhere = {"name": "US", "error": NOT_FOUND, "external": {"api": "$JS.hub.API"}}
    assert missing_advice(copies_of(stream("M", mirror=elsewhere))) == []


def test_advice_on_many_missing_origins_is_cut() -> None:
    def advice(count: int) -> list[str]:
        sources = [{"name": f"S{number}", "error": NOT_FOUND} for number in range(count)]
        return missing_advice(copies_of(stream("ALL", sources=sources)))

    assert len(advice(ADVICE_LINES_MAX)) == ADVICE_LINES_MAX
    assert advice(ADVICE_LINES_MAX + 2)[ADVICE_LINES_MAX:] == ["So it is for 2 more origins."]


def test_an_origin_that_no_stream_has_is_told_before_the_server_looks_for_it() -> None:
    config = {"sources": [{"name": "A"}, {"name": "B"}, {"name": "C", "external": {"api": "x"}}]}
    (line,) = absent_origins_advice(stream("ALL", config=config), ["A", "ALL"])
    assert line.startswith("There is no stream B for ALL to copy")


def test_a_promotion_tells_what_the_mirror_lacks() -> None:
    behind = stream("M", mirror={"name": "A", "lag": 3, "active": SECOND})
    assert behind_text(behind) == (
        "The mirror is not equal to A: 3 messages behind, seen 1s ago. "
        "Messages that it has not copied stay with the origin."
    )
    assert behind_text(stream("M", mirror={"name": "A", "lag": 0, "active": SECOND})) == ""
    assert behind_text(ALL) == ""
