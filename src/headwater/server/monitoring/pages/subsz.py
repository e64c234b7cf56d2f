"""/subsz: subscriptions of all accounts, in numbers and one by one."""

from collections.abc import Iterator
from typing import Final

import msgspec

from headwater.server.core.accounts import Account
from headwater.server.core.client import Subscription
from headwater.server.monitoring.facts import Facts
from headwater.server.monitoring.pages.connz import SubDetail, subscription_detail
from headwater.server.monitoring.pages.documents import Refused, View, number, timestamp
from headwater.subjects.grammar import is_valid_literal, matches

LIST_SIZE: Final = 1024


class SubszOptions(View, kw_only=True):
    """The subscriptions to show, by the names of the system service."""

    offset: int = 0
    limit: int = 0
    subscriptions: bool = False
    account: str = ""
    test: str = ""


class IndexStats(View, kw_only=True):
    """The counters of subscription indexes.

    Fan-out is taken over cached routes in nats-server; only some routes are cached here, so it
    would say nothing and is left at zero.
    """

    num_subscriptions: int
    num_cache: int
    num_inserts: int
    num_removes: int
    num_matches: int
    cache_hit_rate: int | float
    max_fanout: int
    avg_fanout: int | float


class Subsz(View, kw_only=True):
    """IndexStats, and a page of subscriptions where they were asked for."""

    server_id: str
    now: str
    num_subscriptions: int
    num_cache: int
    num_inserts: int
    num_removes: int
    num_matches: int
    cache_hit_rate: int | float
    max_fanout: int
    avg_fanout: int | float
    total: int
    offset: int
    limit: int
    subscriptions_list: tuple[SubDetail, ...] = ()


def subsz(facts: Facts, options: SubszOptions) -> Subsz:
    """The page that was asked for. Raises Refused."""
    if options.test and not is_valid_literal(options.test.encode()):
        raise Refused(f"invalid test subject, must be valid publish subject: {options.test}")
    accounts = [
        account for account in facts.accounts.all() if options.account in ("", account.name)
    ]
    page = Subsz(
        server_id=facts.server_id,
        now=timestamp(facts.now_ns),
        **msgspec.structs.asdict(index_stats(accounts)),
        total=0,
        offset=max(options.offset, 0),
        limit=options.limit if options.limit > 0 else LIST_SIZE,
    )
    if options.subscriptions:
        found = [
            sub
            for account in accounts
            for sub in _subscriptions(facts, account)
            if not options.test or matches(sub.subject, options.test.encode())
        ]
        page.total = len(found)
        page.subscriptions_list = tuple(
            subscription_detail(sub, sub.client.cid, sub.client.account.name)
            for sub in found[page.offset : page.offset + page.limit]
        )
    return page


def index_stats(accounts: list[Account]) -> IndexStats:
    """The indexes of these accounts taken together."""
    indexes = [account.index for account in accounts]
    asked = sum(index.matches for index in indexes)
    hits = sum(index.cache_hits for index in indexes)
    return IndexStats(
        num_subscriptions=sum(index.count for index in indexes),
        num_cache=sum(index.cached for index in indexes),
        num_inserts=sum(index.inserts for index in indexes),
        num_removes=sum(index.removes for index in indexes),
        num_matches=asked,
        cache_hit_rate=number(hits / asked) if asked else 0,
        max_fanout=0,
        avg_fanout=0,
    )


def _subscriptions(facts: Facts, account: Account) -> Iterator[Subscription]:
    """The subscriptions of an account: of the server's services, then of clients, oldest first."""
    services = facts.service_clients.get(account)
    if services is not None:
        yield from services.subscriptions.values()
    for client in account.clients:
        yield from client.subscriptions.values()
