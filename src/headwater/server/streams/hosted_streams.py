"""The streams that run on a server: opened and closed as the set of streams says.

A stream that runs has a log, a runner and subscriptions to its subjects. The set of streams says by
its effects which streams run (`headwater.server.streams.stream_set_runner`), and the log of a
stream which configuration it has.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import final

from headwater.base.sliced import at_once
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.advisories import Action
from headwater.jetstream.committers import Quorum
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.meta.coming_streams import ComingStreams
from headwater.jetstream.proposal import Close, Proposal, StreamAnnounced
from headwater.jetstream.records import Record, StreamCreated, StreamSetRecord
from headwater.jetstream.snapshots.writer import SnapshotWriter
from headwater.jetstream.streams.stream import Stream
from headwater.raft.storage import BIRTH_INDEX
from headwater.server.core.accounts import Account
from headwater.server.core.own_subscriptions import OwnSubscriptions
from headwater.server.streams.advisories import Advisories
from headwater.server.streams.copying.room import CopyRoom
from headwater.server.streams.copying.stream_copies import StreamCopies
from headwater.server.streams.leader_subscriptions import LeaderSubscriptions
from headwater.server.streams.replica import StreamReplica
from headwater.server.streams.runner import StreamRunner
from headwater.server.streams.runners import StreamRunners
from headwater.server.streams.storage.stream_store import StreamStore
from headwater.store.errors import StoreError
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import MessageLog


@final
class ReplicaPlace:
    """The place of a replica among the streams of its server."""

    __slots__ = ("_account", "_streams")

    def __init__(self, streams: "HostedStreams", account: JetStreamAccount) -> None:
        self._streams = streams
        self._account = account

    def lead(self, stream: Stream, quorum: Quorum) -> StreamRunner:
        """Have the replica serve clients."""
        return self._streams.lead(self._account, stream, quorum)

    def step_down(self, runner: StreamRunner) -> list[Proposal[Record]]:
        """Have the replica serve clients no more. Returns the committed entries that are not
        applied."""
        return self._streams.step_down(runner)

    def reconfigured(self, stream: Stream, old: StreamConfig) -> None:
        """Follow a replica with another configuration than `old`."""
        self._streams.followed(self._account, stream, old)

    def cut_back(self, stream: Stream) -> Stream:
        """The replica without the entries behind the last one that stays. Raises StoreError."""
        return self._streams.cut_back(self._account, stream)

    def begin_refill(self, stream: Stream, incarnation: bytes, first_sequence: int) -> MessageLog:
        """An empty log in the place of that of the replica. Raises StoreError."""
        return self._streams.begin_refill(self._account, stream, incarnation, first_sequence)

    def resume_refill(self, stream: Stream) -> MessageLog:
        """The log of the replica, to be filled further. Raises StoreError."""
        return self._streams.resume_refill(self._account, stream)

    def finish_refill(self, writer: SnapshotWriter) -> Stream:
        """The replica that was filled again. Raises StoreError."""
        stream = at_once(writer.finishing(self._account))
        self._streams.finish_refill(self._account, stream)
        return stream


@final
class HostedStreams:
    """Runs the streams of all accounts. `stream_deleted` is told of each that is deleted."""

    __slots__ = (
        "_accounts",
        "_advisories",
        "_copies",
        "_copying",
        "_domain",
        "_files",
        "_home_of",
        "_incarnations",
        "_is_announced",
        "_replicas",
        "_runners",
        "_stream_deleted",
        "_subscriptions",
    )

    def __init__(
        self,
        accounts: Mapping[str, JetStreamAccount],
        files: StreamStore,
        runners: StreamRunners,
        subscriptions: OwnSubscriptions,
        advisories: Advisories,
        home_of: Callable[[str], Account],
        stream_deleted: Callable[[Stream], object],
        copying: CopyRoom,
        domain: str,
        is_announced: bool,
    ) -> None:
        """`is_announced` has clients of all servers reach the streams that run here."""
        self._accounts = accounts
        self._files = files
        self._runners = runners
        self._subscriptions = subscriptions
        self._advisories = advisories
        self._home_of = home_of
        self._stream_deleted = stream_deleted
        self._copying = copying
        # The copies of the streams that are led here and have origins.
        self._copies: dict[StreamRunner, StreamCopies] = {}
        self._domain = domain
        self._is_announced = is_announced
        # The incarnations of the streams that run, by account and name.
        self._incarnations: dict[tuple[str, str], bytes] = {}
        # The streams that other servers hold too, by incarnation.
        self._replicas: dict[bytes, StreamReplica] = {}

    # --- decisions -----------------------------------------------------------------------------

    @property
    def coming(self) -> ComingStreams:
        """The streams whose creation is in flight."""
        return self._files.set_log.streams.coming

    def decide_creation(
        self, account: JetStreamAccount, config: StreamConfig
    ) -> Proposal[StreamSetRecord]:
        """The creation of a stream. Raises ApiError and StoreError."""
        return self._files.decide_creation(account.name, config, self._runners.now_ns())

    def decide_deletion(
        self, account: JetStreamAccount, streams: Sequence[Stream]
    ) -> Proposal[StreamSetRecord]:
        """The deletion of streams that run. Raises ApiError."""
        incarnations = self._incarnations
        named = [(stream.name, incarnations[account.name, stream.name]) for stream in streams]
        return self._files.set_log.streams.decide_delete(account.name, named)

    # --- the effects of the set of streams -----------------------------------------------------

    def open(self, created: StreamCreated) -> None:
        """Run a stream that was created. Raises StoreError, and then the stream does not run."""
        account = self._accounts[created.account]
        staged = self._files.find_staged(created)
        if staged is None:
            log = self._files.make_log(created)
            stream = Stream(created.config, log, created.created_ns, account)
        else:
            self._files.finish_log(created, staged.log)
            stream = Stream(created.config, staged.log, created.created_ns, account)
            for consumer in staged.consumers:
                stream.consumers.adopt(consumer.entries)
            # As in nats-server, what was published before the backup does not count as a duplicate.
            stream.recover(self._runners.now_ns(), with_ids=False)
        self.run(account, stream, created.incarnation)

    def run(self, account: JetStreamAccount, stream: Stream, incarnation: bytes) -> None:
        """Run a stream that was created or recovered, alone or as one of several replicas."""
        self._incarnations[account.name, stream.name] = incarnation
        account.add_stream(stream)
        is_replica = stream.config.num_replicas > 1 or stream.log.is_replica
        if is_replica or incarnation in self._files.store.groups:
            self._replicas[incarnation] = self._new_replica(account, stream, incarnation)
        else:
            self._lead(account, stream)

    def led_config(self, account: str, name: str) -> StreamConfig | None:
        """The configuration of a stream that is led here; None for any other."""
        runner = self._runners.find(account, name)
        return None if runner is None else runner.stream.config

    def runs(self, account: str, name: str, incarnation: bytes) -> bool:
        """Whether the stream of an incarnation is here."""
        return self._incarnations.get((account, name)) == incarnation

    def _lead(
        self, account: JetStreamAccount, stream: Stream, quorum: Quorum | None = None
    ) -> StreamRunner:
        """Have a stream accept publishes and requests, and its consumers deliver."""
        home = self._home_of(account.name)
        mode = self._files.mode_of(stream.config)
        follow = partial(self._reconfigured, account)
        runner = StreamRunner(self._runners, home, stream, mode, follow, quorum)
        self._runners.add(runner)
        runner.subscriptions = LeaderSubscriptions(
            self._subscriptions, home, stream.name, self._domain, self._is_announced
        )
        if quorum is not None and home.ledger is not None:
            runner.ingest.since_mark = home.ledger.mark()
        runner.subscriptions.open(stream.config.subjects, runner.ingest)
        runner.consumers.start()
        self._copy(runner)
        return runner

    def _copy(self, runner: StreamRunner) -> None:
        """Have a stream that is led here copy the origins that its configuration names."""
        config, copies = runner.stream.config, self._copies.get(runner)
        if copies is None and (config.mirror is not None or config.sources):
            copies = self._copies[runner] = StreamCopies(self._copying, runner)
        if copies is not None:
            copies.configure(config)

    def _copy_no_more(self, runner: StreamRunner) -> None:
        copies = self._copies.pop(runner, None)
        if copies is not None:
            copies.close()

    def find_copies(self, account: str, name: str) -> StreamCopies | None:
        """The copies of a stream that is led here and has origins."""
        runner = self._runners.find(account, name)
        return None if runner is None else self._copies.get(runner)

    def _step_down(self, runner: StreamRunner) -> list[Proposal[Record]]:
        """Have a stream that another server leads accept nothing here any more. Returns the
        committed entries that are not applied."""
        self._copy_no_more(runner)
        self._runners.pop(runner.account.name, runner.stream.name)
        if runner.subscriptions is not None:
            runner.subscriptions.close()
        stalled = runner.step_down()
        runner.end(with_stream=False)
        return stalled

    # --- replicas ------------------------------------------------------------------------------

    def _new_replica(
        self, account: JetStreamAccount, stream: Stream, incarnation: bytes
    ) -> StreamReplica:
        return StreamReplica(
            incarnation, account.name, stream, self._runners, ReplicaPlace(self, account)
        )

    def lead(self, account: JetStreamAccount, stream: Stream, quorum: Quorum) -> StreamRunner:
        """Have a replica serve clients."""
        runner = self._lead(account, stream, quorum)
        self._runners.elections.stream_led(runner.account, stream)
        return runner

    def step_down(self, runner: StreamRunner) -> list[Proposal[Record]]:
        """Have a replica serve clients no more. Returns the committed entries that are not
        applied."""
        stalled = self._step_down(runner)
        self._runners.elections.stream_left(runner.account, runner.stream)
        return stalled

    def followed(self, account: JetStreamAccount, stream: Stream, old: StreamConfig) -> None:
        """Have account and store follow a replica with another configuration than `old`."""
        self._followed(account, stream, old)

    def cut_back(self, account: JetStreamAccount, stream: Stream) -> Stream:
        """Open a replica that nobody leads here as it was after the last entry that stays. Raises
        StoreError, and then no client reads it until `finish_refill`."""
        account.remove_stream(stream)
        stream.consumers.forget_news()
        self._runners.empty(stream.detach())
        if not isinstance(stream.log, FileLog):
            raise StoreError("the messages of a stream in memory are not cut back")
        log = self._files.cut_back(account.name, stream.name)
        again = Stream(stream.config, log, stream.created_ns, account)
        again.recover(self._runners.now_ns())
        self.finish_refill(account, again)
        return again

    def begin_refill(
        self,
        account: JetStreamAccount,
        stream: Stream,
        incarnation: bytes,
        first_sequence: int,
    ) -> MessageLog:
        """Put an empty log in the place of that of a replica, which no client reads until
        `finish_refill`. Raises StoreError."""
        if account.streams.get(stream.name) is stream:
            account.remove_stream(stream)
            stream.consumers.forget_news()
            self._runners.empty(stream.abandon())
        if isinstance(stream.log, FileLog):
            created = _created(account, stream, incarnation)
            return self._files.begin_refill(created, first_sequence)
        return MemoryLog(first_sequence)

    def resume_refill(self, account: JetStreamAccount, stream: Stream) -> MessageLog:
        """The log of a replica with all that it has, which no client reads until `finish_refill`.
        Raises StoreError."""
        if account.streams.get(stream.name) is stream:
            account.remove_stream(stream)
            stream.consumers.forget_news()
            self._runners.empty(stream.detach())
        if isinstance(stream.log, FileLog):
            self._files.resume_refill(account.name, stream.name)
        return stream.log

    def finish_refill(self, account: JetStreamAccount, stream: Stream) -> None:
        """Have a replica that was filled again, in the place of the one before."""
        account.add_stream(stream)

    def become_replica(self, account_name: str, name: str, incarnation: bytes) -> StreamReplica:
        """Make a stream of this server alone the first replica of a group. Raises StoreError.

        Its state is that of the beginning of the group's log, so all that the stream has written
        is committed and applied before.
        """
        account = self._accounts[account_name]
        stream = account.stream(name)
        runner = self._runners.of(account_name, name)
        # Requests that waited for an entry may lead to others.
        while runner.is_waiting:
            self._files.secure_entries(account_name, name)
            runner.committed()
            runner.finish_work()
        self._step_down(runner)
        if isinstance(stream.log, FileLog):
            created = _created(account, stream, incarnation)
            stream.consumers.join_group()
            self._files.join_group(created, BIRTH_INDEX)
        replica = self._replicas[incarnation] = self._new_replica(account, stream, incarnation)
        replica.applied_index = BIRTH_INDEX
        return replica

    def become_single(self, account_name: str, name: str, incarnation: bytes) -> None:
        """Make the last replica of a group a stream of this server alone. Raises StoreError."""
        account = self._accounts[account_name]
        stream = account.stream(name)
        replica = self._replicas.pop(incarnation)
        runner = self._runners.of(account_name, name)
        self._step_down(runner)
        replica.leave()
        if isinstance(stream.log, FileLog):
            self._files.leave_group(_created(account, stream, incarnation))
        self._lead(account, stream)

    def replica(self, incarnation: bytes) -> StreamReplica | None:
        """The replica of a stream on this server, if there is one."""
        return self._replicas.get(incarnation)

    @property
    def replicas(self) -> Mapping[bytes, StreamReplica]:
        """The replicas on this server, by incarnation."""
        return self._replicas

    def set_aside(self, account_name: str, name: str, incarnation: bytes) -> bool:
        """Have a stream serve nobody here, and keep its files. Returns whether it ran until now.

        A replica takes no part in its group any more, and so does not lead it.
        """
        key = account_name, name
        if self._incarnations.get(key) != incarnation:
            return False
        replica, runner = self._replicas.pop(incarnation, None), self._runners.find(*key)
        if replica is not None:
            stream = replica.stream
            replica.retire("the cluster has another stream of this name")
        elif runner is not None:
            stream = runner.stream
            runner.finish_work()
            self._step_down(runner)
        else:
            return False
        del self._incarnations[key]
        account = self._accounts[account_name]
        if account.streams.get(name) is stream:
            account.remove_stream(stream)
        return True

    def close(self, closed: Close) -> None:
        """End a stream with its subscriptions, consumers and files, if that incarnation runs.

        Proposals that the stream's own group has not committed, and requests that wait for it, are
        refused first: their clients learn that the stream is gone before its log is. Raises
        StoreError if files are left.
        """
        key = closed.account, closed.name
        if self._incarnations.get(key) != closed.incarnation:
            return
        del self._incarnations[key]
        account = self._accounts[closed.account]
        replica = self._replicas.pop(closed.incarnation, None)
        stream = account.stream(closed.name) if replica is None else replica.stream
        runner = self._runners.find(*key)
        if runner is not None:
            self._copy_no_more(runner)
            self._runners.pop(*key)
            if runner.subscriptions is not None:
                runner.subscriptions.close()
            runner.give_up_work()
            runner.refuse_waiting(closed.why)
            runner.consumers.end_all(is_deleted=True)
        if replica is not None:
            replica.leave()
        if account.streams.get(stream.name) is stream:
            account.remove_stream(stream)
            stream.publishing.drop_batches()
            if runner is not None:
                runner.reads.answer_all()
            self._stream_deleted(stream)
            self._runners.empty(stream.abandon())
        try:
            self._files.remove_log(account.name, stream.config, stream.log)
        finally:
            if runner is not None:
                runner.end(with_stream=False)
            stream.break_cycles()

    def announce(self, announced: StreamAnnounced) -> None:
        """Send the advisory of a creation or deletion."""
        action = Action.CREATE if announced.is_created else Action.DELETE
        self._advisories.stream_action(self._home_of(announced.account), announced.name, action)

    # --- configurations ------------------------------------------------------------------------

    def _followed(self, account: JetStreamAccount, stream: Stream, old: StreamConfig) -> None:
        """Have account and store follow a stream that has another configuration than `old` now."""
        account.reconfigured(stream, old)
        if stream.config.compression is not old.compression:
            self._files.set_compression(account.name, stream.config)

    def _reconfigured(
        self, account: JetStreamAccount, runner: StreamRunner, old: StreamConfig
    ) -> None:
        """Follow a stream that has another configuration than `old` now."""
        stream = runner.stream
        self._followed(account, stream, old)
        if stream.config.subjects != old.subjects and runner.subscriptions is not None:
            runner.subscriptions.open(stream.config.subjects, runner.ingest)
        self._copy(runner)
        self._advisories.stream_action(runner.account, stream.name, Action.MODIFY)


def _created(account: JetStreamAccount, stream: Stream, incarnation: bytes) -> StreamCreated:
    """The creation of a stream that is here, by its present configuration."""
    return StreamCreated(account.name, stream.name, incarnation, stream.config, stream.created_ns)
