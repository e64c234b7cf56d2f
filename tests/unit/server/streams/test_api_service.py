"""The API of streams in a server: keys of replies, advisories, and limits of accounts."""

import json
from typing import Any, Final

import pytest

from headwater.jetstream.account import AccountLimits
from headwater.jetstream.config.stream_config import Storage
from headwater.server.configuration.options import AccountOptions, Options, UserOptions
from tests.kit.stored_world import StoredWorld, streaming
from tests.kit.world import Peer

API: Final = "$JS.API."

# The keys that the strictest client knows (nats-jetstream with `strict=True`): any other key would
# be an error to it. Replies carry no other while our own settings are unset.
CONFIG_KEYS: Final = frozenset(
    [
        "name",
        "description",
        "subjects",
        "retention",
        "max_consumers",
        "max_msgs",
        "max_bytes",
        "max_age",
        "max_msgs_per_subject",
        "max_msg_size",
        "discard",
        "discard_new_per_subject",
        "storage",
        "num_replicas",
        "no_ack",
        "duplicate_window",
        "placement",
        "mirror",
        "sources",
        "compression",
        "first_seq",
        "subject_transform",
        "republish",
        "allow_direct",
        "mirror_direct",
        "sealed",
        "deny_delete",
        "deny_purge",
        "allow_rollup_hdrs",
        "consumer_limits",
        "allow_msg_ttl",
        "subject_delete_marker_ttl",
        "allow_msg_counter",
        "allow_atomic",
        "allow_msg_schedules",
        "persist_mode",
        "allow_batched",
        "metadata",
    ]
)
INFO_KEYS: Final = frozenset(
    [
        "type",
        "config",
        "created",
        "state",
        "ts",
        "cluster",
        "mirror",
        "sources",
        "did_create",
        "alternates",
        "limit",
        "offset",
        "total",
    ]
)
STATE_KEYS: Final = frozenset(
    [
        "messages",
        "bytes",
        "first_seq",
        "last_seq",
        "first_ts",
        "last_ts",
        "consumer_count",
        "deleted",
        "num_deleted",
        "subjects",
        "num_subjects",
        "lost",
    ]
)
ACCOUNT_KEYS: Final = frozenset(
    [
        "memory",
        "storage",
        "reserved_memory",
        "reserved_storage",
        "streams",
        "consumers",
        "limits",
        "api",
        "domain",
        "tiers",
        "type",
    ]
)
LIMIT_KEYS: Final = frozenset(AccountLimits.__struct_fields__)
OURS: Final = ("read_consistency", "write_consistency", "ack_timeout", "max_staleness")

EVERYTHING: Final = {
    "description": "all of it",
    "max_msgs_per_subject": 3,
    "max_age": 10**12,
    "duplicate_window": 10**11,
    "placement": {"cluster": "c"},
    "first_seq": 5,
    "subject_transform": {"src": "full", "dest": "filled"},
    "republish": {"src": "filled", "dest": "again"},
    "allow_msg_ttl": True,
    "allow_atomic": True,
    "allow_batched": True,
    "allow_rollup_hdrs": True,
    "allow_direct": True,
    "allow_msg_schedules": True,
    "subject_delete_marker_ttl": 10**9,
    "metadata": {"a": "b"},
}


@pytest.fixture
def stored() -> StoredWorld:
    return StoredWorld().start()


def check_info(info: dict[str, Any]) -> None:
    assert set(info) <= INFO_KEYS
    assert set(info["config"]) <= CONFIG_KEYS
    assert set(info["state"]) <= STATE_KEYS
    assert set(info.get("cluster", ())) <= {"leader"}


@pytest.mark.parametrize("config", [{}, EVERYTHING, {"storage": "memory", "no_ack": True}])
def test_replies_carry_no_key_that_the_strictest_client_does_not_know(
    stored: StoredWorld, config: dict[str, Any]
) -> None:
    check_info(stored.create("FULL", **config))
    asked = {"name": "FULL", "subjects": ["full"], **config}
    check_info(stored.request(f"{API}STREAM.UPDATE.FULL", asked))
    details = {"deleted_details": True, "subjects_filter": ">"}
    stored.modern().ask(b"PUB full 1\r\nx\r\n")
    check_info(stored.request(f"{API}STREAM.INFO.FULL", details))
    for info in stored.request(f"{API}STREAM.LIST")["streams"]:
        check_info(info)
    account = stored.request(f"{API}INFO")
    assert set(account) <= ACCOUNT_KEYS
    assert set(account["limits"]) <= LIMIT_KEYS
    assert set(account["api"]) <= {"total", "errors", "level"}


def test_our_own_settings_are_in_replies_once_they_are_set(stored: StoredWorld) -> None:
    config = stored.create("OURS", read_consistency="strong", ack_timeout=1)["config"]
    assert {key for key in OURS if key in config} == {"read_consistency", "ack_timeout"}


# --- advisories -------------------------------------------------------------------------------


def frames_of(peer: Peer) -> list[tuple[str, dict[str, Any]]]:
    """The subjects and documents of the messages that a listening peer has got."""
    lines = peer.take().split(b"\r\n")
    heads = [line for line in lines if line.startswith(b"MSG ")]
    bodies = [line for line in lines if line.startswith(b"{")]
    return [
        (head.split(b" ")[1].decode(), json.loads(body))
        for head, body in zip(heads, bodies, strict=True)
    ]


def test_those_who_listen_are_told_of_actions_and_calls(stored: StoredWorld) -> None:
    listener = stored.modern()
    listener.send(b"SUB $JS.EVENT.ADVISORY.> 1\r\n")
    stored.create("S")
    told = frames_of(listener)
    assert [subject for subject, _ in told] == [
        "$JS.EVENT.ADVISORY.STREAM.CREATED.S",
        "$JS.EVENT.ADVISORY.API",
    ]
    action, audit = (document for _, document in told)
    assert [*action] == ["type", "id", "timestamp", "stream", "action"]
    assert [*audit] == [
        "type",
        "id",
        "timestamp",
        "server",
        "client",
        "subject",
        "request",
        "response",
    ]
    assert audit["subject"] == f"{API}STREAM.CREATE.S"
    assert json.loads(audit["response"])["did_create"] is True
    assert action["id"] != audit["id"]


def test_a_stream_can_keep_what_is_told(stored: StoredWorld) -> None:
    stored.create("EVENTS", subjects=["$JS.EVENT.ADVISORY.STREAM.>"])
    stored.create("S")
    stored.request(f"{API}STREAM.DELETE.S")
    state = stored.request(f"{API}STREAM.INFO.EVENTS", {"subjects_filter": ">"})["state"]
    assert sorted(state["subjects"]) == [
        f"$JS.EVENT.ADVISORY.STREAM.{event}"
        for event in ("CREATED.EVENTS", "CREATED.S", "DELETED.S")
    ]


# --- totals and limits of accounts ------------------------------------------------------------


def limited(limits: AccountLimits) -> StoredWorld:
    """A server whose clients are in an account with limits."""
    user = UserOptions(username="u", password="p", account_name="A")
    account = AccountOptions(name="A", users=(user,), jetstream=limits)
    options = Options(accounts=(account,), no_auth_user="u", jetstream=streaming())
    return StoredWorld(options).start()


def test_totals_follow_what_streams_hold(stored: StoredWorld) -> None:
    for name, kind in (("F", "file"), ("M", "memory")):
        stored.create(name, storage=kind, max_bytes=1000)
        stored.request(name.lower(), "payload")
    account = stored.node.jetstream and stored.node.jetstream.accounts["$G"]
    assert account
    for storage in Storage:
        held = [
            stream.log.byte_count
            for stream in account.streams.values()
            if stream.config.storage is storage
        ]
        assert account.used_bytes(storage) == sum(held) > 0
        assert account.reserved_bytes(storage) == 1000
    stored.request(f"{API}STREAM.PURGE.M")
    stored.request(f"{API}STREAM.DELETE.F")
    reply = stored.request(f"{API}INFO")
    assert [reply[key] for key in ("memory", "storage", "reserved_memory", "reserved_storage")] == [
        0,
        0,
        1000,
        0,
    ]


def test_a_publish_beyond_what_the_account_may_store_is_refused() -> None:
    world = limited(AccountLimits(max_storage=200))
    world.create("S")
    acks = [world.request("s", "x" * 40) for _ in range(3)]
    assert [ack.get("error", {}).get("err_code") for ack in acks] == [None, None, 10002]


def test_streams_are_counted_by_name() -> None:
    world = limited(AccountLimits(max_streams=1))
    assert "error" not in world.create("S")
    assert "error" not in world.create("S")
    assert world.create("T")["error"]["err_code"] == 10027


def test_totals_are_right_again_after_a_restart() -> None:
    world = StoredWorld().start()
    world.create("S", max_bytes=500)
    world.request("s", "x")
    before = world.request(f"{API}INFO")
    after = world.after_restart().start().request(f"{API}INFO")
    for key in ("storage", "reserved_storage", "streams"):
        assert after[key] == before[key] > 0
