"""The manifest of an archive: its stream, format and layout, written once and never changed.

It is the file `_headwater/archive.json` inside the archive; Spark, pyarrow and delta-rs ignore
names that begin with an underscore. A run with other settings is refused before anything is read.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from headwater.spark.jobs.archive.files.durable_files import (
    make_directory,
    read_document,
    write_document,
)
from headwater.spark.jobs.archive.files.partitioning import Partitioning
from headwater.spark.options import OptionError

Format = Literal["delta", "parquet"]
FORMATS: Final[tuple[str, ...]] = get_args(Format)
OWN_DIRECTORY: Final = "_headwater"
LAYOUT_VERSION: Final = 1

_FILE: Final = "archive.json"


@dataclass(frozen=True)
class Manifest:
    """The settings that all runs into one archive must agree on."""

    stream: str
    format: Format
    partition_by: tuple[str, ...]
    subjects: tuple[str, ...]

    @property
    def partitioning(self) -> Partitioning:
        return Partitioning(self.partition_by)


def own_directory(root: Path) -> Path:
    """The directory of an archive's own files."""
    return root / OWN_DIRECTORY


def read_manifest(root: Path, option: str) -> Manifest:
    """The manifest of the archive in `root`. Raises OptionError, which names `option`."""
    document = read_document(own_directory(root) / _FILE)
    if document is None:
        raise OptionError(
            f"option {option}: {root} is not an archive: name a directory that the archive job made"
        )
    return _decoded(root, document, option)


def check_place(root: Path) -> dict[str, Any] | None:
    """The content of the manifest in `root`; None if an archive can be created there.

    Raises OptionError for a place that has other content.
    """
    if root.exists() and not root.is_dir():
        raise OptionError(f"option to: {root} is not a directory: name one that is, or a new one")
    document = read_document(own_directory(root) / _FILE)
    others = [each.name for each in root.iterdir()] if root.is_dir() else []
    if document is None and any(name != OWN_DIRECTORY for name in others):
        raise OptionError(
            f"option to: {root} is not empty and not an archive: name an empty or a new directory"
        )
    return document


def settle_manifest(root: Path, wanted: Manifest) -> None:
    """Make `root` an archive as `wanted`, or check that it is one. Raises OptionError."""
    document = check_place(root)
    if document is None:
        make_directory(own_directory(root))
        write_document(
            own_directory(root) / _FILE, {"layout_version": LAYOUT_VERSION, **asdict(wanted)}
        )
        return
    found = _decoded(root, document, "to")
    for option in ("stream", "format", "partition_by", "subjects"):
        there, here = getattr(found, option), getattr(wanted, option)
        if there != here:
            raise OptionError(
                f"option {option}: the archive in {root} was made with {_shown(there)}, not with"
                f" {_shown(here)}: use that, or name another directory in the option to"
            )


def _decoded(root: Path, document: dict[str, Any], option: str) -> Manifest:
    version = document.get("layout_version")
    if version != LAYOUT_VERSION or document.get("format") not in FORMATS:
        raise OptionError(
            f"option {option}: the archive in {root} has layout version {version}, this program"
            f" knows {LAYOUT_VERSION}: use the program it was made with"
        )
    return Manifest(
        stream=document["stream"],
        format=document["format"],
        partition_by=tuple(document["partition_by"]),
        subjects=tuple(document["subjects"]),
    )


def _shown(value: str | Sequence[str]) -> str:
    if isinstance(value, str):
        return value
    return ",".join(value) or "none"
