"""The handshake of two servers, and everybody else who is refused by name."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from headwater.base.errors import PeerError
from headwater.server.cluster.handshake import (
    Credentials,
    Handshake,
    Progress,
    Refusal,
    RefusedByPeer,
    agreed_name,
)
from headwater.wire.peer_info import (
    Admitted,
    Error,
    PeerConnect,
    PeerInfo,
    Purpose,
    read_line,
)

ONE = PeerInfo(server_id="NONE", server_name="one", cluster="C", link=2)
TWO = PeerInfo(server_id="NTWO", server_name="two", cluster="C", link=2)
CONNECT = PeerConnect(name="NTWO", cluster="C", link=2)


def lines(data: bytes) -> list[Any]:
    return [read_line(line) for line in data.split(b"\r\n") if line]


def changed(document: Any, **fields: object) -> Any:
    return msgspec.structs.replace(document, **fields)


def accepting(required: Credentials | None = None, own: PeerInfo = ONE) -> Handshake:
    return Handshake(own, required or Credentials())


def dialling(own: PeerInfo = TWO, **credentials: str) -> Handshake:
    return Handshake(own, Credentials(), Purpose.CONSENSUS, Credentials(**credentials))


class TestALogin:
    def test_holds_for_the_credentials_that_were_given(self) -> None:
        handshake = accepting(Credentials("u", "p"))
        assert not handshake.is_logged_in(Credentials())
        handshake.receive(changed(CONNECT, user="u", password="p"))
        given = [Credentials("u", "p"), Credentials("u", "q"), Credentials("v", "p"), Credentials()]
        assert [handshake.is_logged_in(each) for each in given] == [True, False, False, True]


class TestTwoServers:
    def test_meet_and_admit_each_other(self) -> None:
        one, two = accepting(), dialling()
        assert two.begin() == b""
        for document in lines(one.begin()):
            two.receive(document)
        states = [two.progress]
        for document in lines(two.admit()):
            one.receive(document)
        states.append(one.progress)
        for document in lines(one.admit()):
            two.receive(document)
        assert states == [Progress.MET, Progress.MET]
        assert [one.progress, two.progress] == [Progress.OPEN, Progress.OPEN]
        assert one.peer == TWO
        assert two.peer == ONE
        assert one.purpose is two.purpose is Purpose.CONSENSUS

    def test_of_which_the_dialling_one_gives_its_credentials(self) -> None:
        one, two = accepting(Credentials("a", "b")), dialling(username="a", password="b")
        for document in lines(one.begin()):
            two.receive(document)
        for document in lines(two.admit()):
            one.receive(document)
        assert one.progress is Progress.MET


@pytest.mark.parametrize(
    ("connect", "reason"),
    [
        (changed(CONNECT, lang="python3"), "attempted to connect to route port"),
        (
            changed(CONNECT, link=0),
            "Rejecting connection, a nats-server cannot join a cluster of Headwater servers",
        ),
        (
            changed(CONNECT, link=9),
            "Rejecting connection, links of version 9 are not known, this server has version 2",
        ),
        (
            changed(CONNECT, cluster="D"),
            'Rejecting connection, cluster name "D" does not match "C"',
        ),
        (changed(CONNECT, purpose="gossip"), 'unknown purpose "gossip" of a connection'),
    ],
)
def test_a_connect_that_is_refused_by_name(connect: PeerConnect, reason: str) -> None:
    with pytest.raises(Refusal) as caught:
        accepting().receive(connect)
    assert caught.value.reply == reason


@pytest.mark.parametrize("given", [("", ""), ("a", ""), ("a", "c"), ("b", "b")])
def test_wrong_credentials(given: tuple[str, str]) -> None:
    required = Credentials("a", "b")
    with pytest.raises(Refusal, match="Authorization Violation"):
        accepting(required).receive(changed(CONNECT, user=given[0], password=given[1]))
    assert "'b'" not in repr(replace(required))


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        (changed(TWO, client_id=5), "attempted to connect to wrong port"),
        (
            changed(TWO, link=0),
            'Rejecting connection, nats-server "two" (2.15.1) '
            "cannot join a cluster of Headwater servers",
        ),
        (changed(TWO, link=3), "Rejecting connection, links of version 3 are not known, "),
        (changed(TWO, cluster="D"), 'cluster name "D" does not match "C"'),
        (changed(TWO, server_name=""), "INFO of a server has no id or no name"),
    ],
)
def test_a_server_that_the_dialling_one_refuses(info: PeerInfo, reason: str) -> None:
    with pytest.raises(PeerError) as caught:
        dialling(ONE).receive(info)
    assert reason in caught.value.reply


def test_documents_out_of_order() -> None:
    with pytest.raises(Refusal, match="Authorization Violation"):
        accepting().receive(TWO)
    with pytest.raises(Refusal, match="unexpected CONNECT"):
        dialling().receive(CONNECT)
    with pytest.raises(Refusal, match="unexpected \\+OK"):
        accepting().receive(Admitted())
    twice = accepting()
    twice.receive(CONNECT)
    with pytest.raises(Refusal, match="unexpected CONNECT"):
        twice.receive(CONNECT)


def test_a_refusal_by_the_other_end_is_told_apart() -> None:
    with pytest.raises(RefusedByPeer, match="no"):
        dialling().receive(Error("no"))


@pytest.mark.parametrize(
    ("own", "other", "agreed"),
    [
        (("C", False), ("C", False), "C"),
        (("C", False), ("D", False), None),
        (("C", False), ("x", True), "C"),
        (("x", True), ("C", False), "C"),
        (("x", True), ("y", True), "y"),
        (("y", True), ("x", True), "y"),
    ],
)
def test_a_name_that_was_made_up_gives_way(
    own: tuple[str, bool], other: tuple[str, bool], agreed: str | None
) -> None:
    assert agreed_name(*own, *other) == agreed
