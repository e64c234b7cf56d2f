"""A stream as a portable row of bytes: backups, moves between servers, filling an empty replica.

Made in pieces of bounded size from any log, and turned into a log again piece by piece, wherever
the pieces were cut. Every frame has a checksum; the last one says how much there was, so that a
snapshot cut short is noticed.

    snapshot   frame | frame | …

    frame      0  length       u32 of the whole frame
      (12 +)   4  crc          u32 over bytes 8 to the end, begun with the length
               8  kind         u8  BEGIN, MESSAGES, ENTRIES, END
               9  compression  u8  of the body
              10  (zero)       u16
              12  raw size     u32 of the body before compression
              16  body

    BEGIN      magic 8, version u16, first sequence u64, last sequence u64, then the log's own body
    MESSAGES   records as in a segment, in order; sequences without messages are left out
    ENTRIES    journal entries of the caller's, as in a journal
    END        messages u64, frames u64
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, final

from headwater.base.checksums import crc32
from headwater.store.disk.compression import Compression, compress, decompress
from headwater.store.disk.format import (
    PREFIX_BYTES,
    VERSION,
    Entry,
    FormatError,
    Record,
    check_record,
    decode_entry,
    encode_entry,
    encode_message_with_expiry,
    encode_messages,
    record_length,
)
from headwater.store.log.message_log import Batch, MessageLog

SNAPSHOT_MAGIC: Final = b"HWSNAPSH"
BLOCK_BYTES: Final = 64 * 1024
FRAME_BYTES_MAX: Final = 128 * 1024 * 1024

BEGIN: Final = 1
MESSAGES: Final = 2
ENTRIES: Final = 3
END: Final = 4

_FRAME: Final = Struct("<BBxxI")
_PREFIX: Final = Struct("<II")
_BEGIN: Final = Struct("<8sH6xQQ")
_END: Final = Struct("<QQ")
_HEAD_BYTES: Final = PREFIX_BYTES + _FRAME.size


def _encode_frame(kind: int, body: bytes) -> bytes:
    how, stored = compress(body)
    inner = _FRAME.pack(kind, how, len(body)) + stored
    length = len(inner) + PREFIX_BYTES
    return _PREFIX.pack(length, crc32(inner, length)) + inner


def write_snapshot(
    log: MessageLog, body: bytes, entries: list[tuple[int, bytes]]
) -> Iterator[bytes]:
    """The frames of a snapshot of a log as it is now.

    `body` and `entries` are the caller's own, given back by `SnapshotReader`. The log must not
    change while this runs; whoever wants that takes the pieces fast or works on a copy.
    """
    last = log.last_sequence
    begin = _BEGIN.pack(SNAPSHOT_MAGIC, VERSION, log.first_sequence, last)
    yield _encode_frame(BEGIN, begin + body)
    frames = 1
    messages = 0
    expiries = dict(log.expiries.pending())
    sequence = log.first_sequence
    while sequence <= last:
        batch = log.read(sequence, BLOCK_BYTES, BLOCK_BYTES)
        if not len(batch):
            break
        parts = [
            _encode_message(*fields, expiries.get(fields[0], 0))
            for fields in zip(
                batch.sequences,
                batch.subjects,
                batch.headers,
                batch.payloads,
                batch.timestamps_ns,
                strict=True,
            )
        ]
        yield _encode_frame(MESSAGES, b"".join(parts))
        frames += 1
        messages += len(parts)
        sequence = batch.sequences[-1] + 1
    if entries:
        yield _encode_frame(
            ENTRIES, b"".join(encode_entry(last, kind, data) for kind, data in entries)
        )
        frames += 1
    yield _encode_frame(END, _END.pack(messages, frames + 1))


def _encode_message(
    sequence: int, subject: bytes, header: bytes, payload: bytes, timestamp_ns: int, expiry_ns: int
) -> bytes:
    if expiry_ns:
        return encode_message_with_expiry(
            sequence, subject, header, payload, timestamp_ns, expiry_ns
        )
    data, _ = encode_messages(sequence, [subject], [header], [payload], [timestamp_ns])
    return data


@final
class SnapshotReader:
    """Takes a snapshot in, piece by piece, into a log that has nothing in it yet.

    Feed until `is_complete`; `log` may be given when `first_sequence` is known, after the first
    frame, so that the caller can make one that begins there. Raises FormatError, and then the log
    holds what came before.
    """

    __slots__ = (
        "_buffer",
        "_frames",
        "_messages",
        "body",
        "entries",
        "first_sequence",
        "is_complete",
        "last_sequence",
        "log",
    )

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._frames = 0
        self._messages = 0
        self.log: MessageLog | None = None
        self.body = b""
        self.entries: list[Entry] = []
        self.first_sequence = 0
        self.last_sequence = 0
        self.is_complete = False

    @property
    def is_begun(self) -> bool:
        """Whether it is known where the snapshot begins; from then on `log` is needed."""
        return self._frames > 0

    def feed(self, data: bytes) -> None:
        """Take bytes in. Before a log is given, only what comes before the messages is read."""
        self._buffer += data
        while not (self.is_begun and self.log is None):
            frame = self._next_frame()
            if frame is None:
                return
            self._take(*frame)

    def _next_frame(self) -> tuple[int, bytes] | None:
        if len(self._buffer) < _HEAD_BYTES:
            return None
        length, crc = _PREFIX.unpack_from(self._buffer)
        if not _HEAD_BYTES <= length <= FRAME_BYTES_MAX:
            raise FormatError(f"snapshot: frame {self._frames + 1} has no possible length")
        if len(self._buffer) < length:
            return None
        inner = bytes(self._buffer[PREFIX_BYTES:length])
        del self._buffer[:length]
        if crc != crc32(inner, length):
            raise FormatError(f"snapshot: frame {self._frames + 1} fails its checksum")
        kind, how, raw_size = _FRAME.unpack_from(inner)
        stored = inner[_FRAME.size :]
        body = stored if how == Compression.NONE else decompress(how, stored, raw_size)
        return kind, body

    def _take(self, kind: int, body: bytes) -> None:
        self._frames += 1
        if self.is_complete or (kind == BEGIN) != (self._frames == 1):
            raise FormatError(f"snapshot: frame {self._frames} is out of place")
        if kind == BEGIN:
            self._begin(body)
        elif kind == MESSAGES:
            self._add_messages(body)
        elif kind == ENTRIES:
            self._add_entries(body)
        elif kind == END:
            self._end(body)
        else:
            raise FormatError(f"snapshot: frame of unknown kind {kind}; use a newer Headwater")

    def _begin(self, body: bytes) -> None:
        if len(body) < _BEGIN.size or not body.startswith(SNAPSHOT_MAGIC):
            raise FormatError("not a snapshot of a stream")
        _, version, self.first_sequence, self.last_sequence = _BEGIN.unpack_from(body)
        if version > VERSION:
            raise FormatError(f"snapshot: version {version} is newer than this program's")
        self.body = body[_BEGIN.size :]

    def _add_messages(self, body: bytes) -> None:
        log = self._open_log()
        offset = 0
        run: list[Record] = []
        while offset < len(body):
            length = record_length(body, offset)
            if not length or not check_record(body, offset, length):
                raise FormatError(f"snapshot: frame {self._frames} holds no sound record")
            record = Record(body, offset, length)
            offset += length
            if run and record.sequence != run[-1].sequence + 1:
                self._append(log, run)
                run = []
            run.append(record)
        self._append(log, run)

    def _append(self, log: MessageLog, run: list[Record]) -> None:
        if not run:
            return
        missing = run[0].sequence - log.last_sequence - 1
        if missing < 0:
            raise FormatError(f"snapshot: sequence {run[0].sequence} comes twice")
        if missing:
            log.skip(missing, run[0].timestamp_ns)
        log.append(
            Batch(
                [record.subject for record in run],
                [record.header for record in run],
                [record.payload for record in run],
                [record.timestamp_ns for record in run],
                [record.expiry_ns for record in run],
            )
        )
        self._messages += len(run)

    def _add_entries(self, body: bytes) -> None:
        offset = 0
        while offset < len(body):
            entry = decode_entry(body, offset)
            if entry is None:
                raise FormatError(f"snapshot: frame {self._frames} holds no sound entry")
            self.entries.append(entry)
            offset += entry.length

    def _end(self, body: bytes) -> None:
        if len(body) != _END.size:
            raise FormatError("snapshot: its end is not one")
        messages, frames = _END.unpack(body)
        if (messages, frames) != (self._messages, self._frames):
            raise FormatError(
                f"snapshot: {self._messages} messages came of {messages}, "
                f"in {self._frames} frames of {frames}"
            )
        log = self._open_log()
        if log.last_sequence < self.last_sequence:
            log.skip(self.last_sequence - log.last_sequence, 0)
        self.is_complete = True

    def _open_log(self) -> MessageLog:
        if self.log is None:
            raise FormatError("snapshot: messages before a beginning")
        return self.log
