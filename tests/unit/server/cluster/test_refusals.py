"""Refusals are logged once for each address and reason."""

from headwater.server.cluster.channel import Channel
from headwater.server.cluster.handshake import Credentials, Handshake
from headwater.server.cluster.refusals import (
    LOGGED_CHARS_MAX,
    REASON_CHARS_MAX,
    REFUSALS_MAX,
    Refusals,
)
from headwater.server.cluster.targets import Target
from headwater.server.core.own_subscriptions import ServerConnection
from headwater.server.log import Log
from headwater.wire.peer_info import PeerInfo
from tests.kit.world import ManualClock


def channel_to(host: str) -> Channel:
    target = Target(host, 1, Credentials(), is_configured=True)
    return Channel(1, ServerConnection(), Handshake(PeerInfo(), Credentials()), target)


def errors(*reports: tuple[str, str], succeeds: str = "") -> list[str]:
    lines: list[str] = []
    log = Log(lambda line: lines.append(line.decode()), ManualClock(), pid=1)
    refusals = Refusals(log)
    for host, reason in reports:
        refusals.report(channel_to(host), reason)
        if host == succeeds:
            refusals.forget(channel_to(host))
    return [line.rpartition(" - ")[2].strip() for line in lines]


def test_a_reason_is_logged_once_for_an_address() -> None:
    assert errors(("a", "no"), ("a", "no"), ("b", "no")) == ["no", "no"]


def test_each_of_several_reasons_is_logged_once_for_an_address() -> None:
    assert errors(*[("a", "no"), ("a", "never")] * 3) == ["no", "never"]


def test_a_reason_is_logged_again_after_a_success() -> None:
    assert errors(("a", "no"), ("a", "no"), succeeds="a") == ["no", "no"]


def test_a_success_leaves_the_reasons_of_other_addresses() -> None:
    reports = ("b", "no"), ("a", "no"), ("b", "no"), ("a", "never")
    assert errors(*reports, succeeds="a") == ["no", "no", "never"]


def test_long_reasons_are_told_apart_by_their_beginnings() -> None:
    start = "n" * REASON_CHARS_MAX
    assert len(errors(("a", start), ("a", start + "o"), ("a", start[1:] + "o"))) == 2


def test_a_reason_of_another_server_is_one_bounded_line_of_printable_characters() -> None:
    (line,) = errors(("a", "no\n[1] [INF] \x1b[2J" + "n" * 70_000))
    assert line.startswith("no?[1] [INF] ?[2Jn")
    assert len(line) == LOGGED_CHARS_MAX


def test_the_reasons_that_are_remembered_are_bounded() -> None:
    kept = [("a", f"no {number}") for number in range(REFUSALS_MAX)]
    assert len(errors(*kept, *kept)) == len(kept)
    many = [(f"h{number}", "no") for number in range(REFUSALS_MAX + 1)]
    assert len(errors(*many, ("h0", "no"))) == len(many) + 1
