"""Lists of the JetStream API, which a server answers in pages.

A list object names the request of its next page, and takes in the answer. The caller sends the
requests and waits for the answers.
"""

from collections.abc import Mapping
from typing import Any, final

from headwater.client.api.requests import ApiRequest, Document, stream_info


@final
class ListPages:
    """The entries of a list, page by page."""

    def __init__(
        self, operation: str, field: str, stream: str = "", subject: str | None = None
    ) -> None:
        """`field` holds the entries in an answer; a `subject` limits the list to its streams."""
        self._operation = operation
        self._field = field
        self._stream = stream
        self._filters = {"subject": subject} if subject else {}
        self._entries = 0
        self._is_complete = False
        self.missing: list[str] = []
        """The names of entries that the list should have and whose servers did not answer."""

    @property
    def request(self) -> ApiRequest | None:
        """The request for the next page; None after the last one."""
        if self._is_complete:
            return None
        return ApiRequest(self._operation, {"offset": self._entries, **self._filters}, self._stream)

    def entries_in(self, answer: Mapping[str, Any]) -> list[Any]:
        """The entries of the page that was asked for."""
        page, missing = answer.get(self._field) or [], answer.get("missing") or []
        self.missing += [str(name) for name in missing]
        # An offset counts entries by name, whether their servers have answered or not.
        self._entries += len(page) + len(missing)
        self._is_complete = not (page or missing) or self._entries >= int(answer.get("total", 0))
        return list(page)


def stream_list(subject: str | None = None) -> ListPages:
    """The information of all streams, or of those that keep `subject`."""
    return ListPages("STREAM.LIST", "streams", subject=subject)


def stream_names(subject: str | None = None) -> ListPages:
    """The names of all streams, or of those that keep `subject`."""
    return ListPages("STREAM.NAMES", "streams", subject=subject)


def consumer_list(stream: str) -> ListPages:
    """The information of all consumers of a stream."""
    return ListPages(f"CONSUMER.LIST.{stream}", "consumers", stream)


def consumer_names(stream: str) -> ListPages:
    """The names of all consumers of a stream."""
    return ListPages(f"CONSUMER.NAMES.{stream}", "consumers", stream)


@final
class SubjectPages:
    """The information of a stream, with the subjects that it was asked for from all pages.

    A stream that is written meanwhile can be described by pages of different moments, so that a
    subject at the end of a page may be missing.
    """

    def __init__(self, stream: str, wanted: Mapping[str, Any] | None = None) -> None:
        """`wanted` is the body of `stream_info`; only with a `subjects_filter` there are pages."""
        self._stream = stream
        self._wanted = dict(wanted or {})
        self._subjects: dict[str, int] = {}
        self._is_complete = False
        self.info: Document = {}
        """The first answer, with all subjects once the last page is there."""

    @property
    def request(self) -> ApiRequest | None:
        """The request for the next page; None after the last one."""
        if self._is_complete:
            return None
        offset = {"offset": len(self._subjects)} if self._subjects else {}
        return stream_info(self._stream, self._wanted | offset)

    def add(self, answer: Document) -> None:
        """Take in the page that was asked for."""
        before = len(self._subjects)
        self._subjects |= answer["state"].get("subjects") or {}
        if not self.info:
            self.info = answer
        if self._subjects:
            self.info["state"]["subjects"] = self._subjects
        is_last = len(self._subjects) >= int(answer.get("total", 0))
        self._is_complete = is_last or len(self._subjects) == before
