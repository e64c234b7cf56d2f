"""The consumers that run on a server: created, changed and deleted as the API asks.

Each operation is a record of the consumer's stream, made in slices while the stream is held, and
the advisory that belongs to it.
"""

from typing import Final, final

from headwater.base.entropy import Entropy
from headwater.base.ids import base62
from headwater.base.sliced import Work
from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.advisories import Action
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.jetstream.consumers.machine import Consumer, starting
from headwater.jetstream.consumers.records import ConsumerCreated, ConsumerReset
from headwater.jetstream.streams.stream import Stream
from headwater.server.streams.advisories import Advisories
from headwater.server.streams.runner import StreamRunner, StreamRunners
from headwater.store.log.message_log import ALL_SUBJECTS

# The size of the name of a consumer that was created without one.
CONSUMER_NAME_SIZE: Final = 8


@final
class HostedConsumers:
    """Runs the consumers of all streams."""

    __slots__ = ("_advisories", "_entropy", "_runners")

    def __init__(self, runners: StreamRunners, advisories: Advisories, entropy: Entropy) -> None:
        self._runners = runners
        self._advisories = advisories
        self._entropy = entropy

    def generate_name(self) -> str:
        """A random name for a consumer whose request has none."""
        return base62(self._entropy, CONSUMER_NAME_SIZE)

    def create_consumer(
        self,
        account: JetStreamAccount,
        stream: Stream,
        name: str,
        config: ConsumerConfig,
        now_ns: int,
    ) -> Work[Consumer]:
        """Create a consumer and let it deliver."""
        runner = self._runner_of(account, stream)
        start_sequence, lasts_until = yield from starting(stream, config)
        # The consumer will ask how many messages it is to deliver.
        patterns = config.patterns or (ALL_SUBJECTS,)
        yield from stream.log.counting(patterns, max(start_sequence, lasts_until + 1))
        record = ConsumerCreated(name, config, now_ns, start_sequence, lasts_until)
        yield from runner.recording(record)
        consumer = stream.consumers.by_name[name]
        runner.consumers.begin(consumer)
        self._advisories.consumer_action(runner.account, consumer, Action.CREATE)
        if consumer.is_paused(now_ns):
            self._advisories.consumer_paused(runner.account, consumer, True)
        return consumer

    def update_consumer(
        self, account: JetStreamAccount, stream: Stream, consumer: Consumer, config: ConsumerConfig
    ) -> Work[None]:
        """Give a consumer another configuration."""
        runner = self._runner_of(account, stream)
        if config.patterns != consumer.config.patterns:
            patterns = config.patterns or (ALL_SUBJECTS,)
            yield from stream.log.counting(patterns, consumer.cursor.sequence)
        old_subject = b"" if consumer.push is None else consumer.push.subject
        old_pause_ns = consumer.config.pause_until_ns
        yield from runner.recording(consumer.configured(config))
        runner.consumers.changed(consumer, old_subject)
        if old_pause_ns != config.pause_until_ns:
            is_paused = consumer.is_paused(self._runners.now_ns())
            self._advisories.consumer_paused(runner.account, consumer, is_paused)

    def delete_consumer(
        self, account: JetStreamAccount, stream: Stream, consumer: Consumer
    ) -> Work[None]:
        """Remove a consumer with its state."""
        yield from self._runner_of(account, stream).consumers.removing(consumer)

    def reset_consumer(
        self, account: JetStreamAccount, stream: Stream, consumer: Consumer, sequence: int
    ) -> Work[None]:
        """Have a consumer deliver from a sequence of its stream on."""
        runner = self._runner_of(account, stream)
        yield from stream.log.counting(consumer.patterns, sequence)
        yield from runner.recording(ConsumerReset(consumer.name, sequence))
        runner.consumers.deliver(consumer)

    def unpin_consumer(
        self, account: JetStreamAccount, stream: Stream, consumer: Consumer, group: str
    ) -> None:
        """Have a priority group pin another client."""
        self._runner_of(account, stream).consumers.unpin(consumer)

    def _runner_of(self, account: JetStreamAccount, stream: Stream) -> StreamRunner:
        return self._runners.of(account.name, stream.name)
