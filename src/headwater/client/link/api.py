"""Calls of the JetStream API that jobs make: streams, consumers, entries of buckets.

Only what reads, or what may be done twice, is repeated on a new connection.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from headwater.base.errors import PeerError
from headwater.client.link.connection import Connection, Reply
from headwater.client.link.errors import ApiError, LinkError, NoRespondersError
from headwater.wire.headers import VERSION
from headwater.wire.info import decode_object

STREAM_NOT_FOUND: Final = 10059
STREAM_NAME_IN_USE: Final = 10058
CONSUMER_NOT_FOUND: Final = 10014
MESSAGE_NOT_FOUND: Final = 10037
WRONG_LAST_SEQUENCE: Final = (10071, 10164)


@dataclass(frozen=True)
class StreamInfo:
    """A stream as its leader described it at one moment."""

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


class JetStream:
    """The API over one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def call(self, tail: str, document: object | None = None) -> dict[str, Any]:
        """Ask `$JS.API.<tail>`; the answer without its type. Raises ApiError.

        In a domain, or under a prefix of its own, the API has another beginning.
        """
        payload = b"" if document is None else msgspec.json.encode(document)
        login = self.connection.login
        try:
            reply = self.connection.request(login.api + tail, payload)
        except NoRespondersError:
            raise NoRespondersError(
                "the server has no JetStream for this account: start it with -js"
                if login.api_option is None
                else f"nobody answers at {login.api}>: is the API of JetStream there?"
            ) from None
        return _answer(reply)

    def call_again(self, tail: str, document: object | None = None) -> dict[str, Any]:
        """The same for what may be asked twice: a lost connection is made anew."""
        return self.connection.again(lambda: self.call(tail, document))

    # --- streams -------------------------------------------------------------------------------

    def stream_info(self, name: str) -> StreamInfo:
        """Raises ApiError with STREAM_NOT_FOUND."""
        answer = self.call_again(f"STREAM.INFO.{name}")
        state = answer["state"]
        return StreamInfo(
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
        )

    def subjects(self, name: str) -> list[str]:
        """The subjects of which a stream holds messages.

        They come in pages. A stream that is written while they are asked for can be described by
        pages of different moments, so a subject at the end of one may be left out.
        """
        found: dict[str, int] = {}
        while True:
            request = {"subjects_filter": ">", "offset": len(found)}
            answer = self.call_again(f"STREAM.INFO.{name}", request)
            before = len(found)
            found |= answer["state"].get("subjects") or {}
            if len(found) == before or len(found) >= int(answer.get("total", 0)):
                return list(found)

    def stream_names(self) -> list[str]:
        """The names of all streams, in their order. They come in pages."""
        found: dict[str, None] = {}
        while True:
            answer = self.call_again("STREAM.NAMES", {"offset": len(found)})
            before = len(found)
            found |= dict.fromkeys(answer.get("streams") or [])
            if len(found) == before or len(found) >= int(answer.get("total", 0)):
                return sorted(found)

    def message(self, stream: str, request: dict[str, Any]) -> StoredMessage | None:
        """One message as the leader has it: `{"seq": n}` or `{"last_by_subj": s}`."""
        try:
            answer = self.call_again(f"STREAM.MSG.GET.{stream}", request)
        except ApiError as error:
            if error.err_code == MESSAGE_NOT_FOUND:
                return None
            raise
        return msgspec.convert(answer["message"], _RawMessage).stored()

    def publish(self, subject: str, payload: bytes, header: bytes) -> int:
        """One message to a stream; its sequence. A lost connection leaves it in doubt."""
        return int(_answer(self.connection.request(subject, payload, header))["seq"])

    # --- consumers -----------------------------------------------------------------------------

    def create_consumer(self, stream: str, name: str, config: dict[str, Any]) -> dict[str, Any]:
        """A consumer of that name; creating the same twice is one consumer."""
        return self.call_again(
            f"CONSUMER.CREATE.{stream}.{name}",
            {"stream_name": stream, "config": {"name": name, **config}, "action": "create"},
        )

    def delete_consumer(self, stream: str, name: str) -> None:
        """Gone afterwards, whether it was there or not."""
        try:
            self.call_again(f"CONSUMER.DELETE.{stream}.{name}")
        except ApiError as error:
            if error.err_code not in (CONSUMER_NOT_FOUND, STREAM_NOT_FOUND):
                raise

    # --- buckets -------------------------------------------------------------------------------

    def ensure_bucket(self, bucket: str, **config: Any) -> None:
        """A bucket of that name, made if there is none; one that is there stays as it is."""
        stream = f"KV_{bucket}"
        try:
            self.stream_info(stream)
            return
        except ApiError as error:
            if error.err_code != STREAM_NOT_FOUND:
                raise
        try:
            self.call_again(
                f"STREAM.CREATE.{stream}",
                {
                    "name": stream,
                    "subjects": [f"$KV.{bucket}.>"],
                    "retention": "limits",
                    "storage": "file",
                    "discard": "new",
                    "max_msgs_per_subject": 1,
                    "allow_rollup_hdrs": True,
                    "deny_delete": True,
                    "allow_direct": True,
                    **config,
                },
            )
        except ApiError as error:
            # Somebody else made it in the meantime.
            if error.err_code != STREAM_NAME_IN_USE:
                raise

    def kv_get(self, bucket: str, key: str) -> StoredMessage | None:
        """The newest entry of a key as the leader has it, a delete included."""
        return self.message(f"KV_{bucket}", {"last_by_subj": f"$KV.{bucket}.{key}"})

    def kv_put(
        self, bucket: str, key: str, value: bytes, expected_revision: int | None = None
    ) -> int:
        """Put an entry; its revision. An expected revision of 0 means that the key has none.

        Raises ApiError with one of WRONG_LAST_SEQUENCE if the key has another revision. If the
        connection is lost, the key is looked at before the put is repeated: with an expected
        revision, a value that nobody else would put is then put once.
        """
        pairs = []
        if expected_revision is not None:
            pairs.append((b"Nats-Expected-Last-Subject-Sequence", b"%d" % expected_revision))
        header = _header(pairs)
        is_first = True

        def put() -> int:
            nonlocal is_first
            if not is_first and expected_revision is not None:
                entry = self.kv_get(bucket, key)
                if entry and entry.sequence > expected_revision and entry.data == value:
                    return entry.sequence
            is_first = False
            subject = self.connection.login.entry_subject(f"$KV.{bucket}.{key}")
            reply = self.connection.request(subject, value, header)
            return int(_answer(reply)["seq"])

        return self.connection.again(put)


class _RawMessage(msgspec.Struct):
    """A message as STREAM.MSG.GET answers it: headers and data in base64."""

    subject: str
    seq: int
    time: str
    hdrs: bytes = b""
    data: bytes = b""

    def stored(self) -> StoredMessage:
        return StoredMessage(self.subject, self.seq, self.time, self.hdrs, self.data)


def _header(pairs: list[tuple[bytes, bytes]]) -> bytes:
    if not pairs:
        return b""
    lines = b"".join([b"%b: %b\r\n" % pair for pair in pairs])
    return b"%b\r\n%b\r\n" % (VERSION, lines)


def _answer(reply: Reply) -> dict[str, Any]:
    """The document of an answer of the API. Raises ApiError."""
    try:
        document = decode_object(reply.payload)
    except PeerError as error:
        raise LinkError(f"the server's answer is {error.reply}") from None
    refusal = document.get("error")
    if refusal:
        raise ApiError(
            int(refusal.get("code", 0)),
            int(refusal.get("err_code", 0)),
            str(refusal.get("description", "")),
        )
    return document
