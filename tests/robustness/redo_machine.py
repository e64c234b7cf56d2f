"""A small state machine over a log whose entries are in the write-ahead file, and its twin.

An operation is decided, encoded, added as an entry, and applied when the entry is on the disk, as a
stream of a server does it. Applying an append also removes what exceeds a limit, which another body
raises, so that the effect of an entry depends on all that came before it and on nothing else.
"""

from headwater.store.disk.journal import CALLER_KINDS
from headwater.store.log.batch_records import decode_batch, encode_batch
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch

NOTE = CALLER_KINDS + 44
MESSAGES_MAX = 6
MESSAGES_MAX_WITH_BODY = 9

# A kind, and numbers that say what is appended, removed or noted.
Operation = tuple[str, tuple[int, ...]]
OPERATIONS: tuple[Operation, ...] = (
    ("append", (3, 20)),
    ("note", ()),
    ("append", (4, 40)),
    ("delete", (2, 5)),
    ("append", (5, 30)),
    ("erase", (6,)),
    ("append", (1, 300)),
    ("body", ()),
    ("skip", (3,)),
    ("append", (6, 60)),
    ("delete", (12, 13, 14)),
    ("note", ()),
    ("append", (2, 20)),
    ("erase", (20, 21)),
    ("append", (8, 100)),
    ("delete", (22, 24)),
    ("append", (3, 20)),
    ("note", ()),
    ("append", (9, 80)),
    ("append", (9, 10)),
)

# Messages, the notes in the journal, the body of the stream file, and the counts of the index.
Dump = tuple[tuple[object, ...], tuple[bytes, ...], bytes, tuple[int, int, int]]


def encode_operation(log: FileLog, number: int, operation: Operation) -> bytes:
    """The bytes of an entry; messages are in it as their segment will hold them."""
    kind, numbers = operation
    head = f"{number} {kind} {','.join(map(str, numbers))}\n".encode()
    if kind != "append":
        return head
    count, size = numbers
    first = log.last_sequence + 1
    batch = Batch(
        [b"s.%d" % (at % 3) for at in range(count)],
        [b"" if at % 2 else b"NATS/1.0\r\n\r\n" for at in range(count)],
        [(b"%d: %d " % (number, at)).ljust(size, b".") for at in range(count)],
        [number] * count,
        [10**6 + number if at == 1 else 0 for at in range(count)],
    )
    return encode_batch(first, batch, log.record_seed, head)[0]


class Machine:
    """The state of one stream: its log, and the notes in the journal."""

    def __init__(self, log: FileLog) -> None:
        self.log = log
        self.notes = [entry.body for entry in log.entries]
        log.caller_entries = lambda: [(NOTE, note) for note in self.notes]

    def apply(self, index: int, follows: int, data: bytes) -> None:
        """Apply an entry; all of it can be derived from the log and the entry."""
        head, _, _ = data.partition(b"\n")
        number, kind, listed = head.decode().split(" ")
        numbers = [int(each) for each in listed.split(",") if each]
        log, note = self.log, number.encode()
        assert log.last_sequence == follows
        if kind == "append":
            log.append_encoded(*decode_batch(data, len(head) + 1, log.record_seed))
            while log.messages > (MESSAGES_MAX_WITH_BODY if log.body else MESSAGES_MAX):
                log.delete([log.first_sequence])
        elif kind == "skip":
            log.skip(numbers[0], timestamp_ns=int(number))
        elif kind == "body":
            log.set_body(note)
        elif kind == "note":
            log.write_entries([(NOTE, note)])
            self.notes.append(note)
        else:
            log.delete(numbers, erase=kind == "erase", entries=[(NOTE, note)])
            self.notes.append(note)

    def dump(self) -> Dump:
        """All that a crash must not change."""
        log = self.log
        messages = tuple(
            (each.sequence, each.subject, each.header, each.payload, each.timestamp_ns)
            for each in log.read(1, 2**40, 2**40)
        )
        expiring = tuple(log.due_by_expiry(2**40))
        # A log that goes on above its reservation has lost sequences that nobody was told of.
        last_sequence = min((first - 1 for first, _ in log.lost), default=log.last_sequence)
        counts = (log.messages, log.byte_count, last_sequence)
        # A note that was written together with an erasure stays when its entry is applied again.
        notes = tuple(dict.fromkeys(self.notes))
        return (*messages, expiring), notes, log.body, counts


def dumps_of(log: FileLog, count: int) -> list[Dump]:
    """The states of a new log that never crashes, after each number of operations."""
    machine = Machine(log)
    dumps = [machine.dump()]
    for number in range(count):
        data = encode_operation(log, number, OPERATIONS[number % len(OPERATIONS)])
        machine.apply(number, log.last_sequence, data)
        dumps.append(machine.dump())
    return dumps
