"""A stream driven as a server drives it, beside a replica that only ever sees bytes of records.

The replica is given the bytes of every record that the stream applies, its consumers' among them,
decodes, appends and applies them, and nothing else. Whatever the stream did to itself outside of
that, and whatever the codec leaves out, shows when their dumps are compared. A stream on disk is
also killed and opened again, and has to come back as it was.
"""

import json
from collections.abc import Sequence
from datetime import tzinfo
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from headwater.base.clock import NS_PER_S
from headwater.jetstream.codec import RecordCodec
from headwater.jetstream.config.stream_checks.checks import Surroundings, normalised
from headwater.jetstream.config.stream_config import Storage, StreamRequest
from headwater.jetstream.consumers.records import ConsumerDeleted
from headwater.jetstream.errors import ApiError
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import (
    Configured,
    Published,
    Purged,
    Record,
    Removed,
    StreamCreated,
    StreamDeleted,
)
from headwater.jetstream.server_room import ServerRoom, Usage
from headwater.jetstream.streams.file import encode_body
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits, BatchRoom
from headwater.jetstream.streams.publishing.incoming import Incoming
from headwater.jetstream.streams.stream import Stream
from headwater.jetstream.streams.view import StreamView
from headwater.store.log.file_log import FileLog
from headwater.store.log.memory_log import MemoryLog
from headwater.store.log.message_log import ALL_SUBJECTS, MessageLog
from headwater.store.store import Store, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng

BEGINNING_NS: Final = 1_800_000_000 * NS_PER_S
MAX_PAYLOAD: Final = 1024 * 1024
NAME: Final = "S"
REPLY: Final = b"_INBOX.reply"

# The seed of the messages' checksums in records.
SEED: Final = 0xC0FFEE


class Answer(NamedTuple):
    """A message to a reply subject."""

    subject: bytes
    text: str

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text)
        return found

    @property
    def error(self) -> int:
        """The code of the error it tells; 0 if none."""
        code: int = self.document.get("error", {}).get("err_code", 0)
        return code


class Publish(NamedTuple):
    """A message on its way in."""

    subject: str
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012
    reply: bytes | None = REPLY

    @property
    def header_block(self) -> bytes:
        if not self.headers:
            return b""
        lines = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        return f"NATS/1.0\r\n{lines}\r\n".encode()


def incoming_of(messages: Sequence[Publish]) -> Incoming:
    """Messages as a stream is given them."""
    incoming = Incoming()
    for message in messages:
        block = message.header_block
        size = len(block) if block else -1
        incoming.add(message.subject.encode(), message.reply, size, block + message.body)
    return incoming


class Surrounding:
    """The server and account around a stream, which refuse what they are told to refuse."""

    def __init__(self, limits: BatchLimits) -> None:
        self.server = ServerRoom(
            max_payload=MAX_PAYLOAD,
            domain="",
            entropy=SeededEntropy(labelled_rng(1, "stream")),
            find_zone=_find_zone,
            batch_room=BatchRoom(limits),
            usage=Usage(),
            check_storage=self._check_storage,
            has_listener=lambda _, subject: self.has_interest(subject),
        )
        self.server_refusal: ApiError | None = None
        self.account_refusal: ApiError | None = None
        # The subjects nobody listens to.
        self.unheard: set[bytes] = set()

    def has_interest(self, subject: bytes) -> bool:
        return subject not in self.unheard

    def _check_storage(self, storage: Storage) -> None:
        if self.server_refusal is not None:
            raise self.server_refusal

    def has_room(self, storage: Storage, size: int) -> bool:
        return self.server_refusal is None and self.account_refusal is None

    def check_account_room(self, storage: Storage, size: int) -> None:
        if self.account_refusal is not None:
            raise self.account_refusal

    def update_usage(self, stream: StreamView) -> None:
        """Tests of one stream count no usage."""


def _find_zone(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return None


class StreamDriver:
    """One stream, its replica and its clock."""

    def __init__(self, storage: Storage, limits: BatchLimits | None = None, **config: Any) -> None:
        self.now_ns = BEGINNING_NS
        self._codec = RecordCodec(SEED)
        self.host = Surrounding(limits or BatchLimits())
        self.answers: list[Answer] = []
        self.republished: list[tuple[bytes, bytes, bytes]] = []
        self.abandoned: list[tuple[bytes, str]] = []
        # Decisions that are in flight and have not taken effect; None if they do so at once.
        self._waiting: list[Proposal[Record]] | None = None
        self.disk = SimDisk(1)
        self._store: Store | None = None
        asked = StreamRequest(name=NAME, storage=storage, **{"subjects": (f"{NAME}.>",), **config})
        self.config = normalised(asked.over(None), False, Surroundings())
        self.stream = self._new_stream(self._new_log())
        shadow_log = self._shadow_log(storage)
        self.shadow = Stream(
            self.config, shadow_log, self.stream.created_ns, Surrounding(BatchLimits())
        )

    # --- logs ----------------------------------------------------------------------------------

    def _open_store(self, disk: SimDisk) -> Store:
        entropy = SeededEntropy(labelled_rng(1, "store"))
        return open_store(disk, "/jetstream", entropy, disk.boot_id)

    def _new_log(self) -> MessageLog:
        first = max(self.config.first_seq, 1)
        if self.config.storage is Storage.MEMORY:
            return MemoryLog(first)
        self._store = self._open_store(self.disk)
        return self._store.create_stream(NAME, encode_body(self.config, self.now_ns), first)

    def _shadow_log(self, storage: Storage) -> MessageLog:
        first = max(self.config.first_seq, 1)
        if storage is Storage.MEMORY:
            return MemoryLog(first)
        return self._open_store(SimDisk(2)).create_stream(NAME, b"", first)

    def _new_stream(self, log: MessageLog) -> Stream:
        """A stream that does nothing by records without its replica."""
        stream = Stream(self.config, log, BEGINNING_NS, self.host)
        apply = stream.apply

        def apply_to_both(record: Record) -> None:
            data = self._codec.encode(record)
            apply(record)
            self._follow(data)

        vars(stream)["apply"] = apply_to_both
        return stream

    def _follow(self, data: bytes) -> None:
        """Have the replica append and apply the record whose bytes these are."""
        record = self._codec.decode(data)
        assert not isinstance(record, StreamCreated | StreamDeleted), "a stream has no such record"
        self.shadow.append(record)
        self.shadow.apply(record)

    # --- publishing ----------------------------------------------------------------------------

    def publish(self, subject: str, body: bytes = b"", **headers: str) -> Answer:
        """Publish one message; in names of headers `_` stands for `-`. Returns the answer."""
        return self.publish_together([Publish(subject, body, _named(headers))])[-1]

    def publish_together(self, messages: Sequence[Publish]) -> list[Answer]:
        """Publish messages in one turn; returns what was answered at once."""
        before = len(self.answers)
        self._carry_out(self.stream.publishing.decide(incoming_of(messages), self.now_ns))
        return self.answers[before:]

    def fill(self, *subjects: str) -> None:
        """Publish a message to each subject, in one turn."""
        self.publish_together([Publish(subject, b"x") for subject in subjects])

    # --- everything else -----------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Let time pass, and let be done what is due then."""
        self.now_ns += round(seconds * NS_PER_S)
        self.run_due()

    def run_due(self) -> None:
        self._carry_out(self.stream.decide_due(self.now_ns))

    def delete(self, *sequences: int) -> None:
        self.record(Removed([*sequences]))

    def purge(self, pattern: bytes = ALL_SUBJECTS, before: int = 0, keep: int = 0) -> None:
        self.record(Purged(pattern, before, keep))

    def update(self, **changes: Any) -> None:
        self.config = msgspec.structs.replace(self.config, **changes)
        self.record(Configured(self.config, self.now_ns))

    def record(self, record: Record) -> None:
        """A record that a request has made."""
        decision: Proposal[Record] = Proposal()
        decision.records.append(record)
        self._carry_out(decision)

    def propose(self, decision: Proposal[Record]) -> None:
        """The records of a decision about copied messages."""
        self._carry_out(decision)

    def hold(self) -> None:
        """From now on, records wait for the disk: they are in flight and take no effect."""
        self._waiting = []

    def release(self) -> None:
        """The disk is sure of all that waits."""
        waiting, self._waiting = self._waiting or [], None
        for decision in waiting:
            self._apply(decision)

    def release_oldest(self) -> None:
        """The disk is sure of the oldest decision that waits, if there is one; the others wait."""
        if self._waiting:
            self._apply(self._waiting.pop(0))

    @property
    def waiting(self) -> int:
        """The number of decisions that wait."""
        return len(self._waiting or [])

    def retreat(self, count: int) -> None:
        """The newest decisions that wait are forgotten; nobody is answered."""
        assert self._waiting is not None
        for _ in range(count):
            forgotten = self._waiting.pop()
            self.stream.retreat(forgotten.records, [forgotten])

    def _carry_out(self, decision: Proposal[Record]) -> None:
        for record in decision.records:
            self.stream.append(record)
        if self._waiting is not None:
            self._waiting.append(decision)
        else:
            self._apply(decision)

    def _apply(self, decision: Proposal[Record]) -> None:
        for record in decision.records:
            self.stream.apply(record)
        self.stream.log.write_journal()
        self.republished += decision.republished
        self.abandoned += decision.abandoned
        pairs = zip(decision.reply_subjects, decision.replies, strict=True)
        self.answers += [Answer(subject, reply.decode()) for subject, reply in pairs]

    # --- looking -------------------------------------------------------------------------------

    @property
    def is_on_disk(self) -> bool:
        """Whether the stream outlives its process."""
        return self._store is not None

    @property
    def contents(self) -> list[tuple[int, str, bytes]]:
        """Sequence, subject and body of every visible message."""
        stream = self.stream
        sequences = range(1, stream.visible_sequence + 1)
        found = [stream.message(sequence) for sequence in sequences]
        return [(each.sequence, each.subject.decode(), each.payload) for each in found if each]

    @property
    def sequences(self) -> list[int]:
        return [sequence for sequence, _, _ in self.contents]

    def header(self, sequence: int) -> str:
        message = self.stream.message(sequence)
        assert message is not None
        return message.header.decode()

    # --- checks --------------------------------------------------------------------------------

    def check(self) -> None:
        """The replica is the same stream."""
        ours, theirs = self.stream.dump(self.now_ns), self.shadow.dump(self.now_ns)
        for name, value in ours.items():
            assert theirs[name] == value, f"the replica has another {name}"

    def restart(self) -> None:
        """Kill the process and open the stream again; what is in memory is gone with it."""
        self.stream.consumers.flush()
        before = self._lasting(self.shadow if self._end_fleeting_consumers() else self.stream)
        self.kill()
        after = self._lasting(self.stream)
        for name, value in before.items():
            assert after[name] == value, f"the restart has changed {name}"

    def kill(self) -> None:
        """Kill the process and open the stream again, without comparing."""
        self.disk.kill()
        self.reopen()

    def reopen(self) -> None:
        """Open the stream with what the disk has kept."""
        assert self._store is not None, "only a stream on disk comes back"
        self._store = self._open_store(self.disk)
        self.stream = self._new_stream(self._store.logs[NAME])
        self.stream.recover(self.now_ns)

    def _end_fleeting_consumers(self) -> bool:
        """End the replica's consumers that live in memory; returns whether there were any."""
        fleeting = [each.name for each in self.stream.consumers if each.config.mem_storage]
        for name in fleeting:
            self._follow(self._codec.encode(ConsumerDeleted(name)))
        return bool(fleeting)

    def rewrite_journal(self) -> None:
        """Have the journal say the same in fewer words."""
        log = self.stream.log
        assert isinstance(log, FileLog), "only a log on disk has a journal"
        work = log.begin_journal_rewrite()
        work.run()
        assert log.journal_rewrites.finish(work)

    def leave_shadow(self) -> None:
        """Go on without the replica: what has happened is in no record."""
        del vars(self.stream)["apply"]
        self.shadow = self.stream

    def kill_in_flight(self) -> None:
        """Kill it when the log has just got the messages of records and made no effect of them.

        The messages are there again, so all that follows from them has to be: the stream comes back
        as the replica is that was given them. Records without messages have no effect.
        """
        waiting, self._waiting = self._waiting or [], None
        for decision in waiting:
            for record in decision.records:
                if isinstance(record, Published):
                    self.stream.log.append(record.batch)
                    self._follow(self._codec.encode(record))
        self.kill()
        ours, theirs = self._lasting(self.stream), self._lasting(self.shadow)
        for name, value in ours.items():
            assert theirs[name] == value, f"the kill has changed {name}"

    def _lasting(self, stream: Stream) -> dict[str, object]:
        """The part of a dump that outlives a restart.

        Times that were missed do not, nor does the last id, if it is past its window and its
        message is gone.
        """
        dump = stream.dump(self.now_ns)
        ids: Any = dump["ids"]
        schedules: Any = dump["schedules"]
        last = stream.log.last_sequence
        is_known = stream.log.index.has(last) or any(entry[1] == last for entry in ids)
        dump["last_id"] = stream.dedupe.last_id if is_known else b""
        dump["schedules"] = [entry for entry in schedules if entry[2] > self.now_ns]
        return dump


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
