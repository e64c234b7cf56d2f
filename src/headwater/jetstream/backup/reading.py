"""The reader of backups of any form, piece by piece.

    bytes ─▶ S2 ─▶ form (by its first bytes) ─▶ Filler ─▶ log
                                               └▶ consumers

The caller feeds bytes as they come and calls `step` until more input is needed; no step takes long,
and the memory holds no more than a frame, an entry and a batch of messages. When a form knows its
first sequence it asks for a log, which the caller creates. Nothing here knows who sends a backup,
or what becomes of a log that was not filled to the end.
"""

from typing import Final, final

from headwater.jetstream.backup.archive import MAGIC
from headwater.jetstream.backup.archive_form import ArchiveForm
from headwater.jetstream.backup.consumers import BackedUpConsumer
from headwater.jetstream.backup.errors import BackupError
from headwater.jetstream.backup.files_form import FilesForm
from headwater.jetstream.backup.filling import Filler, Rules
from headwater.jetstream.backup.form import Beginning, Form, Progress
from headwater.jetstream.backup.s2 import S2Reader
from headwater.jetstream.backup.tar import BLOCK_BYTES
from headwater.store.log.message_log import MessageLog

# The mark in the header of a tar archive, and its offset.
_TAR_MARK: Final = b"ustar"
_TAR_MARK_AT: Final = 257
NO_BACKUP: Final = "it is not the backup of a stream"


@final
class BackupReader:
    """Reads a backup. Raises BackupError or StoreError, and is of no use afterwards."""

    __slots__ = ("_form", "_is_complete", "_opening", "_rules", "_s2")

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._s2 = S2Reader()
        # The first bytes, until they show the form.
        self._opening = b""
        self._form: Form | None = None
        self._is_complete = False

    @property
    def beginning(self) -> Beginning:
        """The facts that are known when a log is needed."""
        if self._form is None or self._form.beginning is None:
            return Beginning(1)
        return self._form.beginning

    @property
    def created_ns(self) -> int:
        """When the stream was created; 0 if the backup does not have it."""
        return 0 if self._form is None else self._form.created_ns

    @property
    def consumers(self) -> list[BackedUpConsumer]:
        """The consumers that were read so far."""
        return [] if self._form is None else [*self._form.consumers]

    def give_log(self, log: MessageLog) -> None:
        """Set the log to fill, which is empty and begins at `beginning`."""
        if self._form is not None:
            self._form.filler = Filler(log, self._rules)

    def feed(self, data: bytes) -> None:
        """Add bytes to the input; those after the end are ignored."""
        if not self._is_complete:
            self._s2.feed(data)

    def step(self, now_ns: int) -> Progress:
        """Do some of the work."""
        if self._is_complete:
            return Progress.COMPLETE
        if self._form is not None:
            progress = self._form.step(now_ns)
            self._is_complete = progress is Progress.COMPLETE
            if progress is not Progress.NEEDS_INPUT:
                return progress
        data = self._s2.read()
        if data is None:
            return Progress.NEEDS_INPUT
        if self._form is None:
            data = self._recognise(self._opening + data)
        if self._form is not None:
            self._form.feed(data)
        return Progress.BUSY

    def _recognise(self, data: bytes) -> bytes:
        """Determine the form. Returns the bytes to feed to it."""
        if data.startswith(MAGIC):
            self._form = ArchiveForm(self._rules)
            return data[len(MAGIC) :]
        if data.startswith(_TAR_MARK, _TAR_MARK_AT):
            self._form = FilesForm(self._rules)
            return data
        if len(data) >= BLOCK_BYTES:
            raise BackupError(NO_BACKUP)
        self._opening = data
        return b""

    def finish(self) -> None:
        """Raises BackupError if the backup is incomplete."""
        if self._is_complete:
            return
        if self._form is None:
            raise BackupError(NO_BACKUP)
        if not self._s2.is_between_frames:
            raise BackupError("backup was truncated")
        self._form.finish()
