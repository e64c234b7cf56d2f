"""Opening a store that a command reads: its folder, its key, and whether a server has it open."""

from typing import Final

from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.store.read_only_files import DecodedFiles, lock_holder
from headwater.runtime.filesystem import boot_id
from headwater.store.disk.cipher import ServerKey
from headwater.store.disk.layout import LOCK_FILE, STREAMS_FOLDER
from headwater.store.disk.store_file import STORE_FILE
from headwater.store.recovery.inspection import StoreReader

# A server or a store that cannot be reached: to a script it is the same.
NOT_OPENED: Final = ExitCode.NOT_CONNECTED
FOLDER_ADVICE: Final = "Give the folder a server was told to keep its store in (store_dir)."


def store_reader(
    folder: str, thorough: bool, strict: bool = False, server_key: ServerKey | None = None
) -> StoreReader:
    """The reader of the store in a folder. `strict` refuses a store that a server has open.

    Raises CommandFailed where there is no store.
    """
    folder = folder.rstrip("/") or "/"
    files = DecodedFiles(folder, server_key)
    if not files.is_folder(folder):
        raise CommandFailed(f"There is no folder {folder}", FOLDER_ADVICE, NOT_OPENED)
    there = files.list_folder(folder)
    if STORE_FILE not in there and STREAMS_FOLDER not in there:
        raise CommandFailed(
            f"{folder} holds no store: neither {STORE_FILE} nor {STREAMS_FOLDER} is in it",
            FOLDER_ADVICE,
            NOT_OPENED,
        )
    in_use_by = lock_holder(f"{folder}/{LOCK_FILE}")
    if strict and in_use_by:
        raise CommandFailed(
            f"{folder} is in use by {in_use_by}",
            "Stop the server first, or leave out --strict to read beside it.",
            NOT_OPENED,
        )
    return StoreReader(files, folder, thorough, in_use_by, boot_id())
