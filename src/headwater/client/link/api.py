"""Calls of the JetStream API over a blocking connection: streams, consumers, entries of buckets.

Requests that read, or that may be carried out twice, are repeated on a new connection. No other is.
"""

from typing import Any

from headwater.base.errors import PeerError
from headwater.client.api.answers import (
    CONSUMER_NOT_FOUND,
    MESSAGE_NOT_FOUND,
    STREAM_NAME_IN_USE,
    STREAM_NOT_FOUND,
    ApiRefusal,
    StoredMessage,
    StreamInfo,
    read_answer,
)
from headwater.client.api.pages import SubjectPages, stream_names
from headwater.client.api.requests import (
    ApiRequest,
    Document,
    consumer_delete,
    message_get,
    stream_create,
    stream_info,
)
from headwater.client.link.connection import Connection, Reply
from headwater.client.link.errors import ApiRefusedError, LinkError, NoRespondersError
from headwater.wire.headers import VERSION


class ApiClient:
    """The API over one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def call(self, request: ApiRequest) -> Document:
        """The answer to a request. Raises ApiRefusedError.

        In a domain, or under a prefix of its own, the API has another beginning.
        """
        login = self.connection.login
        try:
            reply = self.connection.request(login.api + request.operation, request.payload)
        except NoRespondersError:
            raise NoRespondersError(
                "the server has no JetStream for this account: start it with -js"
                if login.api_option is None
                else f"nobody answers at {login.api}>: is the API of JetStream there?"
            ) from None
        return _answer(reply)

    def call_with_retry(self, request: ApiRequest) -> Document:
        """`call` for a request that may be sent twice: it is repeated on a new connection."""
        return self.connection.retry(lambda: self.call(request))

    # --- streams -------------------------------------------------------------------------------

    def stream_info(self, name: str) -> StreamInfo:
        """Raises ApiRefusedError with STREAM_NOT_FOUND."""
        return StreamInfo.of(name, self.call_with_retry(stream_info(name)))

    def subjects(self, name: str) -> list[str]:
        """The subjects of which a stream holds messages."""
        pages = SubjectPages(name, {"subjects_filter": ">"})
        while (request := pages.request) is not None:
            pages.add(self.call_with_retry(request))
        return list(pages.info["state"].get("subjects") or {})

    def stream_names(self) -> list[str]:
        """The names of all streams, in their order."""
        found: set[str] = set()
        pages = stream_names()
        while (request := pages.request) is not None:
            found |= {*pages.entries_in(self.call_with_retry(request))}
        return sorted(found)

    def message(self, stream: str, wanted: dict[str, Any]) -> StoredMessage | None:
        """One message as the leader has it, None if there is no such message.

        `wanted` is `{"seq": n}` or `{"last_by_subj": s}`.
        """
        try:
            return StoredMessage.of(self.call_with_retry(message_get(stream, wanted)))
        except ApiRefusedError as error:
            if error.err_code == MESSAGE_NOT_FOUND:
                return None
            raise

    def publish(self, subject: str, payload: bytes, header: bytes) -> int:
        """Publish one message to a stream and return its sequence.

        After a lost connection it is not known whether the message was stored.
        """
        return int(_answer(self.connection.request(subject, payload, header))["seq"])

    # --- consumers -----------------------------------------------------------------------------

    def delete_consumer(self, stream: str, name: str) -> None:
        """Delete a consumer; one that is gone already is no error."""
        try:
            self.call(consumer_delete(stream, name))
        except ApiRefusedError as error:
            if error.err_code not in (CONSUMER_NOT_FOUND, STREAM_NOT_FOUND):
                raise

    # --- buckets -------------------------------------------------------------------------------

    def ensure_bucket(self, bucket: str, **config: Any) -> None:
        """Create a bucket, unless there is one of that name, which stays as it is."""
        stream = f"KV_{bucket}"
        try:
            self.stream_info(stream)
            return
        except ApiRefusedError as error:
            if error.err_code != STREAM_NOT_FOUND:
                raise
        try:
            self.call_with_retry(
                stream_create(
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
                    }
                )
            )
        except ApiRefusedError as error:
            # Another client has created it in the meantime.
            if error.err_code != STREAM_NAME_IN_USE:
                raise

    def kv_get(self, bucket: str, key: str) -> StoredMessage | None:
        """The newest entry of a key as the leader has it, a delete included."""
        return self.message(f"KV_{bucket}", {"last_by_subj": f"$KV.{bucket}.{key}"})

    def kv_put(
        self, bucket: str, key: str, value: bytes, expected_revision: int | None = None
    ) -> int:
        """Put an entry and return its revision. An expected revision of 0 means an absent key.

        Raises ApiRefusedError with one of WRONG_LAST_SEQUENCE if the key has another revision. If
        the connection is lost, the key is read before the put is repeated: with an expected
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

        return self.connection.retry(put)


def _header(pairs: list[tuple[bytes, bytes]]) -> bytes:
    if not pairs:
        return b""
    lines = b"".join([b"%b: %b\r\n" % pair for pair in pairs])
    return b"%b\r\n%b\r\n" % (VERSION, lines)


def _answer(reply: Reply) -> Document:
    """The document of an answer of the API. Raises ApiRefusedError."""
    try:
        answer = read_answer(reply.payload)
    except PeerError as error:
        raise LinkError(f"the server's answer is {error.reply}") from None
    if isinstance(answer, ApiRefusal):
        raise ApiRefusedError.of(answer)
    return answer
