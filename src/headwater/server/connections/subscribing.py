"""SUB and UNSUB: which subscriptions a client may have, and how they end.

A subscription is in two places, with its client by id and in the index of the client's account.
"""

from typing import Final, final

from headwater.go.quoting import quote, quote_bytes
from headwater.runtime.environment import Scheduler
from headwater.server.core.accounts import Account
from headwater.server.core.broker import Broker
from headwater.server.core.client import Client, Subscription
from headwater.server.log import Log
from headwater.server.settings import Settings
from headwater.subjects.grammar import is_valid_pattern
from headwater.wire import frames
from headwater.wire.batch import Subscribe, Unsubscribe

TOO_MANY_SUBSCRIPTIONS: Final = "maximum subscriptions exceeded"
INVALID_SUBJECT: Final = "Invalid Subject"

# Queue groups of servers; clients may not join them.
_SYSTEM_QUEUE: Final = b"_sys_"

# A client may leave 500,000 subscriptions behind; this many are removed in about 3 ms.
REMOVED_SUBSCRIPTIONS_MAX: Final = 1_000


@final
class Subscribing:
    """The subscriptions of all clients of a server."""

    __slots__ = ("_broker", "_log", "_scheduler", "_settings")

    def __init__(self, settings: Settings, broker: Broker, scheduler: Scheduler, log: Log) -> None:
        self._settings = settings
        self._broker = broker
        self._scheduler = scheduler
        self._log = log

    def subscribe(self, client: Client, segment: Subscribe) -> None:
        """Perform SUB."""
        subject, queue, sid = segment.subject, segment.queue, segment.sid
        permissions = client.permissions
        if queue == _SYSTEM_QUEUE or (
            permissions is not None and not permissions.may_subscribe(subject, queue)
        ):
            self._refuse(client, segment)
            return
        tokens_max = self._settings.options.max_subscription_tokens
        if tokens_max and subject.count(b".") + 1 > tokens_max:
            text = f"Permissions Violation for Subscription to {quote_bytes(subject)}"
            self._broker.send_error(client, f"{text}, too many tokens")
            return
        limit = client.max_subscriptions
        if limit > 0 and len(client.subscriptions) >= limit:
            self._log.error(f"{client.label} - {TOO_MANY_SUBSCRIPTIONS}")
            self._broker.send_error(client, TOO_MANY_SUBSCRIPTIONS)
            return
        if sid not in client.subscriptions:
            if not is_valid_pattern(subject):
                self._broker.send_error(client, INVALID_SUBJECT)
                return
            sub = Subscription(client, subject, queue, sid)
            client.subscriptions[sid] = sub
            client.account.index.insert(subject, queue, sub)
            # Its permission may have turned delivery filtering on; those before it need no filter.
            sub.update_checks()
            client.account.subscribed(subject, queue)
        if client.connect.verbose:
            self._broker.queue_frame(client, frames.OK)

    def unsubscribe(self, client: Client, segment: Unsubscribe) -> None:
        """Perform UNSUB: end a subscription, now or after some more messages."""
        sub = client.subscriptions.get(segment.sid)
        if client.connect.verbose:
            self._broker.queue_frame(client, frames.OK)
        if sub is None:
            return
        if segment.limit > sub.delivered:
            sub.limit = segment.limit
            sub.update_checks()
        else:
            self._broker.end_subscription(sub)

    def end_all(self, client: Client) -> None:
        """End every subscription of a client that stays."""
        for sub in [*client.subscriptions.values()]:
            self._broker.end_subscription(sub)

    def end_forbidden(self, client: Client) -> None:
        """End the subscriptions that new permissions forbid, and tell the client."""
        for sub in [*client.subscriptions.values()]:
            permissions = client.permissions
            if permissions is not None and not permissions.may_subscribe(sub.subject, sub.queue):
                self._broker.end_subscription(sub)
                self._explain_end(client, sub)

    def remove_all(self, client: Client) -> None:
        """Remove the subscriptions of a client that is gone."""
        # A subscription leads back to its client: without this step neither would be freed.
        subscriptions, client.subscriptions = client.subscriptions, {}
        self._remove_some(client.account, [*subscriptions.values()])

    def _remove_some(self, account: Account, subs: list[Subscription]) -> None:
        """Remove subscriptions from the index, a bounded number per turn.

        Subscriptions that wait get no messages any more: their client is closed.
        """
        for sub in subs[-REMOVED_SUBSCRIPTIONS_MAX:]:
            account.index.remove(sub.subject, sub.queue, sub)
            account.unsubscribed(sub.subject, sub.queue)
        del subs[-REMOVED_SUBSCRIPTIONS_MAX:]
        if subs:
            self._scheduler.call_soon(lambda: self._remove_some(account, subs))

    def _refuse(self, client: Client, segment: Subscribe) -> None:
        subject = quote_bytes(segment.subject)
        sid = segment.sid.decode(errors="replace")
        queue_log = "" if segment.queue is None else f", Queue: {quote_bytes(segment.queue)}"
        what = _with_queue(segment.subject, segment.queue)
        self._broker.send_error(client, f"Permissions Violation for Subscription to {what}")
        self._log.error(
            f"{client.label} - Subscription Violation - Subject {subject}{queue_log}, SID {sid}"
        )

    def _explain_end(self, client: Client, sub: Subscription) -> None:
        what = f"{_with_queue(sub.subject, sub.queue)} (sid {quote_bytes(sub.sid)})"
        self._broker.send_error(client, f"Permissions Violation for Subscription to {what}")
        user = quote(client.username or "N/A")
        self._log.info(f"Removed sub {what} for User {user} - not authorized")


def _with_queue(subject: bytes, queue: bytes | None) -> str:
    if queue is None:
        return quote_bytes(subject)
    return f"{quote_bytes(subject)} using queue {quote_bytes(queue)}"
