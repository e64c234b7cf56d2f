"""A message to very many subscriptions is delivered in slices, in order, and delays no others."""

import json
from itertools import pairwise

import pytest

from headwater.server.core import broker, crowd
from tests.kit.stored_world import StoredWorld
from tests.kit.world import Peer, World

SLICE = 20
# Three slices and the beginning of a fourth.
MEMBERS = 3 * SLICE + 5


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "SLICE_DELIVERIES_MAX", SLICE)
    monkeypatch.setattr(broker, "SLICE_DELIVERIES_MAX", SLICE)
    monkeypatch.setattr(crowd, "CLIENT_DELIVERIES", 0)


def crowd_of(world: World, subject: bytes, count: int = MEMBERS) -> Peer:
    """A client with that many equal subscriptions."""
    peer = world.modern()
    peer.send(b"".join(b"SUB %b %d\r\n" % (subject, sid) for sid in range(1, count + 1)))
    peer.take()
    return peer


def copies(peer: Peer) -> list[tuple[bytes, bytes]]:
    """The sid and payload of every message that arrived since the last call."""
    lines = peer.take().split(b"\r\n")
    return [
        (line.split()[2], payload) for line, payload in pairwise(lines) if line.startswith(b"MSG ")
    ]


def sids_by_payload(peer: Peer) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for sid, payload in copies(peer):
        found.setdefault(payload, []).append(sid)
    return found


EVERYBODY = [b"%d" % sid for sid in range(1, MEMBERS + 1)]


class TestSlices:
    def test_a_turn_delivers_one_slice(self, world: World) -> None:
        members, source = crowd_of(world, b"all"), world.modern()
        source.push(b"PUB all 1\r\nx\r\n")
        seen = []
        while world.node.broker.crowds.lines or members.client.dirty:
            world.scheduler.run_turn()
            seen.append(len(copies(members)))
        assert sum(seen) == MEMBERS
        assert max(seen) <= SLICE

    def test_a_message_that_fits_into_a_slice_is_delivered_at_once(self, world: World) -> None:
        members, source = crowd_of(world, b"all", SLICE), world.modern()
        source.push(b"PUB all 1\r\nx\r\n")
        assert not world.node.broker.crowds.lines
        assert not source.client.is_held_back
        world.settle()
        assert len(copies(members)) == SLICE

    def test_large_payloads_make_small_slices(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(crowd, "DELIVERY_BYTES_COPIED", 5_000)
        members, source = crowd_of(world, b"all", SLICE), world.modern()
        source.push(b"PUB all 9900\r\n" + b"x" * 9_900 + b"\r\n")
        assert len(members.client.out) // 3 == SLICE // 2
        world.settle()
        assert len(copies(members)) == SLICE
        assert source.client.awaited == 0

    def test_messages_of_one_turn_share_a_slice(self, world: World) -> None:
        members = crowd_of(world, b"all", SLICE)
        account = members.client.account
        for number in range(3):
            world.node.broker.send(account, b"all", None, b"%d" % number)
        world.node.broker.buffers.flush()
        assert {*sids_by_payload(members)} == {b"0"}
        seen = []
        for _ in range(4):
            world.scheduler.run_turn()
            seen.append(len(copies(members)))
        assert sum(seen) == 2 * SLICE
        assert max(seen) <= SLICE

    def test_members_of_many_clients_cost_more(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(crowd, "CLIENT_DELIVERIES", 3)
        members = [crowd_of(world, b"all", 1) for _ in range(MEMBERS)]
        source = world.modern()
        source.push(b"PUB all 1\r\nx\r\n")
        served = sum(bool(peer.client.out) for peer in members)
        share = SLICE // crowd.LINES_PER_SLICE
        assert served <= SLICE // (1 + crowd.CLIENT_DELIVERIES) + share
        world.settle()
        assert all(len(copies(peer)) == 1 for peer in members)

    def test_plain_members_and_few_groups_are_served_at_once(self, world: World) -> None:
        members, source = crowd_of(world, b"all", SLICE - crowd.GROUP_DELIVERIES), world.modern()
        members.send(b"SUB all q 999\r\n")
        source.push(b"PUB all 1\r\nx\r\n")
        assert not source.client.is_held_back
        world.settle()
        assert len(copies(members)) == SLICE - crowd.GROUP_DELIVERIES + 1

    def test_queue_groups_are_served_in_slices_too(self, world: World) -> None:
        members, source = world.modern(), world.modern()
        members.send(b"".join(b"SUB all q%d %d\r\n" % (sid, sid) for sid in range(MEMBERS)))
        source.push(b"PUB all 1\r\nx\r\n")
        assert len(members.client.out) // 3 == SLICE // crowd.GROUP_DELIVERIES
        world.settle()
        assert len(copies(members)) == MEMBERS


class TestOrder:
    def test_the_publisher_does_nothing_else_before_all_have_its_message(
        self, world: World
    ) -> None:
        members, source = crowd_of(world, b"all"), world.modern()
        source.push(b"PUB all 1\r\n1\r\nPUB all 1\r\n2\r\nPING\r\n")
        assert source.client.is_held_back
        assert not source.connection.reading
        assert b"PONG" not in source.take()
        world.settle()
        assert sids_by_payload(members) == {b"1": EVERYBODY, b"2": EVERYBODY}
        assert b"PONG" in source.take()
        assert source.connection.reading

    def test_each_subscription_gets_the_messages_of_a_publisher_in_order(
        self, world: World
    ) -> None:
        members, source = crowd_of(world, b"all"), world.modern()
        source.send(b"".join(b"PUB all 1\r\n%d\r\n" % number for number in range(5)))
        by_sid: dict[bytes, list[bytes]] = {}
        for sid, payload in copies(members):
            by_sid.setdefault(sid, []).append(payload)
        assert set(by_sid) == set(EVERYBODY)
        assert all(payloads == [b"0", b"1", b"2", b"3", b"4"] for payloads in by_sid.values())

    def test_two_publishers_take_turns(self, world: World) -> None:
        members, one, two = crowd_of(world, b"all"), world.modern(), world.modern()
        one.push(b"PUB all 1\r\n1\r\n")
        two.push(b"PUB all 1\r\n2\r\n")
        for _ in range(3):
            world.scheduler.run_turn()
        seen = sids_by_payload(members)
        assert len(seen[b"1"]) < MEMBERS
        assert abs(len(seen[b"1"]) - len(seen[b"2"])) <= SLICE

    def test_others_are_answered_meanwhile(self, world: World) -> None:
        crowd_of(world, b"all")
        source, other = world.modern(), world.modern()
        other.ask(b"PING\r\n")
        source.push(b"PUB all 1\r\nx\r\n" * 10)
        other.push(b"PING\r\n")
        world.scheduler.run_turn()
        world.scheduler.run_turn()
        assert other.take() == b"PONG\r\n"
        assert source.client.is_held_back


class TestMembers:
    def test_a_subscription_that_ended_meanwhile_gets_no_copy(self, world: World) -> None:
        members, source = crowd_of(world, b"all"), world.modern()
        source.push(b"PUB all 1\r\nx\r\n")
        members.push(b"UNSUB %d\r\n" % MEMBERS)
        world.settle()
        assert sids_by_payload(members) == {b"x": EVERYBODY[:-1]}

    def test_a_client_that_left_meanwhile_is_passed_over(self, world: World) -> None:
        members, source = crowd_of(world, b"all"), world.modern()
        source.push(b"PUB all 1\r\nx\r\n")
        members.connection.leave()
        world.settle()
        assert not source.client.is_held_back

    def test_a_publisher_that_left_has_its_message_delivered(self, world: World) -> None:
        members, source = crowd_of(world, b"all"), world.modern()
        source.push(b"PUB all 1\r\nx\r\n")
        source.connection.leave()
        world.settle()
        assert sids_by_payload(members) == {b"x": EVERYBODY}

    def test_a_requester_is_told_when_no_member_took_its_request(self, world: World) -> None:
        source = world.modern(echo=False)
        source.send(b"".join(b"SUB all %d\r\n" % sid for sid in range(1, MEMBERS + 1)))
        source.send(b"SUB back 0\r\nPUB all back 0\r\n\r\n")
        assert b"503" in source.take()


@pytest.fixture
def stored() -> StoredWorld:
    return StoredWorld().start()


class TestMessagesOfTheServer:
    def test_a_client_waits_for_the_reply_that_a_crowd_gets(self, stored: StoredWorld) -> None:
        members, source = crowd_of(stored, b"all"), stored.modern()
        source.push(b"PUB $JS.API.INFO all 0\r\n\r\n" * 2)
        assert source.client.is_held_back
        stored.settle()
        assert not source.client.is_held_back
        assert len(copies(members)) == 2 * MEMBERS

    def test_a_publisher_waits_until_a_crowd_has_the_republished_message(
        self, stored: StoredWorld
    ) -> None:
        stored.create("S", republish={"src": "s", "dest": "all"})
        members, source, other = crowd_of(stored, b"all"), stored.modern(), stored.modern()
        source.push(b"PUB s 0\r\n\r\n")
        stored.scheduler.run_turn()
        assert source.client.is_held_back
        assert not other.client.is_held_back
        stored.settle()
        assert not source.client.is_held_back
        assert members.take().count(b"HMSG all ") == MEMBERS

    def test_messages_of_a_stream_reach_a_crowd_in_order(self, stored: StoredWorld) -> None:
        stored.create("S", subjects=["s.*"])
        members, source = crowd_of(stored, b"all"), stored.modern()
        config = {"deliver_subject": "all", "durable_name": "D", "ack_policy": "none"}
        body = {"stream_name": "S", "config": config}
        answer = stored.request("$JS.API.CONSUMER.CREATE.S.D", body)
        assert "error" not in answer, json.dumps(answer)
        source.send(b"".join(b"PUB s.%d 1\r\n%d\r\n" % (n, n) for n in range(4)))
        stored.advance(1.0)
        by_sid: dict[bytes, list[bytes]] = {}
        for sid, payload in copies(members):
            by_sid.setdefault(sid, []).append(payload)
        assert set(by_sid) == set(EVERYBODY)
        assert all(payloads == [b"0", b"1", b"2", b"3"] for payloads in by_sid.values())

    def test_what_nobody_waits_for_is_bounded(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(crowd, "WAITING_MESSAGES_MAX", 3)
        members = crowd_of(world, b"all")
        account = members.client.account
        for number in range(3):
            world.node.broker.send(account, b"all", None, b"%d" % number)
        world.node.broker.buffers.flush()
        assert len(copies(members)) == SLICE
        world.node.broker.send(account, b"all", None, b"3")
        world.node.broker.buffers.flush()
        assert len(copies(members)) == MEMBERS - SLICE
        world.settle()
        assert sids_by_payload(members) == {b"1": EVERYBODY, b"2": EVERYBODY, b"3": EVERYBODY}
