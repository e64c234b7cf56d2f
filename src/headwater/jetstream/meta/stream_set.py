"""The set of streams of a server as a state machine.

    request ─▶ decide_create, decide_delete ─▶ records ─▶ [log] ─▶ apply

The state is the stream of each name: its incarnation, its configuration when it was created and the
time of its creation. Only `apply` changes the state, and two sets that apply the same records are
equal. Later configurations, messages and consumers belong to the log of the stream itself.

A stream is known by its account, its name and its incarnation: random bytes that its creation has
drawn, and that are the identity in all of its files. A deletion names an incarnation. Neither a
request that comes late nor a record that is applied once more touches a stream that was created
again under the same name.
"""

from collections.abc import Iterator
from typing import NamedTuple, final

from headwater.go.json import write
from headwater.jetstream import error_codes
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.records import StreamCreated, StreamDeleted, StreamSetRecord


class DumpedStream(NamedTuple):
    """One stream in the canonical dump of a set."""

    account: str
    name: str
    incarnation: str
    created_ns: int
    config: str


@final
class StreamSet:
    """The streams that exist."""

    __slots__ = ("_streams",)

    def __init__(self) -> None:
        # The record that created each stream, by account and name.
        self._streams: dict[tuple[str, str], StreamCreated] = {}

    # --- the state -----------------------------------------------------------------------------

    def get(self, account: str, name: str) -> StreamCreated | None:
        """The creation of the stream of that name; None if there is no stream."""
        return self._streams.get((account, name))

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[StreamCreated]:
        return iter(self._streams.values())

    def dump(self) -> list[DumpedStream]:
        """The whole state in one order, whatever the order of the creations was."""
        return [
            DumpedStream(
                account,
                name,
                created.incarnation.hex(),
                created.created_ns,
                write(created.config).decode(),
            )
            for (account, name), created in sorted(self._streams.items(), key=lambda item: item[0])
        ]

    def apply(self, record: StreamSetRecord) -> None:
        """Change the state as a record says."""
        key = record.account, record.name
        if isinstance(record, StreamCreated):
            self._streams[key] = record
        else:
            there = self._streams.get(key)
            if there is not None and there.incarnation == record.incarnation:
                del self._streams[key]

    # --- decisions -----------------------------------------------------------------------------

    def decide_create(
        self,
        account: str,
        config: StreamConfig,
        now_ns: int,
        incarnation: bytes,
        replaces: bytes | None = None,
    ) -> list[StreamSetRecord]:
        """The records that create a stream. Raises ApiError if its name is in use.

        `replaces` is the incarnation of a stream of that name whose files are gone: the stream is
        deleted by the same records.
        """
        there = self._streams.get((account, config.name))
        created = StreamCreated(account, config.name, incarnation, config, now_ns)
        if there is None:
            return [created]
        if there.incarnation != replaces:
            raise ApiError.of(error_codes.STREAM_NAME_EXIST)
        return [StreamDeleted(account, config.name, there.incarnation), created]

    def decide_delete(self, account: str, name: str, incarnation: bytes) -> list[StreamSetRecord]:
        """The records that delete one incarnation of a stream. Raises ApiError if it is gone."""
        there = self._streams.get((account, name))
        if there is None or there.incarnation != incarnation:
            raise ApiError.of(error_codes.STREAM_NOT_FOUND)
        return [StreamDeleted(account, name, incarnation)]
