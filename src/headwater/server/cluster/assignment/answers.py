"""Answers to requests that the meta group has ordered, from the server that carried them out."""

from collections.abc import Callable
from typing import Final, final

from headwater.go.json import JsonError, read
from headwater.jetstream import error_codes
from headwater.jetstream.advisories import Action, ClientDocument
from headwater.jetstream.api.clustering import DoneResponse, ServerRemoveResponse
from headwater.jetstream.api.documents import (
    ErrorDocument,
    Response,
    StreamCreateResponse,
    StreamDeleteResponse,
)
from headwater.jetstream.api.router import find_operation
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.meta.records import AnswerTo
from headwater.server.core.accounts import Account
from headwater.server.streams.advisories import Advisories
from headwater.server.streams.api_service import API_PREFIX, ApiService
from headwater.server.streams.routing import Call
from headwater.store.errors import StoreError

# A client of another server that is not described: the server itself, or the system account.
ANONYMOUS: Final = ClientDocument()


@final
class OrderedAnswers:
    """Answers by the reply subjects that records carry. `account_of` finds an account by name."""

    __slots__ = ("_account_of", "_advisories", "_api")

    def __init__(
        self,
        api: ApiService,
        account_of: Callable[[str], Account | None],
        advisories: Advisories,
    ) -> None:
        self._api = api
        self._account_of = account_of
        self._advisories = advisories

    def created(self, account: str, name: str, answer: AnswerTo) -> None:
        """Answer the creation of a stream that runs here."""
        api = self._api.find_api(account)
        stream = None if api is None else api.account.streams.get(name)
        if api is not None and stream is not None:
            self._send(answer, api.describe_created(stream))
            home = self._account_of(account)
            if home is not None and stream.config.num_replicas > 1:
                # The set of streams announces those that one server holds.
                self._advisories.stream_action(home, name, Action.CREATE)

    def not_created(self, answer: AnswerTo, error: StoreError | ApiError) -> None:
        """Answer the creation of a stream that cannot run here."""
        if isinstance(error, StoreError):
            error = ApiError.of(error_codes.STREAM_CREATE, err=str(error))
        self._send(answer, StreamCreateResponse(error=ErrorDocument.of(error)))

    def update(
        self, account: str, name: str, config: StreamConfig, answer: AnswerTo | None
    ) -> None:
        """Change the configuration of a stream that is led here, and answer the request."""
        home = self._account_of(account)
        if home is not None:

            def reply(response: Response) -> None:
                if answer is not None:
                    self._send(answer, response)

            self._api.update_stream(home, name, config, reply)

    def changed(self, answer: AnswerTo) -> None:
        """Answer a request to have other servers hold a stream, or to remove a server."""
        name = answer.subject[len(API_PREFIX) :].decode(errors="surrogateescape")
        found = find_operation(name)
        response = ServerRemoveResponse if found is None else found[0].response
        if issubclass(response, DoneResponse):
            self._send(answer, response(success=True))

    def deleted(self, answer: AnswerTo) -> None:
        """Answer the deletion of a stream."""
        self._send(answer, StreamDeleteResponse(success=True))

    def _send(self, answer: AnswerTo, response: Response) -> None:
        account = self._account_of(answer.account)
        if account is not None:
            call = Call(
                account,
                client_of(answer.client),
                answer.subject,
                answer.reply_subject,
                -1,
                answer.request,
            )
            self._api.deliver(call, answer.request, response)


def client_of(described: bytes) -> ClientDocument | None:
    """The description of a client that came from another server; None if it cannot be read."""
    if not described:
        return None
    try:
        return read(described, ClientDocument, strict=False)
    except JsonError:
        return None
