"""The lines that a trace shows of a client's protocol, and the secrets it never shows."""

import pytest

from tests.kit.world import World
from tests.unit.server.conftest import MakeWorld


def traced(world: World) -> list[str]:
    """The trace lines so far, without pid and client."""
    lines = [line for line in world.log_lines if "[TRC]" in line]
    world.log_lines.clear()
    return [line.rstrip("\n").split(" - ")[-1] for line in lines]


@pytest.fixture
def tracing(make_world: MakeWorld) -> World:
    return make_world(trace=True)


def test_every_operation_is_a_line(tracing: World) -> None:
    peer = tracing.modern()
    traced(tracing)
    peer.send(b"SUB foo.* 1\r\nSUB foo q 2\r\nUNSUB 1 5\r\nUNSUB 2\r\nPING\r\nPONG\r\n")
    received = [line for line in traced(tracing) if line.startswith("<<- ")]
    assert received == [
        "<<- [SUB foo.* 1]",
        "<<- [SUB foo q 2]",
        "<<- [UNSUB 1 5]",
        "<<- [UNSUB 2]",
        "<<- [PING]",
        "<<- [PONG]",
    ]


@pytest.mark.parametrize("count", [1, 4])
def test_messages_show_their_line_and_payload(tracing: World, count: int) -> None:
    peer = tracing.modern()
    traced(tracing)
    peer.send(b'PUB foo bar 7\r\nhi\x00"\\\r\n\r\n' * count)
    expected = ["<<- [PUB foo bar 7]", r'<<- MSG_PAYLOAD: ["hi\x00\"\\\r\n"]']
    assert [line for line in traced(tracing) if line.startswith("<<- ")] == expected * count


def test_long_payloads_are_cut(make_world: MakeWorld) -> None:
    world = make_world(trace=True, max_traced_msg_len=3)
    peer = world.modern()
    traced(world)
    peer.send(b"PUB foo 3\r\nabc\r\nPUB foo 5\r\nabcde\r\n")
    payloads = [line for line in traced(world) if "MSG_PAYLOAD" in line]
    assert payloads == ['<<- MSG_PAYLOAD: ["abc"]', '<<- MSG_PAYLOAD: ["abc..."]']


@pytest.mark.parametrize(
    "document",
    [
        b'{"user":"me","pass":"s3cret"}',
        b'{"auth_token":"s3cret","name":"n"}',
        b'{"PASS" : "s3cret"}',
        b'{"pass":"with \\"s3cret\\" inside"}',
        b'{"jwt":"s3cret","sig":"s3cret","nkey":"s3cret"}',
        b'{"p\\u0061ss":"s3cret"}',
        b'{"pass":"s3cret"',
    ],
)
def test_secrets_are_not_shown(tracing: World, document: bytes) -> None:
    peer = tracing.open()
    peer.send(b"CONNECT %b\r\n" % document)
    assert "s3cret" not in "".join(tracing.log_lines)


def test_what_is_not_secret_is_shown(tracing: World) -> None:
    tracing.connect(b'{"user":"me","pass":"x","name":"app"}')
    [line] = [line for line in traced(tracing) if "CONNECT" in line]
    assert line == '<<- [CONNECT {"user":"me","pass":"[REDACTED]","name":"app"}]'


def test_nothing_is_traced_unless_asked_for(world: World) -> None:
    world.modern().send(b"SUB foo 1\r\nPUB foo 1\r\nx\r\n")
    assert traced(world) == []
