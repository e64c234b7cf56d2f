"""Accounts: subject spaces that do not see each other.

Every subscription lives in exactly one account's index and every publish is matched in exactly one,
so isolation is where things are kept and not a check that could be forgotten.
"""

from typing import TypeAlias, final

from headwater.server.configuration.options import GLOBAL_ACCOUNT, Options
from headwater.server.core.client import Client, Subscription
from headwater.server.core.subject_space import SubjectSpace

Account: TypeAlias = SubjectSpace[Client, Subscription]


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

    def move(self, client: Client, account: Account) -> None:
        """Put a client into an account, out of the one it was in."""
        if client in account.clients:
            return
        before = client.account
        before.clients.pop(client, None)
        # The messages that the client has sent so far stay with the account that it sent them in.
        before.in_msgs += client.in_msgs
        before.in_bytes += client.in_bytes
        account.in_msgs -= client.in_msgs
        account.in_bytes -= client.in_bytes
        client.account = account
        client.is_system = account is self.system
        account.clients[client] = None
        account.total_connections += 1

    def leave(self, client: Client) -> None:
        """Take a client out of its account, which keeps its counts."""
        account = client.account
        account.clients.pop(client, None)
        account.in_msgs += client.in_msgs
        account.in_bytes += client.in_bytes
        account.out_msgs += client.out_msgs
        account.out_bytes += client.out_bytes

    def configure(self, options: Options) -> None:
        """Create the accounts that options name; others stay until they have no clients."""
        names = [GLOBAL_ACCOUNT, *(account.name for account in options.accounts)]
        if options.system_account and not options.no_system_account:
            names.append(options.system_account)
        for name in names:
            if name not in self._by_name:
                self._by_name[name] = SubjectSpace(name, not options.disable_sublist_cache)
        for account in options.accounts:
            self._by_name[account.name].limits = account.limits
        self.system = self._by_name.get(options.system_account)
        for name in [*self._by_name]:
            if name not in names and not self._by_name[name].clients:
                del self._by_name[name]
