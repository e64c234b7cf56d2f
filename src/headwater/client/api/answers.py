"""Answers of the JetStream API: documents, refusals, and the values that readers need of them.

Answers are returned as they came, so that a field this module has never heard of is not lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from headwater.base.errors import PeerError
from headwater.client.api.requests import Document
from headwater.wire.info import decode_object

INVALID_JSON: Final = 10025
STREAM_NOT_FOUND: Final = 10059
STREAM_NAME_IN_USE: Final = 10058
CONSUMER_NOT_FOUND: Final = 10014
MESSAGE_NOT_FOUND: Final = 10037
WRONG_LAST_SEQUENCE: Final = (10071, 10164)


class ApiRefusal(msgspec.Struct, frozen=True):
    """The error in an answer, in the server's own words and codes."""

    code: int = 0
    err_code: int = 0
    description: str = ""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "ApiRefusal | None":
        """The refusal in an answer; None if the server did not refuse."""
        error = document.get("error")
        if not error:
            return None
        if not isinstance(error, dict):
            return cls(description=str(error))
        return cls(
            int(error.get("code") or 0),
            int(error.get("err_code") or 0),
            str(error.get("description") or ""),
        )


def read_answer(payload: bytes) -> Document | ApiRefusal:
    """The document of an answer, or the server's refusal. Raises PeerError for anything else."""
    document = decode_object(payload)
    if not document and b"{" not in payload:
        # Go reads null as an object without fields. The server sends objects.
        raise PeerError("not a JSON object: null")
    return ApiRefusal.of(document) or document


@dataclass(frozen=True)
class StreamInfo:
    """A stream as its leader described it at one moment.

    `end_seq` is the last sequence that a reader sees; of another level than the leader's it is not
    `last_seq`.
    """

    name: str
    created: str
    config: dict[str, Any]
    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    num_deleted: int
    first_ts: str
    last_ts: str
    end_seq: int

    @classmethod
    def of(cls, name: str, answer: Mapping[str, Any]) -> "StreamInfo":
        """The answer to `stream_info`."""
        state = answer["state"]
        return cls(
            name=name,
            created=answer["created"],
            config=answer["config"],
            messages=state["messages"],
            bytes=state["bytes"],
            first_seq=state["first_seq"],
            last_seq=state["last_seq"],
            num_deleted=state.get("num_deleted", 0),
            first_ts=state.get("first_ts", ""),
            last_ts=state.get("last_ts", ""),
            end_seq=state["last_seq"],
        )

    @property
    def retention(self) -> str:
        """limits, interest or workqueue."""
        return str(self.config.get("retention", "limits"))

    @property
    def allows_direct(self) -> bool:
        """Whether direct gets are answered."""
        return bool(self.config.get("allow_direct"))

    @property
    def keeps_what_it_has(self) -> bool:
        """Whether messages go only by limits of age and size, by deletes and purges.

        Otherwise they also go because they were consumed or because others took their place.
        """
        per_subject = int(self.config.get("max_msgs_per_subject") or -1)
        return self.retention == "limits" and per_subject <= 0


@dataclass(frozen=True)
class StoredMessage:
    """One message of a stream, read by its sequence or as the last of its subject."""

    subject: str
    sequence: int
    time: str
    header: bytes
    data: bytes

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "StoredMessage":
        """The answer to `message_get`."""
        raw = msgspec.convert(answer["message"], RawMessage)
        return cls(raw.subject, raw.seq, raw.time, raw.hdrs, raw.data)


class RawMessage(msgspec.Struct):
    """A message as STREAM.MSG.GET answers it: headers and data in base64."""

    subject: str
    seq: int
    time: str
    hdrs: bytes = b""
    data: bytes = b""
