"""What JetStream takes of the machine: a folder, memory and disk, and the key its files are under.

What the options leave open is chosen as nats-server chooses it: three quarters of the memory and of
the free disk, and a folder among the temporary files, with a warning. That folder is our own: a
nats-server on the same machine has another, and neither finds the other's streams in its store.

Knows options and the environment; nothing here opens a store.
"""

from dataclasses import dataclass, replace
from posixpath import join, normpath
from typing import Final

from headwater.base.errors import OperatingError
from headwater.jetstream.config.api_level import API_LEVEL
from headwater.runtime.environment import Environment
from headwater.server.configuration.options import JetStreamOptions, StoreCipher
from headwater.store.disk.cipher import Cipher, ServerKey
from headwater.store.disk.encoding import Encoding
from headwater.store.disk.filesystem import FileSystem

STORE_FOLDER: Final = "jetstream"
# Below the folder for temporary files, where no folder was named.
TEMPORARY_FOLDER: Final = "headwater"
TEMPORARY_WARNING: Final = "Temporary storage directory used, data could be lost on system reboot"
# A folder of nats-server has one folder per account with this one in it.
_FOREIGN_STREAMS: Final = "streams"
_PROBE: Final = "_test_"
# Used where a disk does not tell how much room it has.
_DISK_BYTES_UNKNOWN: Final = 1 << 40
_MEMORY_BYTES_UNKNOWN: Final = 256 << 20
_UNIT_STEP: Final = 1024

# Bytes that are kept free on the disk for removing messages when it is full: room for some thousand
# ranges of sequences, or ids of messages. A server that may store little keeps little.
RESERVE_BYTES_MAX: Final = 4 << 20
RESERVE_PARTS: Final = 64

_CIPHERS: Final = {
    StoreCipher.CHACHA: Cipher.CHACHA20_POLY1305,
    StoreCipher.AES: Cipher.AES_GCM,
}


class ResourceError(OperatingError):
    """The folder can not be used; the text is nats-server's where it has one."""


@dataclass(frozen=True)
class Resources:
    """What streams may use of this machine."""

    folder: str
    max_memory_bytes: int
    max_storage_bytes: int
    # Something of it was chosen by what the machine has.
    is_dynamic: bool = False
    is_temporary: bool = False

    def raised(self, options: JetStreamOptions) -> "Resources":
        """The same with the larger limits of a reloaded configuration."""
        return replace(
            self,
            max_memory_bytes=_given(options.max_memory_bytes, self.max_memory_bytes),
            max_storage_bytes=_given(options.max_file_bytes, self.max_storage_bytes),
        )


def reserve_bytes_of(resources: Resources) -> int:
    """The bytes that are kept free on the disk for removing messages when it is full."""
    return min(resources.max_storage_bytes // RESERVE_PARTS, RESERVE_BYTES_MAX)


def _given(limit: int, otherwise: int) -> int:
    return limit if limit >= 0 else otherwise


def resources_of(options: JetStreamOptions, environment: Environment) -> Resources:
    """Decide what the options leave open, and make the folder. Raises ResourceError."""
    is_dynamic = options.max_memory_bytes <= 0 or options.max_file_bytes <= 0
    folder = options.store_dir
    if not folder:
        folder = join(environment.process.temporary_folder(), TEMPORARY_FOLDER)
    folder = normpath(join(folder, STORE_FOLDER))
    prepare_folder(environment.disk, folder)
    max_memory_bytes = options.max_memory_bytes
    if max_memory_bytes < 0:
        memory_bytes = environment.process.memory_bytes()
        max_memory_bytes = memory_bytes // 4 * 3 if memory_bytes else _MEMORY_BYTES_UNKNOWN
    max_storage_bytes = options.max_file_bytes
    if max_storage_bytes < 0:
        max_storage_bytes = _disk_share(environment.disk, folder)
    return Resources(folder, max_memory_bytes, max_storage_bytes, is_dynamic, not options.store_dir)


def _disk_share(disk: FileSystem, folder: str) -> int:
    try:
        return disk.free_bytes(folder) // 4 * 3
    except OSError:
        return _DISK_BYTES_UNKNOWN


def prepare_folder(disk: FileSystem, folder: str) -> None:
    """See to it that there is a folder and that it can be written to. Raises ResourceError."""
    try:
        is_there = disk.exists(folder)
        if not is_there:
            disk.make_folder(folder)
    except (NotADirectoryError, FileExistsError) as error:
        raise ResourceError("storage directory is not a directory") from error
    except OSError as error:
        path = error.filename or folder
        raise ResourceError(
            f"could not create storage directory - mkdir {path}: {_reason(error)}"
        ) from error
    if not is_there:
        return
    if not disk.is_folder(folder):
        raise ResourceError("storage directory is not a directory")
    probe = f"{folder}/{_PROBE}"
    try:
        if disk.exists(probe):
            disk.remove(probe)
        disk.create(probe).close()
        disk.remove(probe)
    except OSError as error:
        raise ResourceError(
            f"storage directory is not writable: {folder}: {_reason(error)}"
        ) from error


def _reason(error: OSError) -> str:
    """In the words of Go, which begin small."""
    return (error.strerror or str(error)).lower()


def foreign_accounts(disk: FileSystem, folder: str) -> list[str]:
    """Accounts whose streams a nats-server has left in the folder."""
    return [
        name
        for name in disk.list_folder(folder)
        if name != _FOREIGN_STREAMS and disk.is_folder(f"{folder}/{name}/{_FOREIGN_STREAMS}")
    ]


def banner(options: JetStreamOptions, resources: Resources) -> list[str]:
    """What the log says of a JetStream that starts; programs read some of it."""
    lines = ["---------------- JETSTREAM ----------------"]
    if options.strict:
        lines.append("  Strict:          true")
    lines.append(f"  Max Memory:      {friendly_bytes(resources.max_memory_bytes)}")
    lines.append(f"  Max Storage:     {friendly_bytes(resources.max_storage_bytes)}")
    lines.append(f'  Store Directory: "{resources.folder}"')
    if options.domain:
        lines.append(f"  Domain:          {options.domain}")
    if options.encryption_key:
        lines.append(f"  Encryption:      {options.cipher.value}")
    lines.append(f"  API Level:       {API_LEVEL}")
    lines.append("-------------------------------------------")
    return lines


def friendly_bytes(size: int) -> str:
    """A size for people: `512 B`, `256.00 MB`."""
    if size < _UNIT_STEP:
        return f"{size} B"
    amount, units = float(size), iter("KMGTPE")
    unit = ""
    while amount >= _UNIT_STEP:
        amount /= _UNIT_STEP
        unit = next(units)
    return f"{amount:.2f} {unit}B"


def encoding_of(options: JetStreamOptions) -> Encoding:
    """How files are written: under the key of the options, if there is one."""
    if not options.encryption_key:
        return Encoding()
    cipher = _CIPHERS[options.cipher]
    previous = options.previous_encryption_key or None
    return Encoding(server_key=ServerKey(options.encryption_key, previous, cipher), cipher=cipher)
