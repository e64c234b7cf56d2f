"""The subscription, turns, deadline and advisories that snapshots and restores share."""

import json
from typing import Any, Final

import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream.advisories import RestoreCompleteAdvisory, RestoreCreateAdvisory
from headwater.server.core.client import Client
from headwater.server.core.own_subscriptions import OwnSubscriptions, own_client
from headwater.server.streams.advisories import Advisories, ServerTitle
from headwater.server.streams.backups.exchange import Exchange, TransferServer
from tests.kit.stored_world import StoredWorld

SUBJECT: Final = b"$JS.SNAPSHOT.RESTORE.S.1"


class Transfer:
    """An exchange in the default account of a server without streams."""

    def __init__(self) -> None:
        self.world = StoredWorld()
        node = self.world.node
        environment = node.environment
        title = ServerTitle("server", "ID", "hub")
        broker, accounts = node.broker, node.accounts
        self.exchange = Exchange(
            TransferServer(
                environment.clock,
                environment.entropy,
                environment.scheduler,
                broker,
                node.log,
                OwnSubscriptions(lambda account: own_client(node.roster.next_cid(), account)),
                Advisories(title, accounts, broker, environment.clock, environment.entropy),
                title.domain,
            ),
            accounts.default,
            "S",
            None,
        )
        # Each event of the transfer, in order.
        self.events: list[object] = []

    def note(self) -> None:
        self.events.append("called")

    def handle(
        self,
        source: Client | None,
        subject: bytes,
        reply: bytes | None,
        header_size: int,
        payload: bytes,
    ) -> None:
        self.events.append(payload)

    def deadline_in(self, seconds: float) -> int:
        return self.world.node.environment.clock.monotonic_ns() + round(seconds * NS_PER_S)


@pytest.fixture
def transfer() -> Transfer:
    return Transfer()


def test_a_turn_that_is_planned_is_not_planned_again(transfer: Transfer) -> None:
    for _ in range(3):
        transfer.exchange.plan_turn(transfer.note)
    transfer.world.advance(0)
    assert transfer.events == ["called"]
    transfer.exchange.plan_turn(transfer.note)
    transfer.world.advance(0)
    assert transfer.events == ["called"] * 2


def test_a_turn_may_be_planned_for_later(transfer: Transfer) -> None:
    transfer.exchange.plan_turn(transfer.note, 2)
    transfer.world.advance(1.9)
    assert transfer.events == []
    transfer.world.advance(0.2)
    assert transfer.events == ["called"]


@pytest.mark.parametrize("in_s", [0.5, -1])
def test_a_deadline_is_met_once(transfer: Transfer, in_s: float) -> None:
    transfer.exchange.set_deadline(transfer.deadline_in(in_s), transfer.note)
    assert transfer.exchange.has_deadline
    transfer.world.advance(1)
    assert transfer.events == ["called"]
    assert not transfer.exchange.has_deadline


def test_messages_on_its_subject_are_handled(transfer: Transfer) -> None:
    transfer.exchange.subscribe(SUBJECT, transfer.handle)
    transfer.world.modern().send(b"PUB %b 5\r\nchunk\r\n" % SUBJECT)
    assert transfer.events == [b"chunk"]


def test_a_closed_exchange_does_nothing_more(transfer: Transfer) -> None:
    exchange = transfer.exchange
    exchange.subscribe(SUBJECT, transfer.handle)
    exchange.plan_turn(transfer.note)
    exchange.set_deadline(transfer.deadline_in(1), transfer.note)
    exchange.close()
    exchange.close()
    transfer.world.modern().send(b"PUB %b 5\r\nchunk\r\n" % SUBJECT)
    transfer.world.advance(5)
    assert transfer.events == []
    assert not exchange.has_deadline


def test_each_transfer_has_a_subject_of_its_own(transfer: Transfer) -> None:
    subjects = {transfer.exchange.new_subject("P") for _ in range(9)}
    assert len(subjects) == 9
    assert all(subject.startswith("P.S.") for subject in subjects)


def advised(transfer: Transfer) -> list[dict[str, Any]]:
    """The advisories of the beginning and the end, three seconds apart."""
    peer = transfer.world.modern()
    peer.send(b"SUB $JS.EVENT.ADVISORY.> 1\r\n")
    peer.take()
    transfer.exchange.advise("RESTORE_CREATE", RestoreCreateAdvisory)
    transfer.world.advance(3)
    transfer.exchange.advise_end("RESTORE_COMPLETE", RestoreCompleteAdvisory, bytes=17)
    peer.send(b"PING\r\n")
    lines = peer.take().split(b"\r\n")
    return [json.loads(line) for line in lines if line.startswith(b"{")]


def test_advisories_name_stream_and_domain(transfer: Transfer) -> None:
    begun, ended = advised(transfer)
    assert (begun["stream"], begun["domain"]) == ("S", "hub")
    assert (ended["stream"], ended["domain"], ended["bytes"]) == ("S", "hub", 17)
    assert begun["id"] != ended["id"]


def test_the_advisory_of_the_end_has_the_time_of_the_beginning(transfer: Transfer) -> None:
    begun, ended = advised(transfer)
    assert ended["start"] == begun["timestamp"]
    assert ended["end"] == ended["timestamp"]
    assert ended["start"] != ended["end"]
