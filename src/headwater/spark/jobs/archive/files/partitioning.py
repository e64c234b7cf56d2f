"""The partitioning of an archive into directories, and the spelling of their values.

    date        date=2026-11-15                     the day of the message in UTC
    hour        date=2026-11-15/hour=7              and its hour
    token:<n>   token_<n>=orders                    the n-th token of its subject, counted from 1

The spelling is Hive's, as Spark writes and reads it: special characters as %XX, a missing value
under a name of its own. A subject with fewer than n tokens has no value; a long token is cut,
because file systems allow names of 255 bytes at most.

Knows neither Spark nor Arrow.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.spark.options import OptionError

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
DATE: Final = "date"
HOUR: Final = "hour"
TOKEN_PREFIX: Final = "token_"
TOKEN_POSITION_MAX: Final = 99
# A character takes 4 bytes at most, in UTF-8 or escaped: with the column's name still under 255.
TOKEN_CHARS_MAX: Final = 60
LEVELS_MAX: Final = 5

_TOKEN: Final = re.compile(r"token:([1-9][0-9]?)")
# Spark's own list; braces, brackets, * and ? would be read as a glob.
_SPECIAL: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^]")
_ESCAPED: Final = re.compile(r"%([0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class Partitioning:
    """The partition columns in the order of the directories; empty for one directory for all."""

    columns: tuple[str, ...]

    @classmethod
    def parse(cls, words: Sequence[str]) -> "Partitioning":
        """Parse `date`, `hour` and `token:<n>`. Raises OptionError."""
        columns: dict[str, None] = {}
        for word in words:
            columns.update(dict.fromkeys(_columns_of(word)))
        if len(columns) > LEVELS_MAX:
            raise OptionError(
                f"option partition_by makes {len(columns)} levels of directories:"
                f" allowed are {LEVELS_MAX}"
            )
        return cls(tuple(columns))

    @property
    def token_positions(self) -> dict[str, int]:
        """The position, counted from 0, of each column that is a token of the subject."""
        return {
            column: int(column.removeprefix(TOKEN_PREFIX)) - 1
            for column in self.columns
            if column.startswith(TOKEN_PREFIX)
        }

    def directory(self, values: Sequence[str | None]) -> str:
        """The path, relative to the archive, of the files with these values."""
        pairs = zip(self.columns, values, strict=True)
        return "/".join(f"{column}={_spelled(value)}" for column, value in pairs)

    def values(self, directory: str) -> tuple[str | None, ...] | None:
        """The values that `directory` spells; None if it is not of this partitioning."""
        names = directory.split("/") if directory else []
        if len(names) != len(self.columns):
            return None
        values = []
        for column, name in zip(self.columns, names, strict=True):
            head, separator, spelled = name.partition("=")
            if head != column or not separator:
                return None
            values.append(_read(spelled))
        return tuple(values)


def token_of(subject: str, position: int) -> str | None:
    """The partition value of a subject: its token at `position`, cut to the length of a name."""
    tokens = subject.split(".", position + 1)
    return tokens[position][:TOKEN_CHARS_MAX] if position < len(tokens) else None


def _columns_of(word: str) -> Iterator[str]:
    if word == DATE:
        yield DATE
    elif word == HOUR:
        yield from (DATE, HOUR)
    elif found := _TOKEN.fullmatch(word):
        yield f"{TOKEN_PREFIX}{found[1]}"
    else:
        raise OptionError(
            f"option partition_by={word!r} is not valid: allowed are date, hour and token:<n>"
            f" with n from 1 to {TOKEN_POSITION_MAX}"
        )


def _spelled(value: str | None) -> str:
    if value is None:
        return NO_VALUE
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", value)


def _read(spelled: str) -> str | None:
    if spelled == NO_VALUE:
        return None
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), spelled)
