"""Accounts: subject spaces that do not see each other.

Every subscription lives in exactly one account's index and every publish is matched in exactly one,
so isolation is where things are kept and not a check that could be forgotten.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from headwater.server.configuration.options import GLOBAL_ACCOUNT, AccountLimits, Options
from headwater.subjects.index import SubscriptionIndex

if TYPE_CHECKING:
    from headwater.server.core.client import Client, Subscription


@final
class Account:
    """One subject space and the connections in it."""

    __slots__ = (
        "clients",
        "in_bytes",
        "in_msgs",
        "index",
        "limits",
        "name",
        "out_bytes",
        "out_msgs",
        "slow_consumers",
        "total_connections",
        "watched",
    )

    def __init__(self, name: str, caching: bool = True) -> None:
        self.name = name
        self.limits = AccountLimits()
        self.index: SubscriptionIndex[Subscription] = SubscriptionIndex(caching)
        self.clients: dict[Client, None] = {}
        self.total_connections = 0
        self.in_msgs = 0
        self.in_bytes = 0
        self.out_msgs = 0
        self.out_bytes = 0
        self.slow_consumers = 0
        # Who wants to know when somebody begins or ends to listen to a subject, by subject.
        self.watched: dict[bytes, dict[object, Callable[[], object]]] = {}

    def watch(self, subject: bytes, who: object, changed: Callable[[], object]) -> None:
        """Have `changed` called whenever a subscription to just this subject comes or goes."""
        self.watched.setdefault(subject, {})[who] = changed

    def unwatch(self, subject: bytes, who: object) -> None:
        """Call it no longer."""
        watchers = self.watched.get(subject, {})
        watchers.pop(who, None)
        if not watchers:
            self.watched.pop(subject, None)

    def interest_changed(self, subject: bytes) -> None:
        """A subscription came or went."""
        for changed in [*self.watched.get(subject, {}).values()]:
            changed()


@final
class Accounts:
    """All accounts of a server."""

    __slots__ = ("_by_name", "system")

    def __init__(self, options: Options) -> None:
        self._by_name: dict[str, Account] = {}
        self.system: Account | None = None
        self.configure(options)

    @property
    def default(self) -> Account:
        """The account of clients that name no other."""
        return self._by_name[GLOBAL_ACCOUNT]

    def all(self) -> list[Account]:
        """Every account, oldest first."""
        return list(self._by_name.values())

    def get(self, name: str) -> Account | None:
        """The account of that name."""
        return self._by_name.get(name)

    def configure(self, options: Options) -> None:
        """Create what the options name. Accounts no longer named stay until they are empty."""
        names = [GLOBAL_ACCOUNT, *(account.name for account in options.accounts)]
        if options.system_account and not options.no_system_account:
            names.append(options.system_account)
        for name in names:
            if name not in self._by_name:
                self._by_name[name] = Account(name, not options.disable_sublist_cache)
        for account in options.accounts:
            self._by_name[account.name].limits = account.limits
        self.system = self._by_name.get(options.system_account)
        for name in [*self._by_name]:
            if name not in names and not self._by_name[name].clients:
                del self._by_name[name]
