"""One call of the API: how it is asked, who answers it, and with what kind of reply."""

from collections.abc import Callable, Generator
from typing import Final, Generic, NamedTuple, TypeVar

from headwater.base.sliced import Work
from headwater.jetstream.advisories import ClientDocument
from headwater.jetstream.api.documents import Response

# As many words as one likes: a filter of any length.
ANY_NUMBER: Final = 1 << 30


class Request(NamedTuple):
    """A call as it came: the words of its subject after its name, and the body."""

    words: list[str]
    body: bytes
    # Who asks, for those who tell about it; None for the server itself.
    describe_client: Callable[[], ClientDocument | None]
    # The block of headers it came with.
    header: bytes = b""

    @property
    def stream_name(self) -> str:
        """The stream that the subject names."""
        return self.words[0]


# The API of an account, which operations are called with.
Api = TypeVar("Api")

# An answer that is found some at a time.
Answering = Work[Response]


class Operation(NamedTuple, Generic[Api]):
    """A call. An `answer` may raise ApiError: then the reply is of its kind and has the error.

    A reply that was returned with an error in it is told to the client all the same, but does not
    count as an error: so does nats-server with what goes wrong in the store. None is no reply at
    all: who would have to give it is not there.
    """

    answer: Callable[[Api, Request], Response | Answering | None]
    response: type[Response]
    # How many words follow its name in the subject.
    words_min: int = 1
    words_max: int = 1
    # Whether a reply without error counts in the statistics of the API, and is told as an advisory.
    is_counted: bool = True
    # Whether it is refused before anything is looked at where there is no cluster.
    needs_cluster: bool = False
    # The header of a reply, where it may have one.
    header: Callable[[Api, Request, Response], bytes] | None = None
    # What is looked at first and may be refused even where the API is older than is asked for.
    looks_first: Callable[[Api, Request], object] | None = None

    def answering(self, api: Api, request: Request) -> Work[Response | None]:
        """The answer, found at once or some at a time."""
        answer = self.answer(api, request)
        return (yield from answer) if isinstance(answer, Generator) else answer
