"""The account that a stream lives in, as the stream and its consumers see it."""

from typing import Protocol

from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.server_room import ServerRoom
from headwater.jetstream.streams.view import StreamView


class Host(Protocol):
    """The account that a stream lives in, as far as the stream has to know it."""

    @property
    def server(self) -> ServerRoom: ...

    def has_interest(self, subject: bytes) -> bool:
        """Whether a subscription matches a subject."""
        ...

    def has_room(self, storage: Storage, size: int) -> bool:
        """Whether neither the server nor the account refuses `size` more bytes."""
        ...

    def check_account_room(self, storage: Storage, size: int) -> None:
        """Raises ApiError if the account may not store `size` more bytes."""
        ...

    def update_usage(self, stream: StreamView) -> None:
        """Count the bytes that a stream stores and reserves now."""
        ...
