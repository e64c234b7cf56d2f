"""The resources of the machine that streams use: a folder, memory and disk, and an encryption key.

Options that are not set are chosen as in nats-server: three quarters of the memory and of the free
disk, and a folder among the temporary files, with a warning. The temporary folder has a name of our
own: a nats-server on the same machine has another, and neither finds the other's streams.

Knows options and the environment, and opens no store.
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
# Below the folder for temporary files, if the options name no folder.
TEMPORARY_FOLDER: Final = "headwater"
TEMPORARY_WARNING: Final = "Temporary storage directory used, data could be lost on system reboot"
NO_MARK: Final = (
    "a loss while the machine runs on would go unnoticed, because the store has no mark in memory "
    "(set jetstream { runtime_dir })"
)
# In a folder of nats-server, the folder of each account contains this one.
_FOREIGN_STREAMS: Final = "streams"
_PROBE: Final = "_test_"
# Used if the disk does not tell its free bytes.
_DISK_BYTES_UNKNOWN: Final = 1 << 40
_MEMORY_BYTES_UNKNOWN: Final = 256 << 20
_UNIT_STEP: Final = 1024

# The bytes kept free on the disk, by which messages can be removed when it is full: room for some
# thousand ranges of sequences, or ids of messages. A server with a small limit keeps fewer.
RESERVE_BYTES_MAX: Final = 4 << 20
RESERVE_PARTS: Final = 64

_CIPHERS: Final = {
    StoreCipher.CHACHA: Cipher.CHACHA20_POLY1305,
    StoreCipher.AES: Cipher.AES_GCM,
}


class ResourceError(OperatingError):
    """A folder that cannot be used. The text is that of nats-server, if it has one."""


@dataclass(frozen=True)
class Resources:
    """The part of the machine that streams may use."""

    folder: str
    max_memory_bytes: int
    max_storage_bytes: int
    # Whether a limit was chosen by the size of the machine.
    is_dynamic: bool = False
    is_temporary: bool = False

    def raised(self, options: JetStreamOptions) -> "Resources":
        """These resources with the larger limits of a reloaded configuration."""
        return replace(
            self,
            max_memory_bytes=_given(options.max_memory_bytes, self.max_memory_bytes),
            max_storage_bytes=_given(options.max_file_bytes, self.max_storage_bytes),
        )


def reserve_bytes_of(resources: Resources) -> int:
    """The bytes kept free on the disk for removing messages when it is full."""
    return min(resources.max_storage_bytes // RESERVE_PARTS, RESERVE_BYTES_MAX)


def _given(limit: int, otherwise: int) -> int:
    return limit if limit >= 0 else otherwise


def resources_of(options: JetStreamOptions, environment: Environment) -> Resources:
    """Choose the resources that the options leave open, and create the folder.

    Raises ResourceError.
    """
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
    """Create a folder if it is missing, and check that it can be written. Raises ResourceError."""
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
    """The reason in the words of Go, which begin with a small letter."""
    return (error.strerror or str(error)).lower()


def foreign_accounts(disk: FileSystem, folder: str) -> list[str]:
    """The accounts whose streams a nats-server has left in the folder."""
    return [
        name
        for name in disk.list_folder(folder)
        if name != _FOREIGN_STREAMS and disk.is_folder(f"{folder}/{name}/{_FOREIGN_STREAMS}")
    ]


def banner(options: JetStreamOptions, resources: Resources) -> list[str]:
    """The lines that the log has at the start of JetStream. Programs parse some of them."""
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
    """A size in a readable unit: `512 B`, `256.00 MB`."""
    if size < _UNIT_STEP:
        return f"{size} B"
    amount, units = float(size), iter("KMGTPE")
    unit = ""
    while amount >= _UNIT_STEP:
        amount /= _UNIT_STEP
        unit = next(units)
    return f"{amount:.2f} {unit}B"


def encoding_of(options: JetStreamOptions) -> Encoding:
    """The encoding of files: encrypted if the options have a key."""
    if not options.encryption_key:
        return Encoding()
    cipher = _CIPHERS[options.cipher]
    previous = options.previous_encryption_key or None
    return Encoding(server_key=ServerKey(options.encryption_key, previous, cipher), cipher=cipher)
