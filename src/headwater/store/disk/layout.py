"""The names of the files and folders of a store.

    <store>/lock                        held by the server that has the store open
           /streams/<folder name>/      the folder of one stream
                    stream.hw           identity, reserved sequences, body of the caller
                    journal.hw          everything but messages
                    journal-new.hw      the successor of the journal, while it is written
                    segment-….hw        messages (`headwater.store.disk.segment`)
                    name.hw             the stream's name, where the folder's name cannot hold it
                    removed.hw          stream.hw of a stream that is being removed

The other files of a store are named where they are read and written.
"""

from hashlib import sha256
from typing import Final

STREAM_FILE: Final = "stream.hw"
JOURNAL_FILE: Final = "journal.hw"
JOURNAL_NEW_FILE: Final = "journal-new.hw"
# The stream file is renamed to this when the stream is removed: from then on it is no stream.
REMOVED_FILE: Final = "removed.hw"
LOCK_FILE: Final = "lock"
STREAMS_FOLDER: Final = "streams"

# The name of a folder has at most this many bytes. The folder of a stream whose name is longer has
# the beginning of the name, a mark that no other name has, and a digest; the name is in a file.
NAME_FILE: Final = "name.hw"
LONG_NAME_MARK: Final = "%~"
_FOLDER_BYTES_MAX: Final = 255
_DIGEST_BYTES: Final = 16

_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def folder_name(name: str) -> str:
    """The name of a stream's folder: bytes other than letters, digits, _ and - become %XX."""
    plain = "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in name.encode())
    if len(plain) <= _FOLDER_BYTES_MAX:
        return plain
    end = LONG_NAME_MARK + sha256(name.encode()).digest()[:_DIGEST_BYTES].hex()
    return plain[: _FOLDER_BYTES_MAX - len(end)] + end


def name_of_folder(folder: str) -> str:
    """The stream's name in a folder's name. Raises ValueError if the folder's name has none."""
    parts = folder.split("%")
    data = parts[0].encode() + b"".join(
        bytes.fromhex(part[:2]) + part[2:].encode() for part in parts[1:]
    )
    return data.decode()
