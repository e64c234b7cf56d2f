"""An account with one stream in memory and its API, without a server around them.

A request of the API to its keeper becomes a record of the stream at once.
"""

import json
from typing import Any, Final, cast

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.base.sliced import at_once
from headwater.go.json import read, write
from headwater.jetstream.account import AccountLimits, JetStreamAccount
from headwater.jetstream.api.documents import ErrorDocument, Response
from headwater.jetstream.api.keepers import ApiSettings, Keepers
from headwater.jetstream.api.operation import Request, Requested, SetRequested
from headwater.jetstream.api.router import find_operation
from headwater.jetstream.api.streams import StreamApi
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.config.stream_checks.checks import Surroundings, normalised
from headwater.jetstream.config.stream_config import (
    StreamConfig,
    StreamRequest,
    with_required_level,
)
from headwater.jetstream.errors import ApiError
from headwater.jetstream.meta.coming_streams import ComingStreams
from headwater.jetstream.server_room import ServerRoom, Usage
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits, BatchRoom
from headwater.jetstream.streams.stream import Stream
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import StoreError
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.recorded.streams import ORACLE_VERSION, Document

BEGINNING_NS: Final = 1_800_000_000 * NS_PER_S


class ApiWorld:
    """The keeper of one stream, and the client of its API."""

    def __init__(self, stream: Document | None = None, **limits: int) -> None:
        self.now = BEGINNING_NS
        # The number of changes that were recorded.
        self.changes = 0
        # The error that the next change meets.
        self.failure: StoreError | None = None
        self._drawn = 0
        # The subjects somebody listens to.
        self.listened: set[bytes] = set()
        room = ServerRoom(
            max_payload=1024 * 1024,
            domain="",
            entropy=SeededEntropy(labelled_rng(1, "world")),
            find_zone=lambda _: None,
            batch_room=BatchRoom(BatchLimits()),
            usage=Usage(),
            check_storage=lambda _: None,
            has_listener=lambda _, subject: subject in self.listened,
        )
        self.account = JetStreamAccount(
            "A",
            AccountLimits(
                max_consumers=limits.get("account_max_consumers", -1),
                max_ack_pending=limits.get("account_max_ack_pending", -1),
            ),
            room,
        )
        asked = {"name": "S", "subjects": ["s.>"], **(stream or {})}
        request = read(json.dumps(asked).encode(), StreamRequest, strict=True)
        config = normalised(with_required_level(request.over(None)), False, Surroundings())
        self.stream = Stream(config, MemoryLog(1), self.now, self.account)
        self.account.add_stream(self.stream)
        settings = ApiSettings(
            server_name="world",
            server_version=ORACLE_VERSION,
            strict=True,
            max_ack_pending=limits.get("server_max_ack_pending", 0),
            max_request_batch=limits.get("server_max_request_batch", 0),
            default_max_consumers=limits.get("default_max_consumers", -1),
        )
        keepers = Keepers(
            cast(Any, self), cast(Any, self), cast(Any, self), self.generate_name, self.now_ns
        )
        self.api = StreamApi(self.account, keepers, settings)

    def ask(self, subject: str, body: bytes = b"") -> Document | None:
        """The reply to a call of the API; None is silence."""
        text = self.ask_for_bytes(subject, body)
        return None if text is None else cast(Document, json.loads(text))

    def ask_for_bytes(self, subject: str, body: bytes = b"") -> bytes | None:
        """The reply as it is sent."""
        response = self._ask(subject, body, b"")[0]
        return None if response is None else write(response)

    def ask_with_header(self, subject: str, body: bytes, header: bytes) -> tuple[Document, bytes]:
        """The reply to a call with a header, and the header of the reply."""
        response, block = self._ask(subject, body, header)
        return cast(Document, json.loads(write(response))), block

    def _ask(self, subject: str, body: bytes, header: bytes) -> tuple[Response | None, bytes]:
        found = find_operation(subject)
        assert found is not None, subject
        operation, words = found
        request = Request(words, body, lambda: None, header)
        try:
            response = at_once(operation.answering(self.api, request))
            assert not isinstance(response, SetRequested), "the world has one stream"
            if isinstance(response, Requested):
                response = self._make(response)
        except ApiError as error:
            response = operation.response(error=ErrorDocument.of(error))
        if response is None or operation.header is None:
            return response, b""
        return response, operation.header(self.api, request, response)

    def create(self, name: str, **config: Any) -> Document:
        """The reply to the creation or update of a consumer."""
        body = {"stream_name": "S", "config": config}
        reply = self.ask(f"CONSUMER.CREATE.S.{name}", json.dumps(body).encode())
        assert reply is not None
        return reply

    # --- what the API asks ---------------------------------------------------------------------

    def now_ns(self) -> int:
        return self.now

    def generate_name(self) -> str:
        self._drawn += 1
        return f"drawn{self._drawn:03}"

    @property
    def coming(self) -> ComingStreams:
        return ComingStreams()

    def check_reservation(
        self,
        account: JetStreamAccount,
        config: StreamConfig,
        old: StreamConfig | None,
        coming: ComingStreams,
    ) -> None:
        """Nothing is reserved."""

    def _make(self, requested: Requested) -> Response:
        """Apply the records of a change, and respond."""
        if self.failure is not None:
            raise requested.refuse(self.failure)
        self.changes += 1
        removed = sum(at_once(self.stream.applying(record)) for record in requested.records)
        return requested.respond(removed)


def settings(config: ConsumerConfig) -> Document:
    """A configuration as a client would see it."""
    return cast(Document, msgspec.json.decode(write(config)))
