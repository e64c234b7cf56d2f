"""The stream file of a log: its reserved sequences and the body that the caller keeps in it.

A sequence is given out only if the synced stream file says that it is reserved. So a log that may
have lost its end goes on above the reservation, and gives out no sequence twice.
"""

from typing import Final, final

from headwater.store.disk.filesystem import NoRoomError, replace_file
from headwater.store.disk.format import StreamFile
from headwater.store.disk.layout import STREAM_FILE
from headwater.store.log.availability import Availability
from headwater.store.log.log_folder import LogFolder

# A reservation costs two syncs, so it is made for many sequences at a time.
RESERVED_AT_A_TIME: Final = 65_536


@final
class StreamFileWriter:
    """The stream file of an open log."""

    __slots__ = ("_availability", "_folder", "_stream")

    def __init__(self, folder: LogFolder, stream: StreamFile, availability: Availability) -> None:
        self._folder = folder
        self._stream = stream
        self._availability = availability

    @property
    def body(self) -> bytes:
        """The bytes that the caller keeps in the stream file."""
        return self._stream.body

    @property
    def reserved(self) -> int:
        """The last sequence that may be given out."""
        return self._stream.reserved

    def reserve(self, sequence: int) -> None:
        """Reserve `sequence`, and many above it, if it is not reserved. Raises OSError."""
        if sequence > self._stream.reserved:
            before = self._stream.reserved
            self._stream.reserved = sequence + RESERVED_AT_A_TIME
            try:
                self._replace()
            except NoRoomError:
                self._stream.reserved = before
                raise

    def set_body(self, body: bytes) -> None:
        """Replace the bytes that the caller keeps in the stream file, durably.

        Raises StoreError.
        """
        before = self._stream.body
        self._stream.body = body
        try:
            self._replace()
        except OSError as error:
            self._stream.body = before
            raise self._availability.failed("replacing the stream file", error) from error

    def _replace(self) -> None:
        replace_file(self._folder.files, self._folder.path_of(STREAM_FILE), self._stream.encode())
