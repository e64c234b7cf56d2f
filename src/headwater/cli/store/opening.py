"""Opening a store that a command reads: its folder, its key, and whether a server has it open."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.store.read_only_files import DecodedFiles, ReadOnlyFiles, lock_holder
from headwater.runtime.filesystem import boot_id
from headwater.server.streams.storage.resources import STORE_FOLDER
from headwater.store.disk.cipher import Cipher, ServerKey
from headwater.store.disk.layout import LOCK_FILE, STREAMS_FOLDER
from headwater.store.disk.store_file import STORE_FILE
from headwater.store.errors import StoreError
from headwater.store.recovery.inspection import StoreReader

# A server or a store that cannot be reached: to a script it is the same.
NOT_OPENED: Final = ExitCode.NOT_CONNECTED
FOLDER_ADVICE: Final = "Give the folder a server was told to keep its store in (store_dir)."

KEY_FILE_OPTION: Final = click.option(
    "--key-file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="File with the key of an encrypted store, as the server's configuration has it.",
)


def store_reader(
    folder: str, thorough: bool, strict: bool = False, server_key: ServerKey | None = None
) -> StoreReader:
    """The reader of the store in a folder. `strict` refuses a store that a server has open.

    Raises CommandFailed where there is no store.
    """
    folder = folder.rstrip("/") or "/"
    files = DecodedFiles(folder, server_key)
    check_store(files, folder)
    in_use_by = lock_holder(f"{folder}/{LOCK_FILE}")
    if strict and in_use_by:
        raise CommandFailed(
            f"{folder} is in use by {in_use_by}",
            "Stop the server first, or leave out --strict to read beside it.",
            NOT_OPENED,
        )
    return StoreReader(files, folder, thorough, in_use_by, boot_id())


def check_store(files: ReadOnlyFiles, folder: str) -> None:
    """Raises CommandFailed where there is no store."""
    if not files.is_folder(folder):
        raise CommandFailed(f"There is no folder {folder}", FOLDER_ADVICE, NOT_OPENED)
    there = files.list_folder(folder)
    if STORE_FILE not in there and STREAMS_FOLDER not in there:
        raise CommandFailed(
            f"{folder} holds no store: neither {STORE_FILE} nor {STREAMS_FOLDER} is in it",
            FOLDER_ADVICE,
            NOT_OPENED,
        )


def store_folder(folder: str) -> str:
    """The folder of the store itself, where `folder` is the one that a server was given."""
    inner = os.path.join(folder, STORE_FOLDER)
    return inner if has_store(inner) and not has_store(folder) else folder


def has_store(folder: str) -> bool:
    """Whether there is a store in a folder, sound or not."""
    return any(os.path.exists(os.path.join(folder, name)) for name in (STORE_FILE, STREAMS_FOLDER))


def server_key_in(key_file: str | None) -> ServerKey | None:
    """The key in a file; a line end behind it is not part of it."""
    if key_file is None:
        return None
    secret = Path(key_file).read_text().rstrip("\r\n")
    if not secret:
        raise click.UsageError(f"there is no key in {key_file}")
    # The cipher is for new envelopes, of which there are none.
    return ServerKey(secret, None, Cipher.CHACHA20_POLY1305)


@contextmanager
def failures_explained(folder: str) -> Iterator[None]:
    """Turn errors of reading into failures to open the store."""
    try:
        yield
    except StoreError as error:
        raise CommandFailed(
            f"{folder} cannot be read: {error}",
            "Give the key it was made with: --key-file FILE.",
            NOT_OPENED,
        ) from error
    except OSError as error:
        raise CommandFailed(
            f"{folder} cannot be read: {error}",
            "Read it as the user the server runs as, or make it readable for yourself.",
            NOT_OPENED,
        ) from error
