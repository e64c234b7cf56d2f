"""The folders of a store's streams: their names, and how they come and go.

A folder with a stream file holds a stream. The removal of a stream renames that file first, in one
step, so that a crash leaves a stream or the rest of a removal, which the next start finishes.
"""

from typing import final

from headwater.base.entropy import Entropy
from headwater.base.errors import OperatingError
from headwater.store.disk.encoding import KEY_FILE, EncodedFiles, Encoding
from headwater.store.disk.filesystem import FileSystem, read_file, replace_file
from headwater.store.disk.findings import Findings
from headwater.store.disk.format import FormatError, StreamFile
from headwater.store.disk.layout import (
    LONG_NAME_MARK,
    NAME_FILE,
    REMOVED_FILE,
    STREAM_FILE,
    STREAMS_FOLDER,
    folder_name,
    name_of_folder,
)
from headwater.store.disk.set_aside import SET_ASIDE, set_aside_file


@final
class StreamFolders:
    """The folders of all streams of one store."""

    __slots__ = ("_encoding", "_entropy", "_files", "path")

    def __init__(
        self, files: FileSystem, store_folder: str, encoding: Encoding, entropy: Entropy
    ) -> None:
        self._files = files
        self._encoding = encoding
        self._entropy = entropy
        self.path = f"{store_folder}/{STREAMS_FOLDER}"

    def names(self) -> list[str]:
        """The names of all streams there are, open or not."""
        return [
            self._name_in(folder)
            for folder in self._files.list_folder(self.path)
            if self._files.exists(f"{self.path}/{folder}/{STREAM_FILE}")
        ]

    def _name_in(self, folder: str) -> str:
        """The name of the stream in a folder; that of the folder if it cannot be told."""
        if LONG_NAME_MARK not in folder:
            return name_of_folder(folder)
        try:
            return read_file(self._files, f"{self.path}/{folder}/{NAME_FILE}").decode()
        except (OSError, ValueError):
            return folder

    def folder_of(self, name: str) -> str:
        """The path of a stream's folder, which need not be there."""
        return f"{self.path}/{folder_name(name)}"

    def files_in(self, folder: str, is_new: bool = False, compresses: bool = False) -> EncodedFiles:
        """The file system of one stream's folder."""
        name = folder.rpartition("/")[2]
        return self._encoding.files_in(self._files, folder, name, self._entropy, is_new, compresses)

    def has_stream(self, name: str) -> bool:
        """Whether there is a stream of that name."""
        return self._files.exists(f"{self.folder_of(name)}/{STREAM_FILE}")

    def is_encrypted(self, name: str) -> bool:
        """Whether a stream that is there was made under a key."""
        return self._files.exists(f"{self.folder_of(name)}/{KEY_FILE}")

    def read_stream_files(self) -> dict[str, StreamFile | None]:
        """The stream files of all streams there are, by name; None for a file that is unreadable.

        Its problem is reported when the stream is opened. Raises StoreError if a key is wrong.
        """
        return {
            name: self._read_stream_file(self.folder_of(name), STREAM_FILE) for name in self.names()
        }

    def _read_stream_file(self, folder: str, name: str) -> StreamFile | None:
        path = f"{folder}/{name}"
        try:
            return StreamFile.decode(read_file(self.files_in(folder), path), path)
        except (OSError, FormatError):
            return None

    # --- coming and going ----------------------------------------------------------------------

    def make_folder(self, name: str) -> str:
        """Make the folder of a new stream, durably; returns its path. Raises OSError."""
        folder = self.folder_of(name)
        self._files.make_folder(folder)
        self._files.sync_folder(self.path)
        # Files that an interrupted creation has left, or somebody else.
        for left in self._files.list_folder(folder):
            if left != SET_ASIDE:
                set_aside_file(self._files, folder, left)
        if LONG_NAME_MARK in folder:
            replace_file(self._files, f"{folder}/{NAME_FILE}", name.encode())
        return folder

    def remove_folder(self, name: str) -> None:
        """Remove the folder of a stream with all that is in it. Raises OSError."""
        folder = self.folder_of(name)
        # First what makes it a stream, in one step: a crash half way must not leave half a one.
        self._files.rename(f"{folder}/{STREAM_FILE}", f"{folder}/{REMOVED_FILE}")
        self._files.sync_folder(folder)
        self._remove_rest(folder)

    def finish_removals(self, findings: Findings) -> dict[str, bytes | None]:
        """Remove what is left of streams that were being removed.

        Returns the identity of each by its name; None if it cannot be read.
        """
        removed: dict[str, bytes | None] = {}
        for name in self._files.list_folder(self.path):
            folder = f"{self.path}/{name}"
            if not self._files.is_folder(folder):
                continue
            there = self._files.list_folder(folder)
            try:
                if not there:
                    self._files.remove_folder(folder)
                elif REMOVED_FILE in there and STREAM_FILE not in there:
                    removed[self._name_in(name)] = self._identity_of_removed(folder)
                    self._remove_rest(folder)
            except OSError as error:
                findings.add("unremoved", f"{folder}: {error}")
        return removed

    def _identity_of_removed(self, folder: str) -> bytes | None:
        try:
            file = self._read_stream_file(folder, REMOVED_FILE)
        except OperatingError:
            # The key of the stream is gone already, or was another one.
            return None
        return None if file is None else file.identity

    def _remove_rest(self, folder: str) -> None:
        for name in self._files.list_folder(folder):
            if name == SET_ASIDE:
                self._remove_folder(f"{folder}/{name}")
            elif name != REMOVED_FILE:
                self._files.remove(f"{folder}/{name}")
        self._files.sync_folder(folder)
        self._files.remove(f"{folder}/{REMOVED_FILE}")
        self._files.remove_folder(folder)
        self._files.sync_folder(self.path)

    def _remove_folder(self, folder: str) -> None:
        for name in self._files.list_folder(folder):
            path = f"{folder}/{name}"
            if self._files.is_folder(path):
                self._remove_folder(path)
            else:
                self._files.remove(path)
        self._files.remove_folder(folder)
