"""The settings of an archive job and its result. Loads where there is no Spark."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headwater.client.link.login import Login
from headwater.spark.jobs.archive.files.partitioning import Partitioning
from headwater.spark.jobs.archive.manifest import FORMATS, Format, Manifest, own_directory
from headwater.spark.options import OptionError, SourceOptions

FILE_MB_MAX: Final = 16_384
ROW_GROUP_ROWS_MAX: Final = 10_000_000
MESSAGES_PER_BATCH_MAX: Final = 500_000
"""More than a second's worth of what an archive takes, little enough to be done again."""
EVERY_S_MAX: Final = 86_400.0
"""A run that archives less often than once a day needs no Spark in the meantime."""


@dataclass(frozen=True)
class ArchiveSettings:
    """The settings of an archive: its stream, its place, and its files.

    `to` is a directory that the driver and all executors can write to; its stream, format, subjects
    and partitioning never change. `follow`: continue until stopped, instead of up to the current
    end of the stream, with a batch every `every_s` seconds (0: as soon as there are messages).
    `max_messages_per_trigger`: the limit of one batch; MESSAGES_PER_BATCH_MAX if it is absent, for
    each second of `every_s` when following. `min_partitions`: the least number of tasks of a batch;
    two if it is absent and the batch is large enough. `checkpoint` is a directory for Spark's own
    notes.

    After every `compact_every` batches (0: never meanwhile) and at the end, small files are merged
    into files of up to `file_mb`, unless `compact` is off. `replaced_age_s`: the time for which a
    Delta table keeps merged files, and the entries of its log, for readers of an older version.
    `orphan_age_s`: the age at which a file of a failed attempt is removed; longer than any attempt
    lasts.
    """

    login: Login
    stream: str
    to: str
    format: Format = "delta"
    subjects: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ("date",)
    follow: bool = False
    every_s: float = 10.0
    max_messages_per_trigger: int | None = None
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    checkpoint: str | None = None
    compact: bool = True
    compact_every: int = 100
    file_mb: int = 128
    row_group_rows: int = 131_072
    replaced_age_s: float = 7 * 86_400.0
    orphan_age_s: float = 3_600.0

    def check(self) -> None:
        """Raises OptionError."""
        SourceOptions.parse(self.source_options())
        _check_path("to", self.to)
        if self.checkpoint is not None:
            _check_path("checkpoint", self.checkpoint)
        if self.format not in FORMATS:
            raise OptionError(
                f"option format={self.format!r} is not valid: allowed is {' or '.join(FORMATS)}"
            )
        Partitioning.parse(self.partition_by)
        if self.max_messages_per_trigger is not None:
            _check_number("max_messages_per_trigger", self.max_messages_per_trigger, 1, 2**31)
        _check_number("every_s", self.every_s, 0, EVERY_S_MAX)
        _check_number("compact_every", self.compact_every, 0, 2**31)
        _check_number("file_mb", self.file_mb, 1, FILE_MB_MAX)
        _check_number("row_group_rows", self.row_group_rows, 1, ROW_GROUP_ROWS_MAX)
        _check_number("replaced_age_s", self.replaced_age_s, 0, float("inf"))
        _check_number("orphan_age_s", self.orphan_age_s, 0, float("inf"))

    @property
    def manifest(self) -> Manifest:
        columns = Partitioning.parse(self.partition_by).columns
        return Manifest(self.stream, self.format, columns, tuple(sorted(self.subjects)))

    @property
    def root(self) -> Path:
        return Path(self.to).absolute()

    @property
    def checkpoint_directory(self) -> Path:
        if self.checkpoint is not None:
            return Path(self.checkpoint).absolute()
        return own_directory(self.root) / "checkpoint"

    @property
    def messages_per_batch_max(self) -> int:
        """The most one batch takes: a stream that is faster than this is never caught up with."""
        if self.max_messages_per_trigger is not None:
            return self.max_messages_per_trigger
        seconds = max(1.0, self.every_s) if self.follow else 1.0
        return int(MESSAGES_PER_BATCH_MAX * seconds)

    def source_options(self) -> dict[str, str]:
        """The options of the query's source, but for those of the login."""
        options = {
            "stream": self.stream,
            "maxMessagesPerTrigger": str(self.messages_per_batch_max),
            "failOnDataLoss": "true" if self.fail_on_data_loss else "false",
        }
        if self.min_partitions is not None:
            options["minPartitions"] = str(self.min_partitions)
        if self.subjects:
            options["subjects"] = ",".join(self.subjects)
        return options


@dataclass(frozen=True)
class ArchiveResult:
    """The result of a run. `next_sequence` is the start of the next one."""

    stream: str
    to: str
    format: str
    batches: int
    messages: int
    next_sequence: int | None
    files: int
    bytes: int
    files_merged: int
    files_removed: int
    seconds: float
    messages_per_second: float = field(init=False)

    def __post_init__(self) -> None:
        rate = self.messages / self.seconds if self.seconds > 0 else 0.0
        object.__setattr__(self, "messages_per_second", round(rate, 1))


def _check_path(option: str, path: str) -> None:
    if not path:
        raise OptionError(f"option {option} is empty: name a directory")
    if "://" in path:
        raise OptionError(
            f"option {option}={path!r} is not valid: allowed is a path of a directory that the"
            " driver and the executors can write to, mounted if need be"
        )


def _check_number(option: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        limit = f"from {least} to {most}" if most < float("inf") else f"of {least} or more"
        raise OptionError(f"option {option}={value} is not valid: allowed is a number {limit}")
