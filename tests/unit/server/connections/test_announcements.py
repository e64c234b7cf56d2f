"""INFO: at the beginning, after the first PING, and in lame duck mode."""

from headwater.server.configuration.options import (
    AccountOptions,
    UserOptions,
)
from tests.kit.world import World, infos_in
from tests.unit.server.conftest import MakeWorld

ALICE = UserOptions("alice", "pa")


class TestFirstInfo:
    def test_tells_what_clients_need(self, world: World) -> None:
        peer = world.open()
        [info] = infos_in(peer.take())
        assert info["server_id"] == info["server_name"] == world.node.server_id
        assert info["version"] == "2.15.1"
        expected: dict[str, object] = {
            "proto": 1,
            "headers": True,
            "max_payload": 1048576,
            "client_id": peer.client.cid,
            "client_ip": "127.0.0.1",
        }
        assert expected.items() <= info.items()
        assert not {"auth_required", "connect_info", "ldm"} & info.keys()

    def test_no_two_clients_have_the_same_id(self, world: World) -> None:
        ids = [infos_in(world.open().take())[0]["client_id"] for _ in range(3)]
        assert ids == [peer.cid for peer in world.node.roster.open.values()]
        assert len(set(ids)) == 3

    def test_says_that_credentials_are_needed(self, make_world: MakeWorld) -> None:
        assert infos_in(make_world(users=(ALICE,)).open().take())[0]["auth_required"] is True
        assert infos_in(make_world(token="t").open().take())[0]["auth_required"] is True

    def test_but_not_where_somebody_stands_in(self, make_world: MakeWorld) -> None:
        world = make_world(users=(ALICE,), no_auth_user="alice")
        assert "auth_required" not in infos_in(world.open().take())[0]

    def test_a_name_and_a_payload_of_ones_own(self, make_world: MakeWorld) -> None:
        world = make_world(server_name="mine", max_payload=100, no_header_support=True)
        [info] = infos_in(world.open().take())
        assert (info["server_name"], info["max_payload"], info["headers"]) == ("mine", 100, False)


# The first thing a client says, what an open server answers, and whether that closes it.


class TestSecondInfo:
    def test_follows_the_first_pong_only(self, world: World) -> None:
        peer = world.modern()
        answer = peer.ask(b"PING\r\n")
        assert answer.startswith(b"PONG\r\nINFO ")
        [info] = infos_in(answer)
        assert (info["connect_info"], info["remote_account"]) == (True, "$G")
        assert peer.ask(b"PING\r\n") == b"PONG\r\n"

    def test_is_not_sent_to_those_who_can_not_read_it(self, world: World) -> None:
        assert world.modern(protocol=0).ask(b"PING\r\n") == b"PONG\r\n"

    def test_a_ping_before_connect_does_not_use_it_up(self, world: World) -> None:
        peer = world.open()
        assert peer.ask(b"PING\r\n") == b"PONG\r\n"
        assert len(infos_in(peer.ask(b'CONNECT {"protocol":1}\r\nPING\r\n'))) == 1

    def test_names_the_account(self, make_world: MakeWorld) -> None:
        admin = UserOptions("admin", "p", account_name="OPS")
        world = make_world(accounts=(AccountOptions("OPS", (admin,)),), system_account="OPS")
        [info] = infos_in(world.modern(user="admin", password="p").ask(b"PING\r\n"))
        assert (info["remote_account"], info["acc_is_sys"]) == ("OPS", True)


class TestLameDuck:
    def test_clients_are_told_once_they_have_seen_a_pong(self, world: World) -> None:
        ready, fresh, old = world.modern(), world.modern(), world.modern(protocol=0)
        for peer in (ready, old):
            peer.ask(b"PING\r\n")
        world.node.announce_lame_duck()
        world.settle()
        [info] = infos_in(ready.take())
        assert (info["ldm"], info["client_id"]) == (True, ready.client.cid)
        assert "connect_info" not in info
        assert fresh.take() == b""
        assert old.take() == b""
