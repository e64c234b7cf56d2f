"""Bytes on disk. All integers little-endian; every file names its kind, version and stream.

Segment file: messages of consecutive sequences, later a footer.

    segment    header | record | record | … | [footer record | trailer]

    header     0  magic        8   b"HWSEGMNT"
      (64)     8  version      u16
              10  (zero)       6
              16  identity     16  of the stream
              32  first        u64 the sequence the first record has, or would have
              40  salt         16  zeros in a segment since version 2
              56  (zero)       u32
              60  crc          u32 over bytes 0 to 59

    record     0  length       u32 of the whole record
      (32 +)   4  crc          u32 over bytes 8 to the end, begun with length and salt
               8  sequence     u64
              16  timestamp    i64 ns since 1970
              24  subject size u16
              26  kind         u16 see below
              28  header size  u32
              32  [expiry      i64 ns since 1970, only for kinds with one]
                  subject | header block | payload

    kinds      1 message   2 message with expiry   3 footer   4 skipped sequences   5 erased

    footer     a record whose payload is the segment's index (`headwater.store.index.log_index`)
    trailer    0  offset       u32 of the footer record
      (8)      4  magic        4   b"SEAL"

The checksum of a record is begun with its length xor the checksum of the stream's identity. So a
record has its bytes before it is known which file gets it, and the same bytes on every server that
shares the identity. No bytes are taken for a record that were not written as one of this stream:
neither those of another file that a crash left in its blocks, nor a record that somebody has put
into a payload. The identity is drawn at random and no client is ever told it; a person who reads
the files could forge a record, and could as well write one. A record of an earlier segment of the
same stream that a crash left in a block has a sequence below the one that has to follow, since no
sequence is given out twice. In segments of version 1 the checksum is begun with the salt of the
file instead; they are read, and not appended to.

Skipped sequences are a record too: its sequence is the first one skipped, its payload a u64 count.
So a segment without records says what the last sequence was, by its header or by a skip. A message
that takes a sequence and is not stored leaves its header block in the record: its id is known, and
so is its place in a batch, until the journal says the same or the batch is complete. An erased
message leaves a sound record of the length it had, with nothing in it but its sequence and time.

Journal file: everything that is not a message, in the order it happened.

    journal    header | entry | entry | …       the header as above, magic b"HWJOURNL"

    entry      0  length       u32 of the whole entry
      (24 +)   4  crc          u32 over bytes 8 to the end, begun with the length
               8  position     u64 the stream's last sequence when it happened
              16  kind         u16
              18  (zero)       6
              24  body

    group      an entry of kind 5: entries of one moment, of which none is there without the others
                  size         u32 of a part's body
                  kind         u16 of the part
                  body             and so on

The parts of a group have no checksums of their own: nobody who looks for sound entries behind
damage finds one of them without the others.

Stream file: what has to be known before anything else is opened, replaced as a whole.

    stream     0  magic        8   b"HWSTREAM"
      (48 +)   8  version      u16
              10  (zero)       6
              16  identity     16  of the stream, drawn when it was made
              32  reserved     u64 no sequence above it has been given out
              40  body size    u32
              44  crc          u32 over everything else
              48  body             the caller's own

Limits and why: a record fits a u32 by far (payloads are bounded by the server at a few MiB, headers
at 64 KiB in clients), a subject fits a u16 because a control line is at most a few KiB.
"""

import re
from collections.abc import Iterable
from struct import Struct
from typing import Final, final

from headwater.base.checksums import crc32
from headwater.base.columns import Numbers
from headwater.base.errors import OperatingError

VERSION: Final = 1
SEGMENT_VERSION: Final = 2
# Since version 2 a write-ahead file may have entries, which have to be applied; since version 3
# votes and entries of consensus groups, which must not be forgotten, and the redo points of
# replicated streams.
AHEAD_VERSION: Final = 3
SEGMENT_MAGIC: Final = b"HWSEGMNT"
JOURNAL_MAGIC: Final = b"HWJOURNL"
AHEAD_MAGIC: Final = b"HWAHEAD!"
STREAM_MAGIC: Final = b"HWSTREAM"
SEAL_MAGIC: Final = b"SEAL"

IDENTITY_BYTES: Final = 16
HEADER_BYTES: Final = 64
RECORD_BYTES: Final = 32
ENTRY_BYTES: Final = 24
TRAILER_BYTES: Final = 8
# The parts of a record or entry before what the CRC covers.
PREFIX_BYTES: Final = 8

RECORD_BYTES_MAX: Final = 2**31
SUBJECT_BYTES_MAX: Final = 2**16 - 1

# The kind of a journal entry that holds others; what the other kinds mean is not known here.
GROUP: Final = 5

MESSAGE: Final = 1
MESSAGE_WITH_EXPIRY: Final = 2
FOOTER: Final = 3
SKIP: Final = 4
ERASED: Final = 5
KINDS: Final = frozenset({MESSAGE, MESSAGE_WITH_EXPIRY, FOOTER, SKIP, ERASED})

_HEADER: Final = Struct("<8sH6x16sQ16s4xI")
_PREFIX: Final = Struct("<II")
_RECORD: Final = Struct("<QqHHI")
_RECORD_WITH_EXPIRY: Final = Struct("<QqHHIq")
_WHOLE_RECORD: Final = Struct("<IIQqHHI")
_ENTRY: Final = Struct("<QH6x")
_WHOLE_ENTRY: Final = Struct("<IIQH6x")
_PART: Final = Struct("<IH")
_STREAM: Final = Struct("<8sH6x16sQI")
_TRAILER: Final = Struct("<I4s")
_EXPIRY: Final = Struct("<q")
_COUNT: Final = Struct("<Q")

EXPIRY_BYTES: Final = _EXPIRY.size

_VERSION: Final = slice(8, 10)
_IDENTITY: Final = slice(16, 32)
_SALT: Final = slice(40, 56)
NO_SALT: Final = bytes(IDENTITY_BYTES)
# The newest versions of the files whose format has changed.
_NEWEST: Final = {SEGMENT_MAGIC: SEGMENT_VERSION, AHEAD_MAGIC: AHEAD_VERSION}

# Every byte sequence that may be a record's kind, also where two of them overlap.
_KIND: Final = re.compile(rb"(?=[\x01-\x05]\x00)")
_KIND_OFFSET: Final = 26


class FormatError(OperatingError):
    """Bytes that are not what they should be; the text says where and how."""


class NewerFormatError(FormatError):
    """Bytes that a newer program wrote: sound, and not for us to touch."""


@final
class FileHeader:
    """The first bytes of a segment or journal."""

    __slots__ = ("first_sequence", "identity", "magic", "salt", "version")

    def __init__(self, magic: bytes, identity: bytes, first_sequence: int, salt: bytes) -> None:
        self.magic = magic
        self.version = _NEWEST.get(magic, VERSION)
        self.identity = identity
        self.first_sequence = first_sequence
        self.salt = salt

    def encode(self) -> bytes:
        """The header's bytes."""
        data = _HEADER.pack(
            self.magic, self.version, self.identity, self.first_sequence, self.salt, 0
        )
        return data[:-4] + crc32(data[:-4]).to_bytes(4, "little")

    @classmethod
    def decode(cls, data: bytes, magic: bytes, name: str) -> "FileHeader":
        """Read a header; raises FormatError naming what is wrong with file `name`."""
        if len(data) < HEADER_BYTES:
            raise FormatError(f"{name}: too short for a header ({len(data)} bytes)")
        found, version, identity, first_sequence, salt, crc = _HEADER.unpack_from(data)
        if found != magic:
            raise FormatError(f"{name}: not a {magic.decode()} file")
        if crc != crc32(data[: HEADER_BYTES - 4]):
            raise FormatError(f"{name}: header fails its checksum")
        _check_version(version, _NEWEST.get(magic, VERSION), name)
        header = cls(magic, identity, first_sequence, salt)
        header.version = version
        return header


@final
class StreamFile:
    """The stream file, taken apart."""

    __slots__ = ("body", "identity", "reserved")

    def __init__(self, identity: bytes, reserved: int, body: bytes) -> None:
        self.identity = identity
        self.reserved = reserved
        self.body = body

    def encode(self) -> bytes:
        """The file's bytes."""
        head = _STREAM.pack(STREAM_MAGIC, VERSION, self.identity, self.reserved, len(self.body))
        return head + crc32(self.body, crc32(head)).to_bytes(4, "little") + self.body

    @classmethod
    def decode(cls, data: bytes, name: str) -> "StreamFile":
        """Read a stream file; raises FormatError."""
        start = _STREAM.size + 4
        if len(data) < start or not data.startswith(STREAM_MAGIC):
            raise FormatError(f"{name}: not a stream file")
        _, version, identity, reserved, size = _STREAM.unpack_from(data)
        body = data[start:]
        crc = int.from_bytes(data[_STREAM.size : start], "little")
        if len(body) != size or crc != crc32(body, crc32(data[: _STREAM.size])):
            raise FormatError(f"{name}: fails its checksum")
        _check_version(version, VERSION, name)
        return cls(identity, reserved, body)


def _check_version(found: int, newest: int, name: str) -> None:
    if found > newest:
        raise NewerFormatError(
            f"{name}: format version {found} is newer than this program's ({newest}); "
            "use a newer Headwater"
        )


def seed_of(header: bytes) -> int:
    """The number that the checksums in a file begin with, besides lengths, by its header."""
    if is_seeded_by_identity(header):
        return seed_of_stream(header[_IDENTITY])
    return crc32(header[_SALT])


def is_seeded_by_identity(header: bytes) -> bool:
    """Whether the file with this header is a segment whose records can be in any of its stream."""
    version = int.from_bytes(header[_VERSION], "little")
    return header.startswith(SEGMENT_MAGIC) and version >= SEGMENT_VERSION


def seed_of_stream(identity: bytes) -> int:
    """The number that the checksums of a stream's records begin with, besides their lengths."""
    return crc32(identity)


def encode_messages(
    first_sequence: int,
    subjects: list[bytes],
    headers: list[bytes],
    payloads: list[bytes],
    timestamps_ns: Numbers,
    seed: int = 0,
    before: bytes = b"",
) -> tuple[bytes, list[int]]:
    """Messages of consecutive sequences as records: one buffer, and the length of each.

    The buffer begins with the bytes `before`: a large one is not copied to put them there.
    """
    if len(subjects) == 1:
        # Most turns publish one message: without a list of parts and a loop.
        (subject,), (header,), (payload,), (time_ns,) = subjects, headers, payloads, timestamps_ns
        fixed = _RECORD.pack(first_sequence, time_ns, len(subject), MESSAGE, len(header))
        body = b"".join((fixed, subject, header, payload))
        length = len(body) + PREFIX_BYTES
        return before + _PREFIX.pack(length, crc32(body, length ^ seed)) + body, [length]
    pack_record = _RECORD.pack
    pack_prefix = _PREFIX.pack
    parts = [before] if before else []
    lengths: list[int] = []
    sequence = first_sequence
    for subject, header, payload, timestamp_ns in zip(
        subjects, headers, payloads, timestamps_ns, strict=True
    ):
        body = b"".join(
            (
                pack_record(sequence, timestamp_ns, len(subject), MESSAGE, len(header)),
                subject,
                header,
                payload,
            )
        )
        length = len(body) + PREFIX_BYTES
        parts += (pack_prefix(length, crc32(body, length ^ seed)), body)
        lengths.append(length)
        sequence += 1
    return b"".join(parts), lengths


def encode_message_with_expiry(
    sequence: int,
    subject: bytes,
    header: bytes,
    payload: bytes,
    timestamp_ns: int,
    expiry_ns: int,
    seed: int = 0,
) -> bytes:
    """One message that goes at its own time."""
    fixed = _RECORD_WITH_EXPIRY.pack(
        sequence, timestamp_ns, len(subject), MESSAGE_WITH_EXPIRY, len(header), expiry_ns
    )
    return _framed(fixed + subject + header + payload, seed)


def encode_skip(
    sequence: int, count: int, timestamp_ns: int, seed: int = 0, header: bytes = b""
) -> bytes:
    """`count` sequences from `sequence` on that no message has; the last one was taken by a message
    with that header."""
    fixed = _RECORD.pack(sequence, timestamp_ns, 0, SKIP, len(header))
    return _framed(fixed + header + _COUNT.pack(count), seed)


def encode_erased(sequence: int, timestamp_ns: int, length: int, seed: int = 0) -> bytes:
    """A record of `length` bytes that is written over another one to erase its message."""
    fixed = _RECORD.pack(sequence, timestamp_ns, 0, ERASED, 0)
    return _framed(fixed + bytes(length - RECORD_BYTES), seed)


def encode_footer(last_sequence: int, index: bytes, offset: int, seed: int = 0) -> bytes:
    """The end of a segment that begins at `offset` of its file."""
    body = _RECORD.pack(last_sequence, 0, 0, FOOTER, 0) + index
    return _framed(body, seed) + _TRAILER.pack(offset, SEAL_MAGIC)


def _framed(body: bytes, seed: int = 0) -> bytes:
    length = len(body) + PREFIX_BYTES
    return _PREFIX.pack(length, crc32(body, length ^ seed)) + body


def footer_offset(trailer: bytes) -> int:
    """The offset of the footer record; 0 if these bytes are not a trailer."""
    if len(trailer) != TRAILER_BYTES:
        return 0
    offset, magic = _TRAILER.unpack(trailer)
    return int(offset) if magic == SEAL_MAGIC else 0


@final
class Record:
    """One record of a segment, taken apart."""

    __slots__ = (
        "expiry_ns",
        "header",
        "kind",
        "length",
        "payload",
        "sequence",
        "subject",
        "timestamp_ns",
    )

    def __init__(self, data: bytes, offset: int, length: int) -> None:
        """`data` holds a whole record at `offset` that `check_record` has found sound."""
        (_, _, self.sequence, self.timestamp_ns, subject_size, self.kind, header_size) = (
            _WHOLE_RECORD.unpack_from(data, offset)
        )
        self.length = length
        start = offset + RECORD_BYTES
        self.expiry_ns = 0
        if self.kind == MESSAGE_WITH_EXPIRY:
            (self.expiry_ns,) = _EXPIRY.unpack_from(data, start)
            start += EXPIRY_BYTES
        after_subject = start + subject_size
        after_header = after_subject + header_size
        self.subject = data[start:after_subject]
        self.header = data[after_subject:after_header]
        self.payload = data[after_header : offset + length]

    @property
    def sequence_count(self) -> int:
        """The number of sequences that the record stands for."""
        return int.from_bytes(self.payload, "little") if self.kind == SKIP else 1


def record_length(data: bytes, offset: int) -> int:
    """The length that a record at `offset` claims; 0 if there cannot be a record."""
    if offset + PREFIX_BYTES > len(data):
        return 0
    length = int.from_bytes(data[offset : offset + 4], "little")
    return length if RECORD_BYTES <= length < RECORD_BYTES_MAX else 0


def check_record(data: bytes, offset: int, length: int, seed: int = 0) -> bool:
    """Whether the `length` bytes at `offset` are a sound record."""
    if offset + length > len(data) or length < RECORD_BYTES:
        return False
    stored_length, crc = _PREFIX.unpack_from(data, offset)
    if stored_length != length:
        return False
    if crc != crc32(data[offset + PREFIX_BYTES : offset + length], length ^ seed):
        return False
    _, _, _, _, subject_size, kind, header_size = _WHOLE_RECORD.unpack_from(data, offset)
    extra = EXPIRY_BYTES if kind == MESSAGE_WITH_EXPIRY else 0
    return kind in KINDS and RECORD_BYTES + extra + subject_size + header_size <= length


def kind_of(data: bytes, offset: int) -> int:
    """The kind of a record."""
    return int.from_bytes(data[offset + _KIND_OFFSET : offset + _KIND_OFFSET + 2], "little")


def is_footer(data: bytes, offset: int, last_sequence: int, seed: int = 0) -> bool:
    """Whether there is a sound footer at `offset` of a segment that ends with `last_sequence`.

    The footer of another segment may lie in a block that had been that segment's.
    """
    length = record_length(data, offset)
    if not check_record(data, offset, length, seed):
        return False
    sequence = int.from_bytes(data[offset + PREFIX_BYTES : offset + PREFIX_BYTES + 8], "little")
    return kind_of(data, offset) == FOOTER and sequence == last_sequence


def reseeded(data: bytes, offset: int, length: int, seed: int) -> bytes:
    """The sound record at `offset` with the checksum of a file with another seed."""
    body = data[offset + PREFIX_BYTES : offset + length]
    return _PREFIX.pack(length, crc32(body, length ^ seed)) + body


def is_beginning(data: bytes, offset: int, next_sequence: int, seed: int = 0) -> bool:
    """Whether what is at `offset`, and no record, may be the first bytes of one.

    That is what a process that dies while it writes leaves behind. Anything else is damage.
    """
    size = len(data) - offset
    if size < PREFIX_BYTES:
        return True
    length, crc = _PREFIX.unpack_from(data, offset)
    if not max(size, RECORD_BYTES - 1) < length < RECORD_BYTES_MAX:
        return False
    if size < RECORD_BYTES:
        return True
    _, _, sequence, _, subject_size, kind, header_size = _WHOLE_RECORD.unpack_from(data, offset)
    if kind not in KINDS or sequence != next_sequence - (kind == FOOTER):
        return False
    # A whole record of which only the length is wrong.
    if crc == crc32(data[offset + PREFIX_BYTES :], size ^ seed):
        return False
    return bool(RECORD_BYTES + subject_size + header_size <= length)


def following_record(data: bytes, offset: int, sequence: int, seed: int = 0) -> int:
    """The offset of the next sound record of `sequence` or above; 0 without one.

    There is no sound record at `offset`. Records are stepped over by the length they claim as long
    as that leads to one that is sound or to the end. Only else every byte is looked at: a payload
    may hold what looks like a record.
    """
    place = offset
    while length := record_length(data, place):
        place += length
        if place == len(data):
            return 0
        if _is_sound_from(data, place, sequence, seed):
            return place
    for match in _KIND.finditer(data, offset + 1 + _KIND_OFFSET):
        place = match.start() - _KIND_OFFSET
        if _is_sound_from(data, place, sequence, seed):
            return place
    return 0


def _is_sound_from(data: bytes, offset: int, sequence: int, seed: int) -> bool:
    length = record_length(data, offset)
    if not length or int.from_bytes(data[offset + 8 : offset + 16], "little") < sequence:
        return False
    return check_record(data, offset, length, seed)


def decode_records(
    data: bytes, offsets: Iterable[int], sequences: Iterable[int], bytes_max: int, seed: int = 0
) -> tuple[list[int], list[bytes], list[bytes]]:
    """Timestamps, header blocks and payloads of the messages at `offsets`, of these `sequences`.

    Up to the first that is not there whole and sound, and no further than to the message with which
    headers and payloads exceed `bytes_max`. The short way through `check_record` and `Record`, all
    in one loop: a call per record would take a third of the time.
    """
    timestamps_ns: list[int] = []
    headers: list[bytes] = []
    payloads: list[bytes] = []
    size = len(data)
    unpack = _WHOLE_RECORD.unpack_from
    for offset, wanted in zip(offsets, sequences, strict=False):
        start = offset + RECORD_BYTES
        if start > size:
            break
        length, crc, sequence, timestamp_ns, subject_size, kind, header_size = unpack(data, offset)
        end = offset + length
        # A length of zero over zeros has the right checksum.
        if end < start or end > size or sequence != wanted or kind > MESSAGE_WITH_EXPIRY:
            break
        if crc != crc32(data[offset + PREFIX_BYTES : end], length ^ seed):
            break
        start += subject_size
        if kind == MESSAGE_WITH_EXPIRY:
            start += EXPIRY_BYTES
        timestamps_ns.append(timestamp_ns)
        if header_size:
            headers.append(data[start : start + header_size])
            payloads.append(data[start + header_size : end])
        else:
            headers.append(b"")
            payloads.append(data[start:end])
        bytes_max -= end - start
        if bytes_max < 0:
            break
    return timestamps_ns, headers, payloads


def sound_lengths(
    data: bytes, offsets: Iterable[int], sequences: Iterable[int], seed: int = 0
) -> list[int]:
    """The lengths of the records at `offsets`, which are messages of these `sequences`, up to the
    first record that is not there whole and sound."""
    lengths: list[int] = []
    size = len(data)
    unpack = _WHOLE_RECORD.unpack_from
    for offset, wanted in zip(offsets, sequences, strict=True):
        if offset + RECORD_BYTES > size:
            break
        length, crc, sequence, _, _, kind, _ = unpack(data, offset)
        end = offset + length
        # A length of zero over zeros has the right checksum.
        if length < RECORD_BYTES or end > size:
            break
        if sequence != wanted or not MESSAGE <= kind <= MESSAGE_WITH_EXPIRY:
            break
        if crc != crc32(data[offset + PREFIX_BYTES : end], length ^ seed):
            break
        lengths.append(length)
    return lengths


def decode_messages(
    data: bytes, begin: int, seed: int = 0
) -> tuple[int, list[int], list[bytes], list[bytes], list[bytes], list[int], list[int]]:
    """Messages of consecutive sequences, from `begin` to the end of `data`, as `encode_messages`
    and `encode_message_with_expiry` wrote them.

    Returns the first sequence, the lengths of the records, subjects, headers, payloads, timestamps
    and expiries: an empty list without any, and 0 for a message without one. Raises FormatError
    unless there is at least one record and every one is sound.
    """
    lengths: list[int] = []
    subjects: list[bytes] = []
    headers: list[bytes] = []
    payloads: list[bytes] = []
    timestamps_ns: list[int] = []
    expiries_ns: list[int] = []
    size = len(data)
    first_sequence = int.from_bytes(data[begin + 8 : begin + 16], "little")
    expected = first_sequence
    unpack = _WHOLE_RECORD.unpack_from
    offset = begin
    while offset < size or not lengths:
        start = offset + RECORD_BYTES
        if start > size:
            raise FormatError(f"message {expected}: its record is cut off")
        length, crc, sequence, timestamp_ns, subject_size, kind, header_size = unpack(data, offset)
        end = offset + length
        if kind == MESSAGE_WITH_EXPIRY and start + EXPIRY_BYTES <= size:
            expiries_ns += [0] * (len(lengths) - len(expiries_ns))
            expiries_ns += _EXPIRY.unpack_from(data, start)
            start += EXPIRY_BYTES
        elif kind != MESSAGE:
            raise FormatError(f"message {expected}: a record of kind {kind} is no message")
        after_subject = start + subject_size
        after_header = after_subject + header_size
        if after_header > end or end > size or sequence != expected:
            raise FormatError(
                f"message {expected}: its record has length {length} and sequence {sequence}"
            )
        if crc != crc32(data[offset + PREFIX_BYTES : end], length ^ seed):
            raise FormatError(f"message {expected}: its record fails its checksum")
        lengths.append(length)
        subjects.append(data[start:after_subject])
        headers.append(data[after_subject:after_header] if header_size else b"")
        payloads.append(data[after_header:end])
        timestamps_ns.append(timestamp_ns)
        expected += 1
        offset = end
    if expiries_ns:
        expiries_ns += [0] * (len(lengths) - len(expiries_ns))
    return first_sequence, lengths, subjects, headers, payloads, timestamps_ns, expiries_ns


def encode_entry(position: int, kind: int, body: bytes) -> bytes:
    """One journal entry."""
    return _framed(_ENTRY.pack(position, kind) + body)


def encode_group(position: int, entries: list[tuple[int, bytes]]) -> bytes:
    """Journal entries of which none is there without the others, kind and body each."""
    parts: list[bytes] = []
    for kind, body in entries:
        parts += (_PART.pack(len(body), kind), body)
    return encode_entry(position, GROUP, b"".join(parts))


@final
class Entry:
    """One journal entry, taken apart."""

    __slots__ = ("body", "is_joint", "kind", "length", "position")

    def __init__(self, position: int, kind: int, body: bytes, length: int) -> None:
        self.position = position
        self.kind = kind
        self.body = body
        self.length = length
        # Whether it is the store's own part of a group in which a caller has one too.
        self.is_joint = False


def decode_entry(data: bytes, offset: int) -> Entry | None:
    """The sound entry at `offset`, or None."""
    if offset + ENTRY_BYTES > len(data):
        return None
    length, crc, position, kind = _WHOLE_ENTRY.unpack_from(data, offset)
    if length < ENTRY_BYTES or offset + length > len(data):
        return None
    if crc != crc32(data[offset + PREFIX_BYTES : offset + length], length):
        return None
    return Entry(position, kind, data[offset + ENTRY_BYTES : offset + length], length)


def decode_group(group: Entry) -> list[Entry]:
    """The entries of a group; their lengths add up to that of the group."""
    parts: list[Entry] = []
    body = group.body
    offset, taken = 0, ENTRY_BYTES
    while offset + _PART.size <= len(body):
        size, kind = _PART.unpack_from(body, offset)
        offset += _PART.size
        part = body[offset : offset + size]
        parts.append(Entry(group.position, kind, part, taken + _PART.size + len(part)))
        offset, taken = offset + size, 0
    return parts
