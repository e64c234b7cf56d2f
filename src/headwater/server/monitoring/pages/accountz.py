"""/accountz and /accstatz: accounts, their connections and subscriptions, and their traffic."""

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, UnsetType

from headwater.server.core.accounts import Account
from headwater.server.monitoring.facts import Facts
from headwater.server.monitoring.pages.documents import MsgBytes, Refused, View, timestamp
from headwater.server.monitoring.pages.subsz import IndexStats, index_stats

# nats-server's table, by name. Ours has one more, for an extension that is nowhere to be seen
# unless it is used.
DOMAIN_MAPPINGS: Final = (
    ("$KV.>", ""),
    ("$OBJ.>", ""),
    ("ACCOUNT.>", "$JS.API."),
    ("CONSUMER.>", "$JS.API."),
    ("DIRECT.>", "$JS.API."),
    ("INFO", "$JS.API."),
    ("META.>", "$JS.API."),
    ("SERVER.>", "$JS.API."),
    ("STREAM.>", "$JS.API."),
)


# Services that any account may ask about itself: the subject, and the name in the system account.
OWN_ACCOUNT_SERVICES: Final = {
    "$SYS.REQ.ACCOUNT.PING.CONNZ": "CONNZ",
    "$SYS.REQ.SERVER.PING.CONNZ": "CONNZ",
    "$SYS.REQ.ACCOUNT.PING.STATZ": "STATZ",
}
USER_INFO: Final = "$SYS.REQ.USER.INFO"
_JETSTREAM_API: Final = "$JS.API.>"


class AccountzOptions(View, kw_only=True):
    """The account to show in full, or none for a list of all."""

    account: str = ""


class AccountStatzOptions(View, kw_only=True):
    """The accounts to show; those without connections only where asked for."""

    accounts: tuple[str, ...] = ()
    include_unused: bool = False


class ServiceImport(View, kw_only=True):
    """A service of the system account under the name another account knows it by."""

    subject: str
    account: str
    to: str
    local_subject: str
    type: str
    invalid: bool
    share: bool
    tracking: bool


class Mapping(View, kw_only=True):
    """The subject that another subject is mapped to, and its share of the messages."""

    subject: str
    weight: int


class AccountInfo(View, kw_only=True):
    """One account in full."""

    account_name: str
    update_time: str
    is_system: bool = False
    expired: bool
    complete: bool
    jetstream_enabled: bool
    leafnode_connections: int
    client_connections: int
    subscriptions: int
    mappings: dict[str, tuple[Mapping, ...]] | UnsetType = UNSET
    imports: tuple[ServiceImport, ...] = ()
    name_tag: str
    sublist_stats: IndexStats


class Accountz(View, kw_only=True):
    """All accounts by name, or one in full."""

    server_id: str
    now: str
    system_account: str = ""
    accounts: tuple[str, ...] = ()
    account_detail: AccountInfo | None = None


class Traffic(View, kw_only=True):
    """Messages through an account, by the kind of connection they came or went by."""

    msgs: int
    bytes: int
    gateways: MsgBytes
    routes: MsgBytes
    leafs: MsgBytes


class AccountStat(View, kw_only=True):
    """One account in numbers."""

    acc: str
    name: str
    conns: int
    leafnodes: int
    total_conns: int
    num_subscriptions: int
    sent: Traffic
    received: Traffic
    slow_consumers: int


class AccountStatz(View, kw_only=True):
    """Accounts in numbers."""

    server_id: str
    now: str
    account_statz: list[AccountStat]


def accountz(facts: Facts, options: AccountzOptions) -> Accountz:
    """All accounts, or one of them. Raises Refused for one that does not exist."""
    system = facts.accounts.system
    page = Accountz(
        server_id=facts.server_id,
        now=timestamp(facts.now_ns),
        system_account="" if system is None else system.name,
    )
    if options.account:
        page.account_detail = account_info(facts, options.account)
    else:
        page.accounts = tuple(account.name for account in facts.accounts.all())
    return page


def account_info(facts: Facts, name: str) -> AccountInfo:
    """One account in full. Raises Refused if it does not exist."""
    account = facts.accounts.get(name)
    if account is None:
        raise Refused(f"Account {name} does not exist")
    streams = facts.streams
    return AccountInfo(
        account_name=account.name,
        update_time=timestamp(facts.settings.loaded_wall_ns),
        is_system=account is facts.accounts.system,
        expired=False,
        complete=True,
        jetstream_enabled=streams is not None and name in streams.accounts,
        leafnode_connections=0,
        client_connections=len(account.clients),
        subscriptions=account.index.count,
        mappings=_mappings(facts, account),
        imports=tuple(_imports(facts, account)),
        name_tag=account.name,
        sublist_stats=index_stats([account]),
    )


def _imports(facts: Facts, account: Account) -> Iterator[ServiceImport]:
    """The services of the system account that an account sees."""
    system = facts.accounts.system
    if system is None:
        return
    if account is not system:
        for subject, service in OWN_ACCOUNT_SERVICES.items():
            to = f"$SYS.REQ.ACCOUNT.{account.name}.{service}"
            yield _import(system, subject, to, shares_identity=False)
        if facts.streams is not None:
            yield _import(system, _JETSTREAM_API, _JETSTREAM_API, shares_identity=True)
    to = f"$SYS.REQ.USER.{account.name}.INFO"
    yield _import(system, USER_INFO, to, shares_identity=True)


def _import(system: Account, local: str, service: str, shares_identity: bool) -> ServiceImport:
    return ServiceImport(
        subject=service,
        account=system.name,
        to=local,
        local_subject=local,
        type="service",
        invalid=False,
        share=shares_identity,
        tracking=False,
    )


def _mappings(facts: Facts, account: Account) -> dict[str, tuple[Mapping, ...]] | UnsetType:
    """The names that a domain gives to the API of JetStream."""
    domain = facts.options.jetstream.domain
    if facts.streams is None or not domain or account is facts.accounts.system:
        return UNSET
    return {
        f"$JS.{domain}.API.{family}": (Mapping(subject=prefix + family, weight=100),)
        for family, prefix in DOMAIN_MAPPINGS
    }


def account_statz(facts: Facts, options: AccountStatzOptions) -> AccountStatz:
    """The accounts asked for, or all."""
    wanted = options.accounts
    accounts = [
        account
        for account in facts.accounts.all()
        if (not wanted or account.name in wanted) and (options.include_unused or account.clients)
    ]
    return AccountStatz(
        server_id=facts.server_id,
        now=timestamp(facts.now_ns),
        account_statz=[account_stat(account) for account in accounts],
    )


def account_stat(account: Account) -> AccountStat:
    """One account in numbers, those of clients that have gone included."""
    connections = len(account.clients)
    received_msgs = account.in_msgs + sum(client.in_msgs for client in account.clients)
    received_bytes = account.in_bytes + sum(client.in_bytes for client in account.clients)
    sent_msgs = account.out_msgs + sum(client.out_msgs for client in account.clients)
    sent_bytes = account.out_bytes + sum(client.out_bytes for client in account.clients)
    return AccountStat(
        acc=account.name,
        name=account.name,
        conns=connections,
        leafnodes=0,
        total_conns=connections,
        num_subscriptions=account.index.count,
        sent=_by_clients(sent_msgs, sent_bytes),
        received=_by_clients(received_msgs, received_bytes),
        slow_consumers=account.slow_consumers,
    )


def _by_clients(msgs: int, size: int) -> Traffic:
    nothing = MsgBytes(msgs=0, bytes=0)
    return Traffic(msgs=msgs, bytes=size, gateways=nothing, routes=nothing, leafs=nothing)
