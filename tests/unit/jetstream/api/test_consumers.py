"""The consumer API: replies to the byte, pages, and the errors of a failing store."""

import json

import pytest

from headwater.jetstream.api.consumer_documents import ConsumerCreateResponse
from headwater.jetstream.api.consumers import creation_header
from headwater.jetstream.api.documents import LIST_MAX, NAMES_MAX
from headwater.jetstream.api.operation import Request
from headwater.jetstream.config.consumer_config import ConsumerConfig
from headwater.store.log.message_log import StoreError
from tests.kit.api_world import BEGINNING_NS, ApiWorld

CREATED = "2027-01-15T08:00:00Z"
INFO = (
    '"stream_name":"S","name":"C","created":"%s","config":{"name":"C","deliver_policy":"all",'
    '"ack_policy":"none","max_deliver":-1,"replay_policy":"instant","max_waiting":512,'
    '"inactive_threshold":5000000000,"num_replicas":0,"metadata":{%s"_nats.req.level":"0"%s}},'
    '"delivered":{"consumer_seq":0,"stream_seq":0},"ack_floor":{"consumer_seq":0,"stream_seq":0},'
    '"num_ack_pending":0,"num_redelivered":0,"num_waiting":0,"num_pending":0,"ts":"%s"'
)
TOLD = INFO % (CREATED, '"_nats.level":"5",', ',"_nats.ver":"2.15.1"', CREATED)
LISTED = INFO % (CREATED, "", "", CREATED)
TYPE = '{"type":"io.nats.jetstream.api.v1.consumer_%s_response"'


def reply(kind: str, rest: str = "") -> bytes:
    return f"{TYPE % kind}{rest}}}".encode()


def refusal(kind: str, code: int, err_code: int, text: str, rest: str = "") -> bytes:
    error = f'"code":{code},"err_code":{err_code},"description":"{text}"'
    return reply(kind, f',"error":{{{error}}}{rest}')


def create_body(**config: object) -> bytes:
    return json.dumps({"stream_name": "S", "config": config}).encode()


def test_replies_that_describe_a_consumer() -> None:
    world = ApiWorld()
    assert world.ask_for_bytes("CONSUMER.CREATE.S.C", create_body()) == reply("create", f",{TOLD}")
    assert world.ask_for_bytes("CONSUMER.INFO.S.C") == reply("info", f",{TOLD}")
    assert world.ask_for_bytes("CONSUMER.RESET.S.C") == reply("reset", f',{TOLD},"reset_seq":1')
    pages = f',"total":1,"offset":0,"limit":{LIST_MAX},"consumers":[{{{LISTED}}}]'
    assert world.ask_for_bytes("CONSUMER.LIST.S") == reply("list", pages)


def test_replies_that_do_not() -> None:
    world = ApiWorld()
    world.create("C", priority_policy="pinned_client", priority_groups=["g"])
    pages = f',"total":1,"offset":0,"limit":{NAMES_MAX},"consumers":["C"]'
    assert world.ask_for_bytes("CONSUMER.NAMES.S") == reply("names", pages)
    assert world.ask_for_bytes("CONSUMER.UNPIN.S.C", b'{"group":"g"}') == reply("unpin")
    assert world.ask_for_bytes("CONSUMER.DELETE.S.C") == reply("delete", ',"success":true')


def test_errors_tell_nothing_else() -> None:
    world = ApiWorld()
    missing = (404, 10014, "consumer not found")
    assert world.ask_for_bytes("CONSUMER.INFO.S.C") == refusal("info", *missing)
    assert world.ask_for_bytes("CONSUMER.DELETE.S.C") == refusal("delete", *missing)
    pause = ',"paused":false,"pause_until":"0001-01-01T00:00:00Z"'
    assert world.ask_for_bytes("CONSUMER.PAUSE.S.C") == refusal("pause", *missing, pause)
    empty = ',"total":0,"offset":0,"limit":0,"consumers":[]'
    gone = (404, 10059, "stream not found")
    assert world.ask_for_bytes("CONSUMER.NAMES.T") == refusal("names", *gone, empty)
    world.create("C", deliver_policy="new")
    late = refusal("reset", 400, 10204, "invalid reset: not allowed", ',"reset_seq":0')
    assert world.ask_for_bytes("CONSUMER.RESET.S.C", b'{"seq":1}') == late


def test_a_pause_and_its_end() -> None:
    world = ApiWorld()
    world.create("C")
    body = b'{"pause_until":"2027-01-15T09:00:01+01:00"}'
    told = ',"paused":true,"pause_until":"2027-01-15T08:00:01Z","pause_remaining":1000000000'
    assert world.ask_for_bytes("CONSUMER.PAUSE.S.C", body) == reply("pause", told)
    world.now = BEGINNING_NS + 1_000_000_000
    over = ',"paused":false,"pause_until":"2027-01-15T08:00:01Z"'
    assert world.ask_for_bytes("CONSUMER.PAUSE.S.C", body) == reply("pause", over)
    resumed = ',"paused":false,"pause_until":"0001-01-01T00:00:00Z"'
    assert world.ask_for_bytes("CONSUMER.PAUSE.S.C") == reply("pause", resumed)
    assert world.stream.consumers.find("C").config.pause_until is None


def test_what_does_not_change_is_not_written() -> None:
    world = ApiWorld()
    world.create("C", ack_policy="explicit")
    assert world.changes == 1
    world.create("C", ack_policy="explicit")
    world.ask("CONSUMER.PAUSE.S.C")
    assert world.changes == 1
    world.create("C", ack_policy="explicit", description="d")
    assert world.changes == 2


def test_a_drawn_name_is_not_in_the_configuration() -> None:
    world = ApiWorld()
    world.create("drawn001")
    made = world.ask("CONSUMER.CREATE.S", create_body())
    assert made is not None
    assert made["name"] == "drawn002"
    assert "name" not in made["config"]
    assert world.stream.consumers.find("drawn002").config.name == ""


def test_a_name_that_is_no_text() -> None:
    world = ApiWorld()
    name = b"a\xff".decode(errors="surrogateescape")
    made = world.ask(f"CONSUMER.CREATE.S.{name}", create_body())
    assert made is not None
    assert made["name"] == "a\ufffd"
    found = world.ask(f"CONSUMER.INFO.S.{name}")
    assert found is not None
    assert found["name"] == "a\ufffd"


@pytest.mark.parametrize(("call", "page"), [("NAMES", NAMES_MAX), ("LIST", LIST_MAX)])
def test_pages(call: str, page: int) -> None:
    world = ApiWorld()
    for number in range(page + 1):
        world.create(f"{number:05}")
    first = world.ask(f"CONSUMER.{call}.S")
    rest = world.ask(f"CONSUMER.{call}.S", b'{"offset":%d}' % page)
    assert first is not None
    assert rest is not None
    assert (first["total"], len(first["consumers"])) == (page + 1, page)
    assert (rest["offset"], len(rest["consumers"])) == (page, 1)


def test_the_account_counts_its_consumers() -> None:
    world = ApiWorld()
    world.create("C")
    world.create("D", direct=True, deliver_subject="d")
    info = world.ask("INFO")
    assert info is not None
    assert info["consumers"] == 2


@pytest.mark.parametrize(
    ("call", "body", "code", "text"),
    [
        ("CREATE.S.N", create_body(), 10012, "error creating store for consumer"),
        ("CREATE.S.C", create_body(description="d"), 10012, "disk is full"),
        ("DELETE.S.C", b"", 10051, "disk is full"),
        (
            "PAUSE.S.C",
            b'{"pause_until":"2056-01-01T00:00:00Z"}',
            10104,
            "error creating store for consumer: disk is full",
        ),
        ("UNPIN.S.C", b'{"group":"g"}', 10194, "stream is offline: disk is full"),
        ("RESET.S.C", b"", 10194, "stream is offline: disk is full"),
    ],
)
def test_the_store_fails(call: str, body: bytes, code: int, text: str) -> None:
    world = ApiWorld()
    groups = {"priority_policy": "pinned_client", "priority_groups": ["g"]}
    world.create("C", **groups)
    if call == "CREATE.S.C":
        body = create_body(**groups, description="d")
    world.failure = StoreError("disk is full")
    told = world.ask(f"CONSUMER.{call}", body)
    assert told is not None
    assert (told["error"]["err_code"], told["error"]["description"]) == (code, text)


def test_reset_where_nobody_is() -> None:
    world = ApiWorld()
    assert world.ask_for_bytes("CONSUMER.RESET.S.C") is None
    assert world.ask_for_bytes("CONSUMER.RESET.T.C") is None


def test_reset_not_below_a_start_time() -> None:
    world = ApiWorld()
    world.create("C", deliver_policy="by_start_time", opt_start_time="2056-01-01T00:00:00Z")
    world.stream.log.skip(3, BEGINNING_NS)
    world.stream.visible_sequence = 3
    told = world.ask("CONSUMER.RESET.S.C", b'{"seq":2}')
    assert told is not None
    assert told["error"]["description"] == "invalid reset: below start time"


# --- the identity of a stream -------------------------------------------------------------------

# The identity that nats-server derives from the creation time of the stream.
IDENTITY = "Nats-Stream-Identity: 7cbqSBBM"
SERVERS_OWN = create_body(direct=True, deliver_subject="d")


def header(identity: str) -> bytes:
    return f"NATS/1.0\r\nNats-Stream-Identity: {identity}\r\n\r\n".encode()


def test_whoever_copies_a_stream_is_told_which_it_is() -> None:
    world = ApiWorld()
    told, block = world.ask_with_header("CONSUMER.CREATE.S.D", SERVERS_OWN, b"")
    assert "error" not in told
    assert block == f"NATS/1.0\r\n{IDENTITY}\r\n\r\n".encode()
    assert world.ask_with_header("CONSUMER.CREATE.S.C", create_body(), header("other"))[1] == b""


def test_another_stream_of_the_same_name_is_refused() -> None:
    world = ApiWorld()
    told, block = world.ask_with_header("CONSUMER.CREATE.S.D", SERVERS_OWN, header("other"))
    assert told["error"] == {
        "code": 400,
        "err_code": 10225,
        "description": f"consumer's stream identity does not match: {IDENTITY[-8:]}",
    }
    assert block == b""
    known = header(IDENTITY[-8:])
    assert "error" not in world.ask_with_header("CONSUMER.CREATE.S.D", SERVERS_OWN, known)[0]


def test_a_reset_that_names_a_stream_is_told_which_it_is() -> None:
    world = ApiWorld()
    world.create("C")
    assert world.ask_with_header("CONSUMER.RESET.S.C", b"", b"")[1] == b""
    told, block = world.ask_with_header("CONSUMER.RESET.S.C", b"", header("other"))
    assert "error" not in told
    assert IDENTITY.encode() in block


def test_a_stream_that_is_gone_is_not_told_of() -> None:
    world = ApiWorld()
    made = ConsumerCreateResponse(config=ConsumerConfig(direct=True))
    request = Request(["T", "D"], b"", lambda: None)
    assert creation_header(world.api, request, made) == b""
