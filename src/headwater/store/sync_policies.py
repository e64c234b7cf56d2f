"""The ways in which the files of a stream become durable: one class for each sync mode.

    Written     the operating system has a message when it is acknowledged, and the disk soon
    Ahead       the disk has it, by way of the write-ahead file
    Deferred    the process has it, and writes it soon

A policy decides what a start has to expect of the files of a stream, and how a log is written from
then on. The store chooses a policy by the mode, and nothing else in it depends on the mode.
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Protocol, final

from headwater.store.disk.wal import Extent
from headwater.store.group_commit import GroupCommit
from headwater.store.log.file_log import FileLog


class StartOfStore(NamedTuple):
    """The end of the store's last life, as the next start finds it."""

    # The store was not closed in order.
    was_unclean: bool
    # The machine has stopped since.
    machine_fell: bool
    # The write-ahead file lacks something that it had.
    ahead_lost: bool


class SyncPolicy(Protocol):
    """The meaning of one sync mode for the files of a stream."""

    # Whether messages that a start has found are synced before the stream runs.
    syncs_at_start: ClassVar[bool]

    def may_have_lost(self, start: StartOfStore) -> bool:
        """Whether messages that were acknowledged may be missing."""
        ...

    def certain_part(self, extents: Mapping[str, Extent], folder: str) -> Extent | None:
        """The part of the last segment in a folder that is certain to be whole, if that is
        known."""
        ...

    def begin(
        self,
        name: str,
        log: FileLog,
        last_entry: int,
        commit: GroupCommit,
        deferred: dict[str, FileLog],
    ) -> None:
        """Let a log be as durable as the mode says from now on.

        It has the effects of all entries up to `last_entry`. `deferred` are the logs whose writes
        are deferred, by name.
        """
        ...

    def end_redo(
        self, name: str, log: FileLog, commit: GroupCommit, deferred: dict[str, FileLog]
    ) -> None:
        """Go on with a log to which its entries in the write-ahead file were applied again. Raises
        OSError."""
        ...


@final
class Written:
    """Messages are written when they are acknowledged, and synced now and then."""

    # In streams that are not synced for each ack, two syncs for each stream would be most of what
    # a start takes.
    syncs_at_start: ClassVar = False

    def may_have_lost(self, start: StartOfStore) -> bool:
        """Whether the machine fell before it has written all."""
        return start.machine_fell

    def certain_part(self, extents: Mapping[str, Extent], folder: str) -> Extent | None:
        """Know nothing of the segment but what is in it."""
        return None

    def begin(
        self,
        name: str,
        log: FileLog,
        last_entry: int,
        commit: GroupCommit,
        deferred: dict[str, FileLog],
    ) -> None:
        """Change nothing: a log writes at once."""

    def end_redo(
        self, name: str, log: FileLog, commit: GroupCommit, deferred: dict[str, FileLog]
    ) -> None:
        """Leave the write-ahead file."""
        _leave_write_ahead(name, log, commit)


@final
class Ahead:
    """Messages are synced in the write-ahead file when they are acknowledged."""

    # A message that can be read is on the disk where an ack means that.
    syncs_at_start: ClassVar = True

    def may_have_lost(self, start: StartOfStore) -> bool:
        """Whether the write-ahead file is damaged."""
        return start.ahead_lost

    def certain_part(self, extents: Mapping[str, Extent], folder: str) -> Extent | None:
        """The part that the write-ahead file tells."""
        return extents.get(folder)

    def begin(
        self,
        name: str,
        log: FileLog,
        last_entry: int,
        commit: GroupCommit,
        deferred: dict[str, FileLog],
    ) -> None:
        """Join the commits of the store."""
        commit.add_stream(name, log, last_entry, last_entry)

    def end_redo(
        self, name: str, log: FileLog, commit: GroupCommit, deferred: dict[str, FileLog]
    ) -> None:
        """Stay in the commits of the store, where redo has put the log."""


@final
class Deferred:
    """Messages are in memory when they are acknowledged, and written soon."""

    syncs_at_start: ClassVar = False

    def may_have_lost(self, start: StartOfStore) -> bool:
        """Whether the process ended before it has written all."""
        return start.was_unclean

    def certain_part(self, extents: Mapping[str, Extent], folder: str) -> Extent | None:
        """Know nothing of the segment but what is in it."""
        return None

    def begin(
        self,
        name: str,
        log: FileLog,
        last_entry: int,
        commit: GroupCommit,
        deferred: dict[str, FileLog],
    ) -> None:
        """Keep writes in memory for a moment."""
        log.defer_writes()
        deferred[name] = log

    def end_redo(
        self, name: str, log: FileLog, commit: GroupCommit, deferred: dict[str, FileLog]
    ) -> None:
        """Leave the write-ahead file, and defer writes."""
        _leave_write_ahead(name, log, commit)
        self.begin(name, log, 0, commit, deferred)


def _leave_write_ahead(name: str, log: FileLog, commit: GroupCommit) -> None:
    commit.remove_stream(name, log)
    log.durability.leave_write_ahead()
