"""Streams that a server brings along: those it had before it joined, and those it restored.

    a stream here that no assignment names ─▶ told to the leader of the meta group
                                           ─▶ assigned to this server ─▶ replicas, if it has more

A stream whose name another stream of the cluster has cannot be assigned. It serves nobody from then
on, its files stay, and the log tells the operator. A stream that was deleted while its server was
away is deleted, never adopted.
"""

from collections.abc import Callable, Iterable
from typing import Final, final

from msgspec.structs import replace

from headwater.jetstream.codec.errors import RecordError
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.meta.codec import decode_record, encode_record
from headwater.jetstream.meta.decisions import decide_adopt
from headwater.jetstream.meta.records import StreamAssigned
from headwater.jetstream.records import StreamCreated
from headwater.runtime.environment import Scheduler, TimerHandle
from headwater.server.cluster.assignment.meta_machine import MetaMachine
from headwater.server.cluster.consensus.driver import ConsensusDriver
from headwater.server.cluster.consensus.notices import STREAMS
from headwater.server.log import Log
from headwater.server.streams.host import StreamHost

# Streams that are told at once. The others follow when these are assigned.
TOLD_MAX: Final = 256
# The time after which streams that are not assigned are told again.
AGAIN_S: Final = 0.1
# The number of such times after which a restore is answered, whether or not all replicas are there.
LOOKS_MAX: Final = 50


@final
class Adoption:
    """Has the cluster know the streams of this server."""

    __slots__ = (
        "_accounts",
        "_driver",
        "_files",
        "_log",
        "_meta",
        "_name",
        "_restored",
        "_scheduler",
        "_streams",
        "_timer",
        "_unanswered",
    )

    def __init__(
        self,
        name: str,
        meta: MetaMachine,
        driver: ConsensusDriver,
        host: StreamHost,
        scheduler: Scheduler,
        log: Log,
    ) -> None:
        self._name = name
        self._meta = meta
        self._driver = driver
        self._streams = host.streams
        self._files = host.files
        self._accounts = host.accounts
        self._scheduler = scheduler
        self._log = log
        # The configurations that restored streams are to have in the cluster, by account and name.
        self._restored: dict[tuple[str, str], StreamConfig] = {}
        # Ends of restores that are not answered yet, with the number of looks that are left.
        self._unanswered: dict[tuple[str, str], tuple[Callable[[], object], int]] = {}
        self._timer: TimerHandle | None = None

    def begin_restored(self, account: str, config: StreamConfig) -> StreamConfig:
        """The configuration with which a restored stream begins: on this server alone."""
        self._restored[account, config.name] = config
        self._look_again()
        return replace(config, num_replicas=1)

    def when_whole(self, account: str, name: str, answer: Callable[[], object]) -> None:
        """Answer the end of a restore when the stream has the configuration that was asked for, or
        after some seconds."""
        self._unanswered[account, name] = (answer, LOOKS_MAX)
        self.look()
        self._look_again()

    def _answer_whole(self) -> None:
        """Answer for restored streams that are whole by now."""
        for key, (answer, looks) in [*self._unanswered.items()]:
            if self._is_whole(*key) or looks == 0:
                del self._unanswered[key]
                answer()
            else:
                self._unanswered[key] = (answer, looks - 1)
                self._look_again()

    def _is_whole(self, account: str, name: str) -> bool:
        there = self._meta.assignments.get(account, name)
        if there is None or there.change is not None:
            return False
        return self._streams.led_config(account, name) == there.config

    def look(self) -> None:
        """Tell the leader of the meta group about the streams here that no assignment names.

        Streams are told again until they are assigned: a leader may be replaced meanwhile.
        """
        if not self._meta.is_current:
            # An assignment may be older than the stream here that has its name. The moment from
            # which none is will be noticed.
            return
        found = self._unassigned()
        if found:
            self._tell(found[:TOLD_MAX])
            self._look_again()

    def _look_again(self) -> None:
        if self._timer is None:
            self._timer = self._scheduler.call_later(AGAIN_S, self._look_later)

    def _look_later(self) -> None:
        self._timer = None
        self.look()
        self._answer_whole()

    def stop(self) -> None:
        """Tell nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _unassigned(self) -> list[StreamCreated]:
        """The streams here that could be assigned. Those whose name is taken are set aside."""
        assignments, found = self._meta.assignments, list[StreamCreated]()
        for created in [*self._files.set_log.streams]:
            key = created.account, created.name
            there = assignments.get(*key)
            if there is not None and there.incarnation == created.incarnation:
                self._restored.pop(key, None)
            elif assignments.was_unassigned(created.incarnation):
                continue
            elif there is not None:
                self._set_aside(created)
            elif (present := self._present(created)) is not None:
                found.append(present)
        return found

    def _present(self, created: StreamCreated) -> StreamCreated | None:
        """A stream with the configuration that it has by now; None if it does not run."""
        account = self._accounts.get(created.account)
        stream = None if account is None else account.streams.get(created.name)
        if stream is None:
            return None
        config = self._restored.get((created.account, created.name), stream.config)
        return StreamCreated(
            created.account, created.name, created.incarnation, config, created.created_ns
        )

    def _set_aside(self, created: StreamCreated) -> None:
        if self._streams.set_aside(created.account, created.name, created.incarnation):
            self._log.error(
                f"Stream '{created.account} > {created.name}' of this server is set aside: the "
                "cluster has another stream of this name. Its files stay; start this server "
                "without the cluster to read them."
            )

    # --- the leader of the meta group ----------------------------------------------------------

    def _tell(self, found: Iterable[StreamCreated]) -> None:
        if self._meta.is_leading:
            self._adopt(self._name, found)
            return
        for created in found:
            record = StreamAssigned(
                created.account,
                created.name,
                created.incarnation,
                created.config,
                created.created_ns,
                (self._name,),
            )
            self._driver.tell(self._meta.leader, STREAMS, encode_record(record))

    def told(self, peer: str, notice: bytes) -> None:
        """Assign a stream that another server brings along to that server."""
        try:
            record = decode_record(notice)
        except RecordError:
            return
        if isinstance(record, StreamAssigned) and record.replicas == (peer,):
            created = StreamCreated(
                record.account, record.name, record.incarnation, record.config, record.created_ns
            )
            self._adopt(peer, [created])

    def _adopt(self, server: str, found: Iterable[StreamCreated]) -> None:
        assignments = self._meta.assignments
        if self._meta.is_leading and server in assignments.foreseen_servers():
            records, _ = decide_adopt(assignments, found, server)
            self._meta.propose(records)
