"""The streams whose creation is in flight, as the checks of other requests see them.

A creation is checked against the names, the subjects and the reservations of all streams. While the
disk has yet to take the records of some, these stand beside the streams that run: two creations
that get along share a sync. Streams whose deletion is in flight still run, and take their room.

A request that is refused because of a stream in flight is decided again when nothing is
(`headwater.server.streams.stream_set_runner`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import final

from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.config.stream_subjects import StreamSubjects, Taken
from headwater.jetstream.records import StreamCreated


@final
class _OfAccount:
    """The streams of one account whose creation is in flight."""

    __slots__ = ("records", "subjects")

    def __init__(self) -> None:
        # In the order of their proposals.
        self.records: list[StreamCreated] = []
        self.subjects = StreamSubjects()


@final
class ComingStreams:
    """The streams of a server whose creation is in flight."""

    __slots__ = ("_accounts",)

    def __init__(self) -> None:
        self._accounts: dict[str, _OfAccount] = {}

    def __contains__(self, created: StreamCreated) -> bool:
        of_account = self._accounts.get(created.account)
        records = [] if of_account is None else of_account.records
        return any(each is created for each in records)

    def add(self, created: StreamCreated) -> None:
        """Note a creation that was proposed."""
        of_account = self._accounts.setdefault(created.account, _OfAccount())
        of_account.records.append(created)
        of_account.subjects.add(created.name, created.config.subjects)

    def remove(self, created: StreamCreated) -> None:
        """Note that a creation is applied, or never will be."""
        of_account = self._accounts[created.account]
        # Nearly always the oldest one.
        place = next(at for at, each in enumerate(of_account.records) if each is created)
        del of_account.records[place]
        of_account.subjects.remove(created.name, created.config.subjects)
        if not of_account.records:
            del self._accounts[created.account]

    # --- the surroundings of a request ---------------------------------------------------------

    def count(self, account: str) -> int:
        """The number of streams of an account."""
        of_account = self._accounts.get(account)
        return 0 if of_account is None else len(of_account.records)

    def configs_with(
        self, account: str, running: Mapping[str, StreamConfig]
    ) -> Mapping[str, StreamConfig]:
        """The configurations of the streams of an account that run, and of these."""
        of_account = self._accounts.get(account)
        if of_account is None:
            return running
        coming = {each.name: each.config for each in of_account.records}
        return _Joined(coming, running)

    def subjects_with(self, account: str, running: StreamSubjects) -> Taken:
        """The subjects of the streams of an account that run, and of these."""
        of_account = self._accounts.get(account)
        return running if of_account is None else _Both(running, of_account.subjects)

    def reserved(self, storage: Storage, account: str | None = None) -> int:
        """The sum of the byte limits of streams with a kind of storage, of an account or of all."""
        return sum(
            max(created.config.max_bytes, 0)
            for name, of_account in self._accounts.items()
            if account in (None, name)
            for created in of_account.records
            if created.config.storage is storage
        )


@final
class _Joined(Mapping[str, StreamConfig]):
    """Two mappings as one; the first one counts."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Mapping[str, StreamConfig], second: Mapping[str, StreamConfig]):
        self._first = first
        self._second = second

    def __getitem__(self, name: str) -> StreamConfig:
        return self._first[name] if name in self._first else self._second[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._first), **dict.fromkeys(self._second)})

    def __len__(self) -> int:
        return len({*self._first, *self._second})


@final
class _Both:
    """Two collections of subjects as one."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: StreamSubjects, second: StreamSubjects) -> None:
        self._first = first
        self._second = second

    def overlaps(self, name: str, subjects: Iterable[str]) -> bool:
        """Whether a stream other than `name` could have a message on one of the subjects."""
        wanted = [*subjects]
        return self._first.overlaps(name, wanted) or self._second.overlaps(name, wanted)
