"""The file by which a store is known: its identity, and how the last server left it.

    store.hw    magic, format version, whether the store was closed, start number, identity,
                boot id, checksum

The boot id tells one life of the machine from another: within one life no write is lost that the
operating system has taken, unless the mark of the store says so (`headwater.store.disk.mark`).

The start number counts the starts of servers on this store. It is on the disk before a server tells
anybody its number, so other servers that remember a larger one know that the store was put back to
an earlier state. In files of earlier versions it is zero.
"""

from struct import Struct
from typing import Final, final

from headwater.base.checksums import crc32
from headwater.store.disk.format import VERSION, FormatError, NewerFormatError

STORE_FILE: Final = "store.hw"
STORE_MAGIC: Final = b"HWSTORE!"
# The boot id of a machine without one: it may have been restarted at any time.
BOOT_UNKNOWN: Final = "unknown"
# The beginning of a boot id tells one from another; the rest is not kept.
BOOT_ID_BYTES_MAX: Final = 36

_STORE: Final = Struct("<8sHBxI16s36s")


@final
class StoreFile:
    """The store file, taken apart."""

    __slots__ = ("boot_id", "clean", "identity", "start_number")

    def __init__(self, identity: bytes, boot_id: bytes, clean: bool, start_number: int = 0) -> None:
        self.identity = identity
        self.boot_id = boot_id
        self.clean = clean
        self.start_number = start_number

    def encode(self) -> bytes:
        """The file's bytes."""
        data = _STORE.pack(
            STORE_MAGIC, VERSION, self.clean, self.start_number, self.identity, self.boot_id
        )
        return data + crc32(data).to_bytes(4, "little")

    @classmethod
    def decode(cls, data: bytes, name: str) -> "StoreFile":
        """Read a store file; raises FormatError."""
        if len(data) != _STORE.size + 4 or not data.startswith(STORE_MAGIC):
            raise FormatError(f"{name}: not a store file")
        if crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
            raise FormatError(f"{name}: fails its checksum")
        _, version, clean, start_number, identity, boot_id = _STORE.unpack_from(data)
        if version > VERSION:
            raise NewerFormatError(
                f"{name}: format version {version} is newer than this program's ({VERSION}); "
                "use a newer Headwater"
            )
        return cls(identity, boot_id.rstrip(b"\0"), bool(clean), start_number)
