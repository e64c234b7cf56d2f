"""Lists of the JetStream API, asked for page by page until they are whole."""

from typing import Any

from headwater.client.api.pages import (
    ListPages,
    SubjectPages,
    consumer_list,
    consumer_names,
    stream_list,
    stream_names,
)


def listed(pages: ListPages, entries: list[Any], page_size: int, total: int) -> list[list[Any]]:
    """The pages that a server of `entries` answers, and none after the last."""
    found = []
    while (request := pages.request) is not None:
        assert request.body is not None
        offset = request.body["offset"]
        page = entries[offset : offset + page_size]
        answer = {"total": total, "streams": page or None, "consumers": page or None}
        found.append(pages.entries_in(answer))
    return found


def test_a_list_is_asked_for_until_all_entries_are_there() -> None:
    assert listed(stream_names(), [*"abcde"], 2, 5) == [["a", "b"], ["c", "d"], ["e"]]
    assert listed(stream_names(), [*"abcd"], 2, 4) == [["a", "b"], ["c", "d"]]


def test_a_list_ends_with_an_empty_page_whatever_the_total_says() -> None:
    assert listed(consumer_names("S"), [*"abc"], 2, 9) == [["a", "b"], ["c"], []]
    assert listed(stream_names(), [], 2, 0) == [[]]


def test_entries_whose_servers_are_silent_are_named_and_count_for_the_offset() -> None:
    pages, offsets = stream_list(), []
    for streams, missing in ((["a", "c"], ["b"]), (["d"], None)):
        assert pages.request is not None
        assert pages.request.body is not None
        offsets.append(pages.request.body["offset"])
        pages.entries_in({"total": 4, "streams": streams, "missing": missing})
    assert (offsets, pages.missing, pages.request) == ([0, 3], ["b"], None)


def test_a_list_whose_servers_are_all_silent_ends() -> None:
    pages = stream_list()
    assert pages.entries_in({"total": 2, "streams": None, "missing": ["a", "b"]}) == []
    assert (pages.missing, pages.request) == (["a", "b"], None)


def test_a_list_names_its_operation_its_filter_and_its_stream() -> None:
    asked = [each.request for each in (stream_list("a.>"), consumer_list("S"), consumer_names("S"))]
    assert [(each.operation, each.body, each.stream) for each in asked if each is not None] == [
        ("STREAM.LIST", {"offset": 0, "subject": "a.>"}, ""),
        ("CONSUMER.LIST.S", {"offset": 0}, "S"),
        ("CONSUMER.NAMES.S", {"offset": 0}, "S"),
    ]


def info(subjects: dict[str, int] | None, total: int) -> dict[str, Any]:
    """An answer to STREAM.INFO."""
    return {"total": total, "state": {"subjects": subjects}}


def test_the_subjects_of_a_stream_are_joined_from_all_pages() -> None:
    pages = SubjectPages("S", {"subjects_filter": ">"})
    bodies = []
    for answer in (info({"a": 1, "b": 2}, 3), info({"c": 3}, 3)):
        assert pages.request is not None
        bodies.append(pages.request.body)
        pages.add(answer)
    assert pages.request is None
    assert bodies == [{"subjects_filter": ">"}, {"subjects_filter": ">", "offset": 2}]
    assert pages.info["state"]["subjects"] == {"a": 1, "b": 2, "c": 3}


def test_a_page_of_known_subjects_is_the_last() -> None:
    pages = SubjectPages("S", {"subjects_filter": ">"})
    pages.add(info({"a": 1}, 2))
    pages.add(info({"a": 1}, 2))
    assert pages.request is None
    assert pages.info["state"]["subjects"] == {"a": 1}


def test_an_information_without_subjects_is_one_page() -> None:
    pages = SubjectPages("S")
    assert pages.request is not None
    assert pages.request.body is None
    answer = {"state": {"messages": 7}}
    pages.add(answer)
    assert pages.request is None
    assert pages.info == {"state": {"messages": 7}}
