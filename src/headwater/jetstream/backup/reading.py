"""A backup taken in piece by piece, whatever its form.

    bytes ─▶ S2 ─▶ form (by its first bytes) ─▶ Filler ─▶ log
                                               └▶ consumers

The caller feeds bytes as they come and calls `step` until it is hungry; no step takes long, and no
more is held than a frame, an entry and a run of messages. When a form knows where its sequences
begin it wants a log, which the caller makes. Nothing here knows who sends a backup, or what becomes
of a log that was not filled to the end.
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

# Where the header of a tar archive says that it is one.
_TAR_MARK: Final = b"ustar"
_TAR_MARK_AT: Final = 257
NO_BACKUP: Final = "it is not the backup of a stream"


@final
class BackupReader:
    """Takes a backup in. Raises BackupError or StoreError, and is of no use afterwards."""

    __slots__ = ("_form", "_is_complete", "_opening", "_rules", "_s2")

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._s2 = S2Reader()
        # The first bytes, as long as they do not tell which form it is.
        self._opening = b""
        self._form: Form | None = None
        self._is_complete = False

    @property
    def beginning(self) -> Beginning:
        """What is known when a log is wanted."""
        if self._form is None or self._form.beginning is None:
            return Beginning(1)
        return self._form.beginning

    @property
    def created_ns(self) -> int:
        """When the stream was made that was backed up; 0 if the backup does not say."""
        return 0 if self._form is None else self._form.created_ns

    @property
    def consumers(self) -> list[BackedUpConsumer]:
        """The consumers in what was read so far."""
        return [] if self._form is None else [*self._form.consumers]

    def give_log(self, log: MessageLog) -> None:
        """The log to fill, which has nothing in it and begins at `beginning`."""
        if self._form is not None:
            self._form.filler = Filler(log, self._rules)

    def feed(self, data: bytes) -> None:
        """Take bytes in; what comes after the end is ignored."""
        if not self._is_complete:
            self._s2.feed(data)

    def step(self, now_ns: int) -> Progress:
        """Do some of the work there is."""
        if self._is_complete:
            return Progress.COMPLETE
        if self._form is not None:
            progress = self._form.step(now_ns)
            self._is_complete = progress is Progress.COMPLETE
            if progress is not Progress.HUNGRY:
                return progress
        data = self._s2.read()
        if data is None:
            return Progress.HUNGRY
        if self._form is None:
            data = self._recognise(self._opening + data)
        if self._form is not None:
            self._form.feed(data)
        return Progress.BUSY

    def _recognise(self, data: bytes) -> bytes:
        """Find out which form it is; what has to be fed to it."""
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
        """No more is to come. Raises BackupError where the backup is not whole."""
        if self._is_complete:
            return
        if self._form is None:
            raise BackupError(NO_BACKUP)
        if not self._s2.is_between_frames:
            raise BackupError("backup was truncated")
        self._form.finish()
