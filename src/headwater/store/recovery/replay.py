"""Replay of the write-ahead files: bytes that the streams' own files lack are put back."""

from collections.abc import Callable

from headwater.store.disk.filesystem import FileSystem
from headwater.store.disk.layout import JOURNAL_FILE
from headwater.store.disk.segment import segment_name
from headwater.store.disk.wal import JOURNAL
from headwater.store.disk.wal_reading import AheadFrames, put_together


def replay_frames(
    frames_by_file: dict[tuple[bytes, int, int], AheadFrames],
    files: FileSystem,
    folders: dict[bytes, str],
    files_in: Callable[[str], FileSystem],
    machine_fell: bool,
) -> None:
    """Put frames back into the files of their streams, where those are there.

    `folders` are those of the streams by identity; `files_in` returns the file system of a folder,
    which decodes its files. `machine_fell` says that the machine was stopped since they were
    written.
    """
    for (identity, kind, segment_first), frames in frames_by_file.items():
        folder = folders.get(identity, "")
        name = JOURNAL_FILE if kind == JOURNAL else segment_name(segment_first)
        if folder and files.exists(f"{folder}/{name}"):
            put_back(files_in(folder), f"{folder}/{name}", frames, machine_fell)


def put_back(files: FileSystem, path: str, frames: AheadFrames, machine_fell: bool) -> None:
    """Make a file have the bytes of its frames, in order, where they are not there already."""
    file = files.open(path)
    try:
        begin = min(
            (
                min(frame.offset, file.size)
                for frame in (*frames.certain, *frames.doubtful)
                if file.read(frame.offset, len(frame.data)) != frame.data
            ),
            default=-1,
        )
        if begin >= 0:
            before = file.read(begin, file.size - begin)
            after = put_together(before, begin, frames)
            if after != before:
                file.truncate(begin)
                file.write(after)
        # Also where all is there: it may be there only until the machine stops.
        if not machine_fell:
            # And a sync that failed before this process was started may have left it so that the
            # next one does nothing: the bytes have to be written again for it to count.
            for frame in frames.certain:
                file.overwrite(frame.offset, frame.data)
        file.sync()
    finally:
        file.close()
