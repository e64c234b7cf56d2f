"""A call of the API: its subject, the function that answers it, and its kind of reply."""

from collections.abc import Callable, Generator
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from headwater.base.sliced import Work
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.advisories import ClientDocument
from headwater.jetstream.api.documents import Response
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Effect, Proposal
from headwater.jetstream.records import Record, StreamSetRecord
from headwater.store.errors import StoreError

# Any number of words: a filter of any length.
ANY_NUMBER: Final = 1 << 30


class Request(NamedTuple):
    """A request: the words of its subject after the name of the call, and the body."""

    words: list[str]
    body: bytes
    # Describes the client for advisories; None for the server itself.
    describe_client: Callable[[], ClientDocument | None]
    # The header block of the request.
    header: bytes = b""

    @property
    def stream_name(self) -> str:
        """The stream in the subject."""
        return self.words[0]


# The API of an account, which operations are called with.
Api = TypeVar("Api")


class Requested(NamedTuple):
    """A change that a request asks for, after all checks: it is proposed to the stream's group.

    `respond` gives the reply once the records are applied, from the number of messages that left
    and from the state by then. `refuse` gives the error if the log could not take the records.
    """

    records: list[Record]
    respond: Callable[[int], Response]
    refuse: Callable[[StoreError], ApiError]
    effects: tuple[Effect, ...] = ()


class SetRequested(NamedTuple):
    """A creation or deletion that a request asks for, after all checks: it is proposed to the group
    of the set of streams.

    `respond` gives the reply once the stream runs or is gone. `refuse` gives the error if the log
    could not take the records, or the files could not be made or removed.
    """

    proposal: Proposal[StreamSetRecord]
    respond: Callable[[int], Response]
    refuse: Callable[[StoreError], ApiError]


class OfAccount(Protocol):
    """The API of an account."""

    @property
    def account(self) -> JetStreamAccount:
        """The streams, the limits and the statistics of the account."""
        ...


class Found(NamedTuple):
    """The reply to a call, or the change that it asks for."""

    response: Response | Requested | SetRequested | None
    # Whether an advisory of the call is published.
    is_told: bool
    # Whether it counts as a call, and as an error.
    is_counted: bool = False
    is_error: bool = False

    def count_in(self, api: OfAccount | None) -> None:
        """Count the call in the statistics of its account, if that has JetStream."""
        if api is not None:
            api.account.api_total += self.is_counted
            api.account.api_errors += self.is_error


# An answer that is found some at a time, or the change that it has to wait for.
Answering = Work[Response | Requested]


class Operation(NamedTuple, Generic[Api]):
    """A call. If `answer` raises ApiError, the reply is of its kind and has the error.

    A reply that is returned with an error in it is sent to the client all the same, but does not
    count as an error: nats-server does so with errors of the store. None stands for no reply at
    all, because the consumer that would have to reply does not exist.
    """

    answer: Callable[[Api, Request], Response | Requested | SetRequested | Answering | None]
    response: type[Response]
    # The number of words after its name in the subject.
    words_min: int = 1
    words_max: int = 1
    # Whether a reply without error counts in the statistics of the API and has an advisory.
    is_counted: bool = True
    # Whether the call is refused without a cluster, before any other check.
    needs_cluster: bool = False
    # The header of a reply, if it may have one.
    header: Callable[[Api, Request, Response], bytes] | None = None
    # Whether a change can be decided now, while entries of its stream are in flight. Without it, a
    # change is decided when all of them are applied.
    is_foreseen: Callable[[Api, Request], bool] | None = None
    # A check that comes first, even before the API level that the request requires.
    looks_first: Callable[[Api, Request], object] | None = None

    def answering(
        self, api: Api, request: Request
    ) -> Work[Response | Requested | SetRequested | None]:
        """The answer or the change, found at once or some at a time."""
        answer = self.answer(api, request)
        return (yield from answer) if isinstance(answer, Generator) else answer
