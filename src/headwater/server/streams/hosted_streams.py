"""The streams that run on a server: created, changed and deleted as the API asks.

A stream that runs has a log, a runner and subscriptions to its subjects. Requests come from
`headwater.server.streams.api_service`, checked and decoded.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import final

from headwater.jetstream import error_codes
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.advisories import Action
from headwater.jetstream.api.restored_consumers import AdmittedConsumer
from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.streams.stream import Stream
from headwater.server.core.accounts import Account
from headwater.server.core.own_subscriptions import OwnSubscriptions
from headwater.server.streams.advisories import Advisories
from headwater.server.streams.runner import StreamRunner
from headwater.server.streams.runners import StreamRunners
from headwater.server.streams.storage.stream_store import StreamStore
from headwater.store.log.message_log import MessageLog


@final
class HostedStreams:
    """Runs the streams of all accounts. `stream_deleted` is told of each that is deleted."""

    __slots__ = (
        "_advisories",
        "_files",
        "_home_of",
        "_runners",
        "_stream_deleted",
        "_subscriptions",
    )

    def __init__(
        self,
        files: StreamStore,
        runners: StreamRunners,
        subscriptions: OwnSubscriptions,
        advisories: Advisories,
        home_of: Callable[[str], Account],
        stream_deleted: Callable[[Stream], object],
    ) -> None:
        self._files = files
        self._runners = runners
        self._subscriptions = subscriptions
        self._advisories = advisories
        self._home_of = home_of
        self._stream_deleted = stream_deleted

    def create_stream(self, account: JetStreamAccount, config: StreamConfig) -> Stream:
        """Create a stream and subscribe to its subjects. Raises ApiError and StoreError."""
        now_ns = self._runners.now_ns()
        created, records = self._files.decide_creation(account.name, config, now_ns)
        self._files.set_log.commit(records)
        log = self._files.make_log(created)
        stream = Stream(config, log, now_ns, account)
        self._add_created(account, stream)
        return stream

    def add_restored(
        self,
        account: JetStreamAccount,
        config: StreamConfig,
        log: MessageLog,
        created_ns: int,
        consumers: Sequence[AdmittedConsumer],
    ) -> Stream:
        """Make a stream of a log that was filled from a backup. Raises ApiError and StoreError."""
        created, records = self._files.decide_restored(account.name, config, created_ns)
        self._files.set_log.commit(records)
        self._files.finish_log(created, log)
        stream = Stream(config, log, created_ns, account)
        for consumer in consumers:
            stream.consumers.adopt(consumer.entries)
        # As in nats-server, what was published before the backup does not count as a duplicate.
        stream.recover(self._runners.now_ns(), with_ids=False)
        self._add_created(account, stream)
        return stream

    def _add_created(self, account: JetStreamAccount, stream: Stream) -> None:
        """Run a stream that was not there before, and send the advisory of its creation."""
        home = self.run(account, stream)
        self._advisories.stream_action(home, stream.name, Action.CREATE)

    def run(self, account: JetStreamAccount, stream: Stream) -> Account:
        """Run a stream that was created or recovered. Returns the account of its subjects."""
        home = self._home_of(account.name)
        mode = self._files.mode_of(stream.config)
        follow = partial(self._reconfigured, account)
        runner = StreamRunner(self._runners, home, stream, mode, follow)
        account.add_stream(stream)
        self._runners.add(runner)
        self._subscribe(runner)
        runner.consumers.start()
        return home

    def _subscribe(self, runner: StreamRunner) -> None:
        runner.subscriptions = [
            self._subscriptions.take_in(runner.account, subject.encode(), runner.ingest)
            for subject in runner.stream.config.subjects
        ]

    def _unsubscribe(self, runner: StreamRunner) -> None:
        for sub in runner.subscriptions:
            self._subscriptions.end(sub)
        runner.subscriptions = []

    def _reconfigured(
        self, account: JetStreamAccount, runner: StreamRunner, old: StreamConfig
    ) -> None:
        """Follow a stream that has another configuration than `old` now."""
        stream = runner.stream
        account.reconfigured(stream, old)
        if stream.config.compression is not old.compression:
            self._files.set_compression(account.name, stream.config)
        if stream.config.subjects != old.subjects:
            self._unsubscribe(runner)
            self._subscribe(runner)
        self._advisories.stream_action(runner.account, stream.name, Action.MODIFY)

    def delete_stream(self, account: JetStreamAccount, stream: Stream) -> None:
        """Remove a stream with its subscriptions, consumers and files.

        Raises ApiError and StoreError. The deletion is recorded first: if that fails, the stream
        goes on.
        """
        incarnation = self._files.incarnation_of(account.name, stream)
        streams = self._files.set_log.streams
        records = streams.decide_delete(account.name, stream.name, incarnation)
        self._files.set_log.commit(records)
        runner = self._runners.pop(account.name, stream.name)
        self._unsubscribe(runner)
        runner.give_up_work()
        runner.refuse_waiting(ApiError.of(error_codes.STREAM_NOT_FOUND))
        runner.consumers.end_all(is_deleted=True)
        account.remove_stream(stream)
        stream.retire()
        runner.reads.answer_all()
        self._stream_deleted(stream)
        self._runners.empty(stream.abandon())
        try:
            self._files.remove_log(account.name, stream.config, stream.log)
        finally:
            runner.end()
        self._advisories.stream_action(runner.account, stream.name, Action.DELETE)
