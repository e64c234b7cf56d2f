"""A stream that goes on while a snapshot of it is read, beside a follower of its log.

The walk is that of `retreat_walk`: everything that a stream and its consumers can do, in flight and
taken back. Between its steps chunks of a snapshot are read; some snapshots break off and another
one goes on behind the messages that the follower has. The copy is the stream that a follower makes
of the chunks. It gets the entries behind the place of the snapshot, as a follower of the log does
from the beginning. After every step both have the same dump as the leader, and the same values that
follow from it; in the end both give the same answers to a script of probes.
"""

from typing import Any, Final

from headwater.base.clock import NS_PER_S
from headwater.base.sliced import at_once
from headwater.jetstream.account import AccountLimits, JetStreamAccount
from headwater.jetstream.config.consumer_config import AckPolicy, DeliverPolicy
from headwater.jetstream.config.stream_config import Retention, Storage
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import Record
from headwater.jetstream.snapshots.reader import SnapshotReader
from headwater.jetstream.snapshots.writer import SnapshotWriter
from headwater.jetstream.streams.file import decode_body, encode_body
from headwater.jetstream.streams.recovery import config_of
from headwater.jetstream.streams.stream import Stream
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import MessageLog
from tests.kit.held_driver import Decided, HeldDriver
from tests.kit.snapshot_logs import INCARNATION, SnapshotLog
from tests.kit.stream_driver import NAME
from tests.properties.consumer_walk import Choose
from tests.properties.retreat_walk import (
    CONSUMERS,
    RetreatWalk,
    Twin,
    expected,
    probes,
    stand_alone,
    usage,
)

# Small chunks, so that much happens between the first and the last one.
CHUNK_BYTES_MAX: Final = 64

LASTS: Final[dict[str, Any]] = {
    "deliver_policy": DeliverPolicy.LAST_PER_SUBJECT,
    "filter_subjects": ("S.>",),
}
MORE_CONSUMERS: Final[dict[Retention, dict[str, dict[str, Any]]]] = {
    Retention.LIMITS: {
        "L": LASTS,
        "M": {"mem_storage": True, "backoff": (NS_PER_S, 3 * NS_PER_S), "max_deliver": 4},
        "N": {"ack_policy": AckPolicy.NONE, "deliver_subject": "none"},
        "T": {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 12},
    },
    Retention.INTEREST: {
        "L": LASTS,
        "M": {"mem_storage": True, "filter_subjects": ("S.a", "S.c")},
        "T": {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 12},
    },
    Retention.WORKQUEUE: {},
}


class Follower(Twin):
    """A follower of the leader's log, which decides nothing itself."""

    def follow(
        self, leader: HeldDriver, proposal: Proposal[Record], decided: Decided | None
    ) -> None:
        super().follow(leader, proposal, None)

    def follow_refusal(self, leader: HeldDriver, proposal: Proposal[Record]) -> None:
        """A follower knows nothing of proposals that were refused."""

    def _new_stream(self, log: MessageLog) -> Stream:
        if isinstance(log, FileLog):
            self.config = config_of(decode_body(log.body, NAME), log)
        return super()._new_stream(log)


class Copy(Follower):
    """The stream that a follower makes of a snapshot."""

    def __init__(
        self, staged: SnapshotLog, writer: SnapshotWriter, storage: Storage, **config: Any
    ) -> None:
        self._staged = staged
        self._writer = writer
        super().__init__(storage, **config)
        self.config = self.stream.config

    def _new_log(self) -> MessageLog:
        self.disk, self._store = self._staged.disk, self._staged.store
        return self._staged.log

    def _new_stream(self, log: MessageLog) -> Stream:
        if log is not self._staged.log:
            return super()._new_stream(log)
        self.account = JetStreamAccount("A", AccountLimits(), self.host.server)
        stream = at_once(self._writer.finishing(self.account))
        self.account.add_stream(stream)
        if isinstance(log, FileLog):
            log.applied_entry = 0
            log.secure_applied()
        log.set_body(encode_body(stream.config, stream.created_ns))
        return stream


class SnapshotWalk(RetreatWalk):
    """A leader, a follower of its log, and one that gets a snapshot."""

    def __init__(self, choose: Choose) -> None:
        super().__init__(choose)
        self._storage = self.leader.stream.config.storage
        self.twin = Follower(self._storage, **self.config)
        self.leader = HeldDriver(self._storage, choose((True, False)), **self.config)
        self.leader.follow_applied = self._follow
        self.filled: Copy | None = None
        self._reader: SnapshotReader | None = None
        self._writer: SnapshotWriter | None = None
        self._staged: SnapshotLog | None = None
        # Entries behind the place of a snapshot that is not complete.
        self._behind: list[Proposal[Record]] = []
        self._break_offs = choose((0, 0, 1, 2))
        self.create()
        self.leader.commit_all()

    def _follow(self, proposal: Proposal[Record], decided: Decided | None) -> None:
        self.twin.follow(self.leader, proposal, decided)
        if self.filled is not None:
            self.filled.follow(self.leader, proposal, None)
        elif self._reader is not None and self._reader.end is not None:
            self._behind.append(proposal)

    def create(self) -> None:
        if not hasattr(self, "copy"):
            super().create()
            return
        known = CONSUMERS[self.retention] | MORE_CONSUMERS[self.retention]
        name = self._choose([*known])
        self.leader.commit_all()
        if not self.leader.has(name):
            options = {"ack_wait": 2 * NS_PER_S, **known[name]}
            if "backoff" in options:
                del options["ack_wait"]
            self.leader.create_later(name, **options)

    # --- the snapshot --------------------------------------------------------------------------

    def read(self, count: int) -> None:
        """Read some chunks, and hand them to the follower."""
        for _ in range(count):
            if self.filled is None:
                self._read_chunk()

    def _read_chunk(self) -> None:
        if self._reader is None:
            sequence = 0 if self._staged is None else self._staged.log.last_sequence + 1
            self._reader = SnapshotReader(
                self.leader.stream, INCARNATION, sequence, CHUNK_BYTES_MAX
            )
        chunk = self._reader.next_chunk(self.leader.group.applied, 1)
        assert chunk is not None
        if self._staged is None:
            self._staged = SnapshotLog(chunk)
        if self._writer is None:
            self._writer = SnapshotWriter(chunk, self._staged.log)
        elif self._writer.accept(chunk):
            self._take_over()
        elif self._break_offs and self._reader.end is None and self._choose((True, *[False] * 9)):
            self._break_offs -= 1
            self._reader = self._writer = None

    def _take_over(self) -> None:
        assert self._reader is not None
        assert self._staged is not None
        assert self._writer is not None
        assert self._reader.next_chunk(0, 0) is None
        assert self._writer.place == self._reader.end
        self.filled = Copy(self._staged, self._writer, self._storage, **self.config)
        for proposal in self._behind:
            self.filled.follow(self.leader, proposal, None)
        self.check()

    def finish(self) -> None:
        """Read the rest of the snapshot."""
        while self.filled is None:
            self.read(1)

    # --- comparisons ---------------------------------------------------------------------------

    def check(self) -> None:
        leader, now_ns = self.leader, self.leader.now_ns
        found: dict[str, Any] = {"twin": self.twin}
        if self.filled is not None:
            found["copy"] = self.filled
        for who, driver in found.items():
            ours, theirs = leader.stream.dump(now_ns), driver.stream.dump(now_ns)
            for name, value in ours.items():
                assert theirs[name] == value, f"the {who} has another {name}"
            assert usage(leader) == usage(driver)
        if self.filled is not None:
            ours, theirs = expected(self.twin, now_ns), expected(self.filled, now_ns)
            for name, value in ours.items():
                assert theirs[name] == value, f"the copy expects another {name}"
            assert self.filled.stream.state() == self.twin.stream.state()
            for consumer in self.twin.stream.consumers:
                again = self.filled.consumer(consumer.name)
                assert again.info(now_ns) == consumer.info(now_ns)

    def restart(self) -> None:
        """Kill both followers, and compare them as they come back."""
        self.retreat()
        self.finish()
        assert self.filled is not None
        if self.filled.is_on_disk:
            for driver in (self.twin, self.filled):
                has_fleeting = any(each.config.mem_storage for each in driver.stream.consumers)
                (driver.kill if has_fleeting else driver.restart)()
            ours, theirs = (each.stream.dump(each.now_ns) for each in (self.twin, self.filled))
            for name, value in ours.items():
                assert theirs[name] == value, f"the copy has another {name} after a restart"

    def probe(self) -> list[tuple[object, object]]:
        """Ask both followers for the same things. Returns the answers that differ."""
        self.retreat()
        self.finish()
        assert self.filled is not None
        drivers = (self.twin, self.filled)
        for driver in drivers:
            driver.now_ns = self.leader.now_ns
            stand_alone(driver)
        has_batches = self.twin.stream.config.retention is Retention.LIMITS
        both = zip(*(probes(each, has_batches) for each in drivers), strict=True)
        return [(ours, theirs) for ours, theirs in both if ours != theirs]
