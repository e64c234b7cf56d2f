"""A log file that sets itself aside when it has grown enough.

A full file is renamed to `<name>.<time>` and a new one begun; `files_max` old ones are kept.
"""

from datetime import UTC, datetime
from typing import final

from headwater.base.clock import NS_PER_S, Clock
from headwater.runtime.environment import AppendFile, Files


@final
class LogFile:
    """A sink for log lines."""

    __slots__ = ("_clock", "_file", "_files", "_old", "_path", "_written", "bytes_max", "files_max")

    def __init__(
        self, files: Files, clock: Clock, path: str, bytes_max: int, files_max: int
    ) -> None:
        self._files = files
        self._clock = clock
        self._path = path
        self.bytes_max = bytes_max
        self.files_max = files_max
        self._old: list[str] = []
        self._file: AppendFile = files.open_append(path)
        self._written = 0

    def write(self, line: bytes) -> None:
        """Append a line, beginning a new file first if this one is full."""
        if self.bytes_max and self._written and self._written + len(line) > self.bytes_max:
            try:
                self._rotate()
            except OSError:
                # A file that is too long is better than no log. The next try comes when as many
                # bytes again have been written.
                self._written = 0
        self._file.write(line)
        self._written += len(line)

    def reopen(self) -> None:
        """Open the path again, for tools that move log files away.

        Raises OSError if the path cannot be opened, and goes on with the file it has.
        """
        file = self._files.open_append(self._path)
        self._file.close()
        self._file = file
        self._written = 0

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _rotate(self) -> None:
        seconds, rest_ns = divmod(self._clock.wall_ns(), NS_PER_S)
        moment = datetime.fromtimestamp(seconds, UTC)
        target = f"{self._path}.{moment:%Y.%m.%d.%H.%M.%S}.{rest_ns:09d}"
        # The open file follows its new name, so a line is never without a file to go to.
        self._files.rename(self._path, target)
        self._old.append(target)
        self.reopen()
        while self.files_max and len(self._old) > self.files_max:
            self._files.remove(self._old.pop(0))
