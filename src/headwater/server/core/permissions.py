"""The subjects that one connection may publish and subscribe to.

Built once per connection from the user's Permissions. Publish answers are remembered per subject,
up to a bound, because most publishers use few subjects.

A deny list does not stop a wildcard subscription that is wider than it. The subscription is let in,
and the denied subjects are filtered when messages are delivered (`filters_deliveries`).
"""

from typing import Final, final

from headwater.base.clock import NS_PER_S
from headwater.server.configuration.options import Permissions, ResponsePermission
from headwater.subjects.grammar import collide, has_wildcard, is_subset, is_valid_pattern
from headwater.subjects.index import SubscriptionIndex

ANSWERS_MAX: Final = 512
REPLIES_MAX: Final = 4096


@final
class _Rule:
    """One entry of an allow or deny list; members of an index are compared by identity."""

    __slots__ = ("queue", "subject")

    def __init__(self, subject: bytes, queue: bytes | None) -> None:
        self.subject = subject
        self.queue = queue


@final
class _RuleList:
    """An allow or deny list."""

    __slots__ = ("_index", "rules")

    def __init__(self, rules: list[_Rule]) -> None:
        # Answers are remembered by the connection; every connection has several of these lists.
        self._index: SubscriptionIndex[_Rule] = SubscriptionIndex(caching=False)
        self.rules = rules
        for rule in rules:
            self._index.insert(rule.subject, rule.queue, rule)

    def names(self, subject: bytes) -> bool:
        """Whether an entry without a queue matches `subject`, its wildcards taken as tokens."""
        return bool(self._index.match(subject).plain)

    def covers(self, pattern: bytes) -> bool:
        """Whether an entry without a queue matches all that `pattern` matches."""
        return any(is_subset(pattern, rule.subject) for rule in self._index.match(pattern).plain)

    def queue_verdict(self, subject: bytes, queue: bytes) -> bool | None:
        """Whether entries with a queue name `queue`; None if none of them covers the subject."""
        groups = self._index.match(subject).groups
        if not groups:
            return None
        return any(_queue_matches(queue, group[0].queue or b"") for group in groups)


def _queue_matches(queue: bytes, entry: bytes) -> bool:
    return queue == entry or (has_wildcard(entry) and is_subset(queue, entry))


@final
class ConnectionPermissions:
    """The permissions of one connection."""

    __slots__ = (
        "_answers",
        "_publish_allow",
        "_publish_deny",
        "_replies",
        "_response",
        "_subscribe_allow",
        "_subscribe_deny",
        "filters_deliveries",
        "source",
    )

    def __init__(self, source: Permissions) -> None:
        self.source = source
        publish = source.publish
        subscribe = source.subscribe
        self._publish_allow: _RuleList | None = None
        self._publish_deny: _RuleList | None = None
        self._subscribe_allow: _RuleList | None = None
        self._subscribe_deny: _RuleList | None = None
        if publish is not None and publish.allow is not None:
            # Not even an empty list lets everything through.
            self._publish_allow = _RuleList(_subject_rules(publish.allow))
        if publish is not None and publish.deny:
            self._publish_deny = _RuleList(_subject_rules(publish.deny, drop_queues=True))
        if subscribe is not None and subscribe.allow:
            self._subscribe_allow = _RuleList(_queue_rules(subscribe.allow))
        if subscribe is not None and subscribe.deny:
            self._subscribe_deny = _RuleList(_queue_rules(subscribe.deny))
        self._response: ResponsePermission | None = source.allow_responses
        self._answers: dict[bytes, bool] = {}
        # Reply subject -> [replies sent, monotonic time of delivery in ns].
        self._replies: dict[bytes, list[int]] = {}
        self.filters_deliveries = False

    @property
    def restricts_publishing(self) -> bool:
        """Whether publishes have to be asked for at all."""
        return self._publish_allow is not None or self._publish_deny is not None

    @property
    def tracks_replies(self) -> bool:
        """Whether delivered reply subjects have to be told by `delivered_reply`."""
        return self._response is not None

    def may_publish(self, subject: bytes, now_ns: int) -> bool:
        """Whether a message may be published to `subject`; counts it if it is a response."""
        answer = self._answers.get(subject)
        if answer is not None:
            return answer
        answer = self._publish_allow is None or self._publish_allow.names(subject)
        if answer and self._publish_deny is not None:
            answer = not self._publish_deny.names(subject)
        if not answer and self._response is not None:
            return self._may_respond(subject, self._response, now_ns)
        if len(self._answers) >= ANSWERS_MAX:
            self._answers.clear()
        self._answers[subject] = answer
        return answer

    def may_subscribe(self, subject: bytes, queue: bytes | None) -> bool:
        """Whether the subscription may be made; also turns on delivery filtering it needs."""
        allowed = True
        if self._subscribe_allow is not None:
            allowed = self._subscribe_allow.covers(subject)
            if queue is not None:
                verdict = self._subscribe_allow.queue_verdict(subject, queue)
                allowed = allowed if verdict is None else verdict
        if not allowed:
            return False
        deny = self._subscribe_deny
        if deny is None:
            return True
        if deny.names(subject):
            return False
        if queue is not None and deny.queue_verdict(subject, queue):
            return False
        if queue is not None or has_wildcard(subject):
            self.filters_deliveries = self.filters_deliveries or any(
                collide(rule.subject, subject) for rule in deny.rules
            )
        return True

    def may_receive(self, subject: bytes, queue: bytes | None) -> bool:
        """Whether a message on `subject` may be delivered to a subscription already let in."""
        deny = self._subscribe_deny
        if deny is None:
            return True
        if deny.names(subject):
            return False
        return queue is None or not deny.queue_verdict(subject, queue)

    def delivered_reply(self, reply: bytes, now_ns: int) -> None:
        """A message with this reply subject was delivered: responses to it are let through."""
        if self.may_publish(reply, now_ns):
            return
        if len(self._replies) >= REPLIES_MAX:
            self._prune_replies(now_ns)
        self._replies[reply] = [0, now_ns]

    def forget(self) -> None:
        """Let go of what was remembered. Says the same as before, except that nobody is owed a
        response any more."""
        self._answers.clear()
        self._replies.clear()

    def _may_respond(self, subject: bytes, response: ResponsePermission, now_ns: int) -> bool:
        tracked = self._replies.get(subject)
        if tracked is None:
            return False
        tracked[0] += 1
        too_many = response.max_msgs > 0 and tracked[0] > response.max_msgs
        too_late = response.ttl_s > 0 and now_ns - tracked[1] > response.ttl_s * NS_PER_S
        if too_many or too_late:
            del self._replies[subject]
            return False
        return True

    def _prune_replies(self, now_ns: int) -> None:
        """Forget replies that can no longer be used, and the oldest half if that is not enough."""
        response = self._response
        if response is not None and response.ttl_s > 0:
            horizon = now_ns - response.ttl_s * NS_PER_S
            self._replies = {k: v for k, v in self._replies.items() if v[1] >= horizon}
        if response is not None and response.max_msgs > 0:
            self._replies = {k: v for k, v in self._replies.items() if v[0] < response.max_msgs}
        if len(self._replies) >= REPLIES_MAX:
            newest = list(self._replies.items())[REPLIES_MAX // 2 :]
            self._replies = dict(newest)


def _subject_rules(entries: tuple[str, ...], drop_queues: bool = False) -> list[_Rule]:
    """Entries for publishing, where a queue means nothing.

    An entry with one is void, unless that would widen rights: then its subject counts.
    """
    rules = []
    for entry in entries:
        fields = entry.encode().split()
        if (len(fields) == 1 or (drop_queues and fields)) and is_valid_pattern(fields[0]):
            rules.append(_Rule(fields[0], None))
    return rules


def _queue_rules(entries: tuple[str, ...]) -> list[_Rule]:
    """Entries for subscribing: a subject, or a subject and the queues allowed or denied on it."""
    rules = []
    for entry in entries:
        fields = entry.encode().split()
        if 1 <= len(fields) <= 2 and all(map(is_valid_pattern, fields)):
            rules.append(_Rule(fields[0], fields[1] if len(fields) == 2 else None))
    return rules
