"""The file in which a server keeps what it must not forget about its cluster.

    cluster.hw    magic, version, length of the record of the birth, order, that record, the memory
                  of other servers, checksum

The file is replaced as a whole and is on the disk before anything in it is told to another server.
It changes when a cluster is born and when a server starts, so it is written rarely.

An operator gives an order while the server is stopped (`headwater store cluster`). The server
carries it out when it starts, before it talks to others (`orders`).
"""

from enum import IntEnum
from struct import Struct
from typing import Final, final

from headwater.base.checksums import crc32
from headwater.base.errors import PeerError
from headwater.server.cluster.consensus.birth import BirthRecord, decode_record, encode_record
from headwater.server.cluster.consensus.peers import PeerMemory
from headwater.store.disk.filesystem import FileSystem, read_file, replace_file
from headwater.store.errors import StoreError

CLUSTER_FILE: Final = "cluster.hw"
_MAGIC: Final = b"HWCLUST!"
_VERSION: Final = 1
_HEAD: Final = Struct("<8sHIB")
_CHECKSUM_BYTES: Final = 4


class Order(IntEnum):
    """The order of an operator that a server has not carried out yet."""

    NONE = 0

    RESET = 1
    """Go on as the only server of the cluster."""

    LEAVE = 2
    """Give up the cluster, and join the one of other servers with nothing."""


@final
class ClusterFile:
    """The record of the birth, an order and the memory of other servers, on the disk."""

    __slots__ = ("_files", "_path", "birth", "order", "peers")

    def __init__(self, files: FileSystem, folder: str) -> None:
        """Read the file, if there is one. Raises StoreError: an unreadable one is never replaced.

        A server without its memory would vote as one that has forgotten nothing.
        """
        self._files = files
        self._path = f"{folder}/{CLUSTER_FILE}"
        self.birth = BirthRecord()
        self.order = Order.NONE
        self.peers = PeerMemory()
        try:
            data = read_file(files, self._path) if files.exists(self._path) else None
        except OSError as error:
            raise StoreError(f"{self._path} cannot be read: {error}") from error
        if data is not None:
            self._decode(data)

    def _decode(self, data: bytes) -> None:
        end = len(data) - _CHECKSUM_BYTES
        if end < _HEAD.size or not data.startswith(_MAGIC):
            raise StoreError(f"{self._path} is not the file of a cluster")
        if crc32(data[:end]) != int.from_bytes(data[end:], "little"):
            raise StoreError(f"{self._path} fails its checksum")
        _, version, size, order = _HEAD.unpack_from(data)
        if version > _VERSION:
            raise StoreError(
                f"{self._path}: format version {version} is newer than this program's "
                f"({_VERSION}); use a newer Headwater"
            )
        if order > max(Order):
            raise StoreError(f"{self._path}: unknown order {order}")
        begin = _HEAD.size + size
        try:
            self.birth = decode_record(data[_HEAD.size : begin])
            self.peers = PeerMemory.decode(data[begin:end])
            self.order = Order(order)
        except PeerError as error:
            raise StoreError(f"{self._path}: {error.reply}") from error

    def save(self, birth: BirthRecord) -> None:
        """Write a record, the order and the memory; all are on the disk then. Raises StoreError."""
        record = encode_record(birth)
        head = _HEAD.pack(_MAGIC, _VERSION, len(record), self.order)
        data = head + record + self.peers.encode()
        try:
            replace_file(self._files, self._path, data + crc32(data).to_bytes(4, "little"))
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error}") from error
        self.birth = birth
