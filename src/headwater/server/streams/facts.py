"""The facts about streams that monitoring reports: usage, limits, and the state of disk and files.

Monitoring reads them; no method changes a stream.
"""

from collections.abc import Mapping
from typing import final

from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.server_room import Usage
from headwater.server.streams.runners import StreamRunners
from headwater.server.streams.storage.limits import ServerLimits
from headwater.server.streams.storage.resources import Resources
from headwater.server.streams.storage.stream_store import StreamStore


@final
class StreamFacts:
    """The facts of one server. A problem is a text that is empty if all is well."""

    __slots__ = ("_files", "_limits", "_runners", "accounts")

    def __init__(
        self,
        accounts: Mapping[str, JetStreamAccount],
        limits: ServerLimits,
        files: StreamStore,
        runners: StreamRunners,
    ) -> None:
        # The accounts that have JetStream, by name.
        self.accounts = accounts
        self._limits = limits
        self._files = files
        self._runners = runners

    @property
    def usage(self) -> Usage:
        """The bytes of all accounts together."""
        return self._limits.usage

    @property
    def resources(self) -> Resources:
        """The part of the machine that streams may use."""
        return self._limits.resources

    @property
    def offline(self) -> str:
        """The reason why no stream can be written."""
        return self._files.store.offline

    @property
    def full(self) -> str:
        """The reason why messages are refused for now, since when, and what to do."""
        return self._runners.disk.reason

    @property
    def file_problem(self) -> str:
        """The problem of the files that all streams share."""
        return self._runners.files.problem

    def group_bytes(self, identity: bytes) -> int:
        """The bytes that the log of a group has in the write-ahead file."""
        groups = self._files.store.groups
        return groups[identity].written_bytes if identity in groups else 0

    def stored_streams(self) -> list[tuple[str, str]]:
        """Account and name of every stream that has files, whether it runs or not."""
        return [*self._files.stored_streams()]

    def lost_streams(self) -> list[tuple[str, str]]:
        """Account and name of every stream whose files were removed while no server was running."""
        return [*self._files.lost_streams()]

    def damage_of(self, account: str, name: str) -> str:
        """The problems of the files of a stream that is not offline."""
        return self._files.damage_of(account, name)
