"""The promises of core NATS, checked message by message.

Always: no message is invented, none comes twice, each subscriber sees each publisher's messages in
the order they were published, and a message goes to at most one member of a queue group.

In a quiet stretch, when nothing fails and all clients are connected: every message reaches every
matching plain subscriber, and one member of every matching queue group.

A publisher or subscriber that was restarted is a new one here. Numbers count up from 1 per
publisher.
"""

from dataclasses import dataclass, field

from headwater.subjects.grammar import matches


class DeliveryViolation(AssertionError):
    """Core NATS broke a promise."""


@dataclass(frozen=True)
class Published:
    """One publish. Publisher and number together are its identity."""

    publisher: str
    number: int
    subject: str


@dataclass
class Subscriber:
    """A subscription and what it received, in order."""

    name: str
    pattern: str
    queue: str | None
    received: list[Published] = field(default_factory=list)

    def wants(self, message: Published) -> bool:
        """Whether the subscription matches the message."""
        return matches(self.pattern.encode(), message.subject.encode())


class DeliveryLedger:
    """All messages published and received in one run."""

    def __init__(self) -> None:
        self._published: dict[Published, None] = {}
        self.subscribers: list[Subscriber] = []

    def publish(self, message: Published) -> None:
        """Note a message that a publisher is about to send."""
        self._published[message] = None

    def subscriber(self, name: str, pattern: str, queue: str | None = None) -> Subscriber:
        """Add a subscription."""
        subscriber = Subscriber(name, pattern, queue)
        self.subscribers.append(subscriber)
        return subscriber

    def check_always(self) -> None:
        """Check the promises that hold at any time, whatever failed."""
        for subscriber in self.subscribers:
            self._check_genuine(subscriber)
            _check_order(subscriber)
        self._check_groups_once()

    def check_quiet(self, quiet: list[Published], present: list[Subscriber]) -> None:
        """Check that messages of a quiet stretch reached all matching subscribers in `present`."""
        for message in quiet:
            interested = [one for one in present if one.wants(message)]
            for subscriber in interested:
                if subscriber.queue is None and message not in subscriber.received:
                    raise DeliveryViolation(f"lost: {message} never reached {subscriber.name}")
            for queue in sorted({one.queue for one in interested if one.queue is not None}):
                members = [one for one in interested if one.queue == queue]
                if not any(message in member.received for member in members):
                    raise DeliveryViolation(f"lost: {message} reached nobody in group {queue}")

    def _check_genuine(self, subscriber: Subscriber) -> None:
        for message in subscriber.received:
            if message not in self._published:
                raise DeliveryViolation(f"invented: {subscriber.name} received {message}")
            if not subscriber.wants(message):
                raise DeliveryViolation(
                    f"misrouted: {subscriber.name} ({subscriber.pattern}) received {message}"
                )

    def _check_groups_once(self) -> None:
        seen: dict[tuple[str, Published], str] = {}
        for subscriber in self.subscribers:
            if subscriber.queue is None:
                continue
            for message in subscriber.received:
                other = seen.setdefault((subscriber.queue, message), subscriber.name)
                if other != subscriber.name:
                    raise DeliveryViolation(
                        f"twice: {message} went to {other} and {subscriber.name} "
                        f"of group {subscriber.queue}"
                    )


def _check_order(subscriber: Subscriber) -> None:
    latest: dict[str, int] = {}
    for message in subscriber.received:
        before = latest.get(message.publisher, 0)
        if message.number == before:
            raise DeliveryViolation(f"twice: {subscriber.name} received {message}")
        if message.number < before:
            raise DeliveryViolation(
                f"out of order: {subscriber.name} received {message} after number {before}"
            )
        latest[message.publisher] = message.number
