"""The folder `set-aside`: keeps files, and parts of files, that could not be read.

Nothing is deleted because it could not be read. It lies in this folder beside the file, under the
file's name and its offset in the file.
"""

from typing import Final

from headwater.store.disk.filesystem import FileSystem

SET_ASIDE: Final = "set-aside"


def set_aside(files: FileSystem, folder: str, name: str, data: bytes) -> str:
    """Keep bytes that could not be understood, durably, before they go from where they are. Returns
    the path of their file."""
    path = _place_aside(files, folder, name)
    file = files.create(path)
    try:
        file.write(data)
        file.sync()
    except OSError:
        files.remove(path)
        raise
    finally:
        file.close()
    files.sync_folder(f"{folder}/{SET_ASIDE}")
    return path


def set_aside_file(files: FileSystem, folder: str, name: str) -> None:
    """Keep a file that could not be understood; takes no room on a disk that may be full."""
    files.rename(f"{folder}/{name}", _place_aside(files, folder, name))
    files.sync_folder(f"{folder}/{SET_ASIDE}")
    files.sync_folder(folder)


def _place_aside(files: FileSystem, folder: str, name: str) -> str:
    target = f"{folder}/{SET_ASIDE}"
    files.make_folder(target)
    files.sync_folder(folder)
    taken = set(files.list_folder(target))
    number = 0
    while f"{name}.{number}" in taken:
        number += 1
    return f"{target}/{name}.{number}"
