"""A replica of a stream with messages that it cannot read, beside a twin that has all of them."""

from random import Random
from typing import Final

from headwater.store.disk.encoding import EncodedFile
from headwater.store.disk.format import RECORD_BYTES
from headwater.store.errors import StoreError
from headwater.store.groups.frames import GroupEntry, GroupMode, GroupState, SnapshotMark
from headwater.store.log.file_log import FileLog
from headwater.store.log.message_log import Batch
from headwater.store.log.repairs import record_of, repair_message
from headwater.store.store import Store, open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy

FOLDER: Final = "/data"
SEGMENT_BYTES_MAX: Final = 1000
NAME: Final = "s"


def payload_of(sequence: int) -> bytes:
    """The payload of a message."""
    return (b"payload %d " % sequence).ljust(40, b".")


def add_messages(log: FileLog, count: int, batch: int) -> None:
    """Append messages, some in each batch."""
    for begin in range(1, count + 1, batch):
        numbers = range(begin, min(begin + batch, count + 1))
        payloads = [payload_of(number) for number in numbers]
        subjects = [b"s.%d" % (number % 3) for number in numbers]
        log.append(Batch(subjects, [b""] * len(numbers), payloads, [*numbers]))


def opened(disk: SimDisk, compresses: bool) -> Store:
    """The store on a disk."""
    return open_store(
        disk,
        FOLDER,
        SeededEntropy(Random(disk.operations)),
        "boot",
        segment_bytes_max=SEGMENT_BYTES_MAX,
        compresses_of=lambda _, __: compresses,
    )


class DamagedReplica:
    """The log of a replica, and its twin on another disk."""

    def __init__(self, messages: int, compresses: bool = False, batch: int = 1) -> None:
        self._compresses = compresses
        logs: list[FileLog] = []
        for disk in (SimDisk(), SimDisk()):
            disk.make_folder(FOLDER)
            disk.sync_folder("/")
            store = opened(disk, compresses)
            log = store.create_stream(NAME, compresses=compresses, is_replica=True)
            group, _ = store.groups.create(
                log.identity, GroupMode.SYNCED, SnapshotMark(), GroupState(1)
            )
            group.save(entries=[GroupEntry(index, 1, 0, 0, 0, b"") for index in (1, 2)])
            store.commit()
            add_messages(log, messages, batch)
            log.applied_entry = 1
            log.secure_applied()
            logs.append(log)
            if len(logs) == 1:
                self.disk, self._store = disk, store
        self.log, self.twin = logs
        # The random numbers are those of the disks, so both have one identity.
        assert self.log.identity == self.twin.identity

    def _place_of(self, sequence: int) -> tuple[str, int]:
        """The file of a message, and the offset of its record in the plain file."""
        index = self.log.index.segment_of(sequence)
        segment = self.log.segments.by_first[index.first_sequence]
        return segment.path, index.offsets[sequence - index.first_sequence]

    def damage(self, sequence: int, at: int = RECORD_BYTES + 9) -> "DamagedReplica":
        """Flip a bit of the record of a message, or of the block that it is in."""
        path, offset = self._place_of(sequence)
        offset += at
        index = self.log.index.segment_of(sequence)
        file = self.log.segments.by_first[index.first_sequence].file
        if isinstance(file, EncodedFile):
            block = file._block_at(offset)
            assert block is not None
            offset = block.stored_place + min(offset - block.start, block.stored_size - 1)
            file._cached = None
        self.disk.flip_bit(path, offset, 3)
        return self

    def erase_bytes(self, sequence: int) -> None:
        """Put zeros in the place of the record of a message."""
        path, offset = self._place_of(sequence)
        record = record_of(self.twin, sequence)
        assert record is not None
        file = self.disk.open(path)
        file.overwrite(offset, bytes(len(record)))
        file.close()

    def find(self, sequence: int) -> None:
        """Have a read find the damage of a message."""
        try:
            self.log.get(sequence)
        except StoreError:
            return

    def repair(self, sequence: int) -> None:
        """Repair a message by the record of the twin."""
        self.find(sequence)
        record = record_of(self.twin, sequence)
        assert record is not None
        assert repair_message(self.log, sequence, record)

    def fail_writes(self) -> None:
        """Have the disk refuse to replace bytes of segments."""
        self.disk.fail("overwrite", "*segment*")

    def restarted(self) -> "DamagedReplica":
        """The replica after its store was closed in order and opened again."""
        self._store.close()
        self._store = opened(self.disk, self._compresses)
        self.log = self._store.logs[NAME]
        return self


def flip_bit_of(disk: SimDisk, log: FileLog, sequence: int) -> None:
    """Flip a bit of the record of a message in a plain segment."""
    index = log.index.segment_of(sequence)
    segment = log.segments.by_first[index.first_sequence]
    offset = index.offsets[sequence - index.first_sequence]
    disk.flip_bit(segment.path, offset + RECORD_BYTES + 1, 2)
