"""The offsets of a batch of a streaming query, from Spark's checkpoint.

Spark tells a sink the number of a batch without its offsets, but writes `offsets/<batch>` before
the batch runs: a line with the version, a line of Spark's own, which has the time of planning, and
one line per source. The digest is of the sources' lines, which are equal in a replay.

Offsets of other formats can be equal while the rows are not: Spark's files count from 0 in each
checkpoint. So there is a digest only if all sources are of this format, whose offsets name the
stream, its time of creation and the sequences.

A checkpoint that is not on a file system of the driver's machine is not read; then there is no
digest.
"""

import json
from hashlib import blake2b
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

DIGEST_BYTES: Final = 12
_SOURCE_LINE: Final = 2
# The keys that every offset of this format has (`offsets.Offset`).
_OURS: Final = frozenset({"stream", "created", "next"})


def offsets_digest(checkpoint: str | None, batch: int) -> str:
    """The digest of a batch's offsets; empty if they cannot be read or are not sufficient."""
    folder = _local(checkpoint)
    if folder is None:
        return ""
    try:
        lines = (folder / "offsets" / str(batch)).read_bytes().split(b"\n")
    except OSError:
        return ""
    sources = lines[_SOURCE_LINE:]
    if not sources or not all(map(_tells_enough, sources)):
        return ""
    return blake2b(b"\n".join(sources), digest_size=DIGEST_BYTES).hexdigest()


def _tells_enough(source: bytes) -> bool:
    try:
        offset = json.loads(source)
    except ValueError:
        return False
    if not isinstance(offset, dict):
        return False
    # One offset, or several under the names of their streams.
    several = offset.get("streams")
    offsets = [*several.values()] if isinstance(several, dict) else [offset]
    return all(isinstance(each, dict) and each.keys() >= _OURS for each in offsets)


def _local(checkpoint: str | None) -> Path | None:
    """The folder, if it is on this machine: a path, or a URI as Spark writes it."""
    if checkpoint is None:
        return None
    place = urlsplit(checkpoint)
    if place.scheme == "file":
        return Path(unquote(place.path))
    return Path(checkpoint) if not place.scheme else None
