"""Accounts come and go with the options, and do not hear each other."""

import pytest

from headwater.server.configuration.options import AccountOptions, Options, UserOptions
from headwater.server.core.accounts import Accounts
from headwater.server.monitoring.pages.accountz import account_stat
from tests.kit.world import World
from tests.unit.server.conftest import MakeWorld


def names(accounts: Accounts) -> list[str]:
    return [account.name for account in accounts.all()]


def test_there_are_always_the_global_and_the_system_account() -> None:
    accounts = Accounts(Options())
    assert names(accounts) == ["$G", "$SYS"]
    assert accounts.default.name == "$G"
    assert accounts.system is accounts.get("$SYS")


def test_a_configured_account_can_be_the_system_account() -> None:
    options = Options(accounts=(AccountOptions("OPS"),), system_account="OPS")
    accounts = Accounts(options)
    assert accounts.system is not None
    assert accounts.system.name == "OPS"
    assert names(accounts) == ["$G", "OPS"]


def test_there_can_be_no_system_account() -> None:
    accounts = Accounts(Options(no_system_account=True))
    assert names(accounts) == ["$G"]
    assert accounts.system is None


def test_accounts_stay_the_same_objects_across_a_reload() -> None:
    accounts = Accounts(Options(accounts=(AccountOptions("A"), AccountOptions("B"))))
    kept, default = accounts.get("A"), accounts.default
    accounts.configure(Options(accounts=(AccountOptions("A"), AccountOptions("C"))))
    assert accounts.get("A") is kept
    assert accounts.default is default
    assert names(accounts) == ["$G", "A", "$SYS", "C"]


def test_an_account_no_longer_named_stays_while_somebody_is_in_it(make_world: MakeWorld) -> None:
    user = UserOptions("alice", "pa", account_name="A")
    world = make_world(accounts=(AccountOptions("A", (user,)),))
    peer = world.modern(user="alice", password="pa")
    accounts = world.node.accounts
    assert [c.cid for c in accounts.get("A").clients] == [peer.client.cid]  # type: ignore[union-attr]
    accounts.configure(Options())
    assert accounts.get("A") is not None
    peer.connection.leave()
    world.settle()
    accounts.configure(Options())
    assert accounts.get("A") is None


@pytest.mark.parametrize("subject", [b"foo", b"foo.bar", b"_INBOX.x"])
def test_what_is_said_in_one_account_is_not_heard_in_another(
    make_world: MakeWorld, subject: bytes
) -> None:
    users = [UserOptions(name, "pw", account_name=name) for name in ("A", "B")]
    world = make_world(accounts=tuple(AccountOptions(u.username, (u,)) for u in users))
    a, b = (world.modern(user=u.username, password="pw") for u in users)
    for peer in (a, b):
        peer.send(b"SUB > 1\r\nSUB %b 2\r\nSUB * q 3\r\nSUB *.* q 4\r\n" % subject)
    a.send(b"PUB %b 1\r\nx\r\n" % subject)
    assert a.take().count(b"MSG ") == 3
    assert b.take() == b""


def test_messages_count_for_the_account_in_which_they_were_sent() -> None:
    world = World()
    accounts, peer = world.node.accounts, world.modern()
    assert accounts.system is not None
    peer.send(b"PUB a 2\r\nxx\r\n")
    accounts.move(peer.client, accounts.system)
    peer.send(b"PUB a 3\r\nyyy\r\n" * 2)

    def received() -> list[tuple[int, int]]:
        assert accounts.system is not None
        told = [account_stat(account) for account in (accounts.default, accounts.system)]
        return [(each.received.msgs, each.received.bytes) for each in told]

    assert received() == [(1, 2), (2, 6)]
    peer.connection.leave()
    world.settle()
    assert received() == [(1, 2), (2, 6)]
