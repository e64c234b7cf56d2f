"""Log files that set themselves aside."""

import errno

import pytest

from headwater.server.log_file import LogFile
from headwater.testing.files import MemoryAppendFile, MemoryFiles


class SteppingClock:
    """A clock that is a second later each time it is read."""

    def __init__(self) -> None:
        self._seconds = 1_700_000_000

    def monotonic_ns(self) -> int:
        return self.wall_ns()

    def wall_ns(self) -> int:
        self._seconds += 1
        return self._seconds * 1_000_000_000


@pytest.fixture
def files() -> MemoryFiles:
    memory = MemoryFiles()
    memory.make_dirs("/log")
    return memory


def written(files: MemoryFiles) -> dict[str, bytes]:
    """Every log file there is, by name."""
    return {path: files.read_bytes(path) for path in sorted(files.paths())}


def test_lines_are_appended_also_after_a_restart(files: MemoryFiles) -> None:
    for line in (b"one\n", b"two\n"):
        log = LogFile(files, SteppingClock(), "/log/server.log", 0, 0)
        log.write(line)
        log.close()
    assert files.read_bytes("/log/server.log") == b"one\ntwo\n"


def test_a_full_file_is_set_aside_and_old_ones_go(files: MemoryFiles) -> None:
    log = LogFile(files, SteppingClock(), "/log/server.log", bytes_max=8, files_max=2)
    for number in range(5):
        log.write(b"line %d\n" % number)
    kept = written(files)
    assert kept.pop("/log/server.log") == b"line 4\n"
    assert list(kept.values()) == [b"line 2\n", b"line 3\n"]
    assert all(path.startswith("/log/server.log.2023.11.14.22.13.") for path in kept)


def test_a_line_longer_than_the_limit_is_still_written(files: MemoryFiles) -> None:
    log = LogFile(files, SteppingClock(), "/log/server.log", bytes_max=4, files_max=0)
    log.write(b"much too long\n")
    log.write(b"x\n")
    assert sorted(written(files).values()) == [b"much too long\n", b"x\n"]


def test_reopening_begins_a_file_that_was_moved_away(files: MemoryFiles) -> None:
    log = LogFile(files, SteppingClock(), "/log/server.log", 0, 0)
    log.write(b"before\n")
    files.rename("/log/server.log", "/log/moved")
    log.reopen()
    log.write(b"after\n")
    assert written(files) == {"/log/moved": b"before\n", "/log/server.log": b"after\n"}


class StubbornFiles(MemoryFiles):
    """A disk on which nothing can be renamed or opened any more."""

    def rename(self, source: str, target: str) -> None:
        raise OSError(errno.EACCES, "permission denied")

    def deny_opening(self) -> None:
        self.open_append = self._refuse  # type: ignore[method-assign]

    def _refuse(self, path: str) -> MemoryAppendFile:
        raise OSError(errno.EMFILE, "too many open files")


class TestTrouble:
    @pytest.fixture
    def stubborn(self) -> StubbornFiles:
        files = StubbornFiles()
        files.make_dirs("/log")
        return files

    def test_a_file_that_can_not_be_set_aside_goes_on(self, stubborn: StubbornFiles) -> None:
        log = LogFile(stubborn, SteppingClock(), "/log/server.log", bytes_max=4, files_max=0)
        for line in (b"one\n", b"two\n", b"three\n"):
            log.write(line)
        assert written(stubborn) == {"/log/server.log": b"one\ntwo\nthree\n"}

    def test_a_file_that_can_not_be_opened_anew_goes_on(self, stubborn: StubbornFiles) -> None:
        log = LogFile(stubborn, SteppingClock(), "/log/server.log", 0, 0)
        stubborn.deny_opening()
        with pytest.raises(OSError, match="too many open files"):
            log.reopen()
        log.write(b"still here\n")
        assert written(stubborn) == {"/log/server.log": b"still here\n"}
