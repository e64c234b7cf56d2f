"""Histories of a stream that keeps every promise, written operation by operation.

A `Story` is a stream without servers: each call is an operation that begins, is carried out and
ends before the next one begins, unless the caller keeps it open. Tests then change the history or
the replicas, so that a check has a fault to find.
"""

from dataclasses import replace
from typing import Any

from headwater.checker.history import (
    WORK_QUEUE,
    Ack,
    Batch,
    Delete,
    Delivery,
    History,
    LastRead,
    Operation,
    Publish,
    Purge,
    Read,
    ReadLevel,
    Replica,
    Scan,
    Stored,
    StreamRules,
)

SERVERS = ("s1", "s2", "s3")


class Story:
    """A stream on three servers, and the history of its clients."""

    def __init__(self, **rules: Any) -> None:
        self.history = History(StreamRules("S", **rules))
        self.stored: dict[int, Stored] = {}
        self.ids: dict[str, int] = {}
        self.last = 0
        self.now_s = 0.0

    def tick(self) -> float:
        self.now_s += 1
        return self.now_s

    def _begin(self, operation: Any) -> Any:
        return self.history.begin(operation)

    def _answer(self, operation: Operation, is_answered: bool) -> None:
        if is_answered:
            operation.complete(self.tick())

    def publish(
        self,
        body: str,
        subject: str = "a",
        message_id: str = "",
        expected: int | None = None,
        is_stored: bool = True,
        is_answered: bool = True,
    ) -> Publish:
        """Publish a message; a repeated id is answered as a duplicate."""
        operation: Publish = self._begin(
            Publish(
                client="p",
                begin_s=self.tick(),
                subject=subject,
                body=body,
                message_id=message_id,
                expected=expected,
            )
        )
        if message_id in self.ids:
            operation.sequence, operation.is_duplicate = self.ids[message_id], True
        elif is_stored:
            operation.sequence = self._store(subject, body)
            if message_id:
                self.ids[message_id] = self.last
        self._answer(operation, is_answered)
        return operation

    def batch(
        self, *bodies: str, subject: str = "a", is_stored: bool = True, is_answered: bool = True
    ) -> Batch:
        operation: Batch = self._begin(
            Batch(client="p", begin_s=self.tick(), subject=subject, bodies=bodies)
        )
        if is_stored:
            for body in bodies:
                operation.sequence = self._store(subject, body)
        self._answer(operation, is_answered)
        return operation

    def _store(self, subject: str, body: str) -> int:
        self.last += 1
        self.stored[self.last] = Stored(subject, body)
        return self.last

    def read(self, sequence: int) -> Read:
        found = self.stored.get(sequence)
        operation: Read = self._begin(Read(client="r", begin_s=self.tick(), sequence=sequence))
        operation.body = None if found is None else found.body
        operation.complete(self.tick())
        return operation

    def read_last(
        self, subject: str, level: ReadLevel = ReadLevel.LINEARIZABLE, **fields: Any
    ) -> LastRead:
        """Read the last message of a subject, of the stream as it is now."""
        operation: LastRead = self._begin(
            LastRead(client="r", begin_s=self.tick(), subject=subject, level=level, **fields)
        )
        places = [at for at, stored in self.stored.items() if stored.subject == subject]
        if places:
            operation.sequence = max(places)
            operation.body = self.stored[operation.sequence].body
        operation.complete_to = self.last
        operation.complete(self.tick())
        return operation

    def deliver(self, sequence: int, consumer: str = "c", client: str = "w") -> Delivery:
        operation: Delivery = self._begin(
            Delivery(
                client=client,
                begin_s=self.tick(),
                consumer=consumer,
                sequence=sequence,
                consumer_sequence=1,
                body=self.stored[sequence].body,
            )
        )
        operation.complete(self.tick())
        return operation

    def ack(
        self, sequence: int, consumer: str = "c", is_double: bool = True, is_answered: bool = True
    ) -> Ack:
        """Acknowledge a message, which leaves a work queue by that."""
        operation: Ack = self._begin(
            Ack(
                client="w",
                begin_s=self.tick(),
                consumer=consumer,
                sequence=sequence,
                is_double=is_double,
            )
        )
        if self.history.rules.retention == WORK_QUEUE:
            self.stored.pop(sequence, None)
        self._answer(operation, is_answered)
        return operation

    def purge(
        self, subject: str = "", below: int = 0, keep: int = 0, is_answered: bool = True
    ) -> Purge:
        operation: Purge = self._begin(
            Purge(client="o", begin_s=self.tick(), subject=subject, below=below, keep=keep)
        )
        matching = [
            sequence
            for sequence, stored in self.stored.items()
            if subject in ("", stored.subject) and (not below or sequence < below)
        ]
        for sequence in matching[: len(matching) - keep]:
            del self.stored[sequence]
        self._answer(operation, is_answered)
        return operation

    def delete(self, sequence: int, is_answered: bool = True) -> Delete:
        operation: Delete = self._begin(Delete(client="o", begin_s=self.tick(), sequence=sequence))
        self.stored.pop(sequence, None)
        self._answer(operation, is_answered)
        return operation

    def scan(self, consumer: str = "new") -> Scan:
        operation: Scan = self._begin(Scan(client="r", begin_s=self.tick(), consumer=consumer))
        operation.messages.update(
            {sequence: stored.body for sequence, stored in self.stored.items()}
        )
        operation.complete(self.tick())
        return operation

    def end(self) -> History:
        """The history, with equal replicas of what the stream has now."""
        self.history.replicas = [
            Replica(server, self.last, dict(self.stored), {"ids": sorted(self.ids)})
            for server in SERVERS
        ]
        return self.history


def with_message(history: History, server: int, sequence: int, stored: Stored | None) -> None:
    """Change, add or, for None, remove a message of one replica."""
    replica = history.replicas[server]
    messages = {**replica.messages}
    messages.pop(sequence, None)
    if stored is not None:
        messages[sequence] = stored
    last = max(replica.last_sequence, *messages, 0)
    history.replicas[server] = replace(replica, messages=messages, last_sequence=last)


def with_message_everywhere(history: History, sequence: int, stored: Stored | None) -> None:
    """Change, add or, for None, remove a message of every replica."""
    for server in range(len(history.replicas)):
        with_message(history, server, sequence, stored)
