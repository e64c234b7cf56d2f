"""An eventual stream with replicas, and what its servers have set aside of lost tails."""

from typing import Any

from headwater.jetstream.codec.log_entries import decode_entry
from headwater.jetstream.codec.record_codec import RecordCodec
from headwater.jetstream.records import Published
from headwater.store.disk.filesystem import read_file
from headwater.store.disk.set_aside import SET_ASIDE
from headwater.store.groups.lost_tails import TAIL_PREFIX, decode_tail
from tests.kit.quorum_world import QuorumWorld
from tests.kit.stored_world import FOLDER, streaming

TAIL = 50


def acked(sequence: int) -> dict[str, Any]:
    """The ack of a message."""
    return {"stream": "S", "seq": sequence}


class EventualWorld(QuorumWorld):
    """An eventual stream `S` with one message, whose leaders may be `TAIL` messages ahead."""

    def __init__(self, tail: int = TAIL, **config: Any) -> None:
        self._tail = tail
        super().__init__(**{"write_consistency": "eventual", **config})
        self.say("first")
        self.pass_ms(50)
        assert self.told() == [acked(1)]

    def start(self, name: str, *rest: Any, **settings: Any) -> Any:
        """Start a server."""
        settings["jetstream"] = streaming(
            max_file_bytes=1 << 28, max_memory_bytes=1 << 28, eventual_max_tail=self._tail
        )
        return super().start(name, *rest, **settings)

    def hear(self, *names: str) -> None:
        """Have clients of servers publish a message each, and wait until all is quiet."""
        for name in names:
            self.publish(name, "s.b")
        self.quiet(1.0)

    @property
    def new_leader(self) -> str:
        """The server that leads beside the first leader, or instead of it."""
        (name,) = [each for each in self.others if self.replica(each).is_leading]
        return name

    def dump(self, name: str) -> dict[str, object]:
        """The state of a replica."""
        return self.replica(name).stream.dump(self.nodes[name].environment.clock.wall_ns())

    def check_equal(self) -> None:
        """All replicas are the same, to the last byte of their state."""
        first, *others = (self.dump(name) for name in self.nodes)
        for other in others:
            assert other == first

    def consumer(self, **config: Any) -> None:
        """Create the consumer `C`."""
        body = {
            "stream_name": "S",
            "config": {"durable_name": "C", "ack_policy": "explicit", **config},
        }
        reply = self.call(self.leader, "CONSUMER.CREATE.S.C", body)
        assert "error" not in reply, reply

    def lose_tail(self, count: int = 3) -> None:
        """Have a tail, cut off from the others, and another leader."""
        self.part()
        for number in range(count):
            self.say(f"lost {number}")
        self.pass_ms(50)
        assert self.told() == [acked(2 + number) for number in range(count)]
        self.quiet()

    def tails(self, name: str) -> list[bytes]:
        """The payloads in the files that a server has set aside, by the order of their names."""
        disk = self.disk_of(name)
        found: list[bytes] = []
        (folder,) = [f"{FOLDER}/streams/{each}" for each in disk.list_folder(f"{FOLDER}/streams")]
        aside = f"{folder}/{SET_ASIDE}"
        files = sorted(disk.list_folder(aside)) if disk.is_folder(aside) else []
        for file in files:
            if not file.startswith(TAIL_PREFIX):
                continue
            seed, entries = decode_tail(read_file(disk, f"{aside}/{file}"), file)
            for entry in entries:
                for record in decode_entry(RecordCodec(seed), entry.data):
                    found += record.batch.payloads if isinstance(record, Published) else []
        return found
