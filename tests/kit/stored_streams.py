"""Streams of a store without a server around it: each that the set opens gets its log."""

from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.proposal import Close, Proposal, StreamAnnounced
from headwater.jetstream.records import StreamCreated, StreamSetRecord
from headwater.server.streams.storage.stream_store import StreamStore
from headwater.server.streams.stream_set_runner import StreamSetRunner
from headwater.store.log.message_log import MessageLog


class StoredStreams:
    """The set of streams of a store, and the logs that follow it."""

    def __init__(self, files: StreamStore) -> None:
        self.files = files
        self.logs: dict[str, MessageLog] = {}
        self.set = StreamSetRunner(files.set_log, self, lambda: None)

    def create(self, account: str, config: StreamConfig, now_ns: int) -> MessageLog:
        """Create a stream as a request does."""
        return self.propose(self.files.decide_creation(account, config, now_ns), config.name)

    def restore(self, account: str, config: StreamConfig, now_ns: int) -> MessageLog:
        """Make a stream of a staged log."""
        return self.propose(self.files.decide_restored(account, config, now_ns), config.name)

    def propose(self, proposal: Proposal[StreamSetRecord], name: str) -> MessageLog:
        """Put a creation through the group of the set."""
        self.set.propose(proposal)
        self.set.commit()
        return self.logs[name]

    # --- the effects of the set ----------------------------------------------------------------

    def open(self, created: StreamCreated) -> None:
        staged = self.files.find_staged(created)
        if staged is None:
            self.logs[created.name] = self.files.make_log(created)
        else:
            self.files.finish_log(created, staged.log)
            self.logs[created.name] = staged.log

    def close(self, closed: Close) -> None:
        """No stream is deleted."""

    def announce(self, announced: StreamAnnounced) -> None:
        """No client listens."""
