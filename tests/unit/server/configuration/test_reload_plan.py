"""The settings that a running server takes over from a changed configuration."""

from dataclasses import fields, replace
from typing import Any

import pytest

from headwater.server.configuration.options import (
    AccountOptions,
    JetStreamOptions,
    Options,
    StoreCipher,
    TlsOptions,
    UserOptions,
)
from headwater.server.configuration.reload_plan import (
    JETSTREAM_NEEDS_RESTART,
    NEEDS_RESTART,
    RELOADED,
    changed_options,
)

ALICE = UserOptions("alice", "secret")


@pytest.mark.parametrize(
    ("new", "line"),
    [
        (Options(max_payload=1024), "max_payload = 1024"),
        (Options(max_control_line=1024), "max_control_line = 1024"),
        (Options(max_connections=5), "max_connections = 5"),
        (Options(max_subscriptions=5), "max_subscriptions = 5"),
        (Options(max_pending=2**21), "max_pending = 2097152"),
        (Options(ping_interval_s=90), "ping_interval = 1m30s"),
        (Options(ping_max=3), "ping_max = 3"),
        (Options(write_deadline_s=0.5), "write_deadline = 500ms"),
        (Options(auth_timeout_s=1.0), "authorization timeout = 1"),
        (Options(lame_duck_duration_s=60), "lame_duck_duration = 1m0s"),
        (Options(debug=True), "debug = true"),
        (Options(trace=True), "trace = true"),
        (Options(logtime=False), "logtime = false"),
        (Options(log_file="a.log"), "log_file = a.log"),
        (Options(pid_file="a.pid"), "pid_file = a.pid"),
        (Options(server_tags=("a",)), "tags"),
        (Options(server_metadata={"a": "b"}), "metadata"),
        (Options(username="a"), "authorization username"),
        (Options(token="a"), "authorization token"),
        (Options(users=(ALICE,)), "authorization users"),
        (Options(accounts=(AccountOptions("A"),)), "accounts"),
        (Options(no_fast_producer_stall=True), "fast producers will not be stalled"),
    ],
)
def test_what_is_taken_over_and_what_the_log_says(new: Options, line: str) -> None:
    plan = changed_options(Options(), new)
    assert plan.error == ""
    assert plan.options is new or plan.options == new
    assert plan.changes == (line,)


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (Options(port=4333), "Port: old=4222, new=4333"),
        (Options(host="127.0.0.1"), "Host: old=0.0.0.0, new=127.0.0.1"),
        (Options(http_port=8222), "HTTPPort: old=0, new=8222"),
        (Options(server_name="a"), "ServerName: old=, new=a"),
        (Options(no_header_support=True), "NoHeaderSupport: old=false, new=true"),
        (
            Options(system_account="A", accounts=(AccountOptions("A"),)),
            "SystemAccount: old=$SYS, new=A",
        ),
        (
            Options(jetstream=JetStreamOptions(enabled=True)),
            "JetStream: old=false, new=true",
        ),
        (
            Options(users=(ALICE,), no_auth_user="alice"),
            "NoAuthUser: old=, new=alice",
        ),
    ],
)
def test_what_needs_a_restart(new: Options, reason: str) -> None:
    old = Options()
    plan = changed_options(old, new)
    assert plan.error == f"config reload not supported for {reason}"
    assert plan.options is old
    assert plan.changes == ()


def test_nothing_changes_when_one_of_many_changes_needs_a_restart() -> None:
    plan = changed_options(Options(), Options(debug=True, port=4333))
    assert not plan.options.debug


def test_nothing_changes_when_the_new_options_contradict_each_other() -> None:
    plan = changed_options(Options(), Options(username="a", token="b"))
    assert plan.error == "Cannot have a user/pass and token"


def test_the_no_auth_user_may_go_together_with_the_user() -> None:
    old = Options(users=(ALICE,), no_auth_user="alice")
    assert changed_options(old, Options()).error == ""
    assert changed_options(old, replace(old, no_auth_user="")).error == (
        "config reload not supported for NoAuthUser: old=alice, new="
    )


def test_a_server_on_a_free_port_keeps_it() -> None:
    running = Options(port=40123, http_port=40124)
    plan = changed_options(running, Options(port=-1, http_port=-1, debug=True))
    assert plan.error == ""
    assert (plan.options.port, plan.options.http_port) == (40123, 40124)
    assert plan.changes == ("debug = true",)


def test_the_number_of_pinned_keys_is_told() -> None:
    old = Options(tls=TlsOptions())
    pinned = Options(tls=TlsOptions(pinned_keys=frozenset({"a" * 64})))
    assert changed_options(old, pinned).changes == ("1 pinned_certs",)


def test_an_unchanged_configuration_changes_nothing() -> None:
    plan = changed_options(Options(), Options(config_digest="sha256:1"))
    assert (plan.error, plan.changes) == ("", ())


def test_every_field_is_either_taken_over_or_needs_a_restart() -> None:
    quiet = {"config_digest", "default_permissions", "has_authorization"}
    names = {field.name for field in fields(Options)}
    assert set(RELOADED) | set(NEEDS_RESTART) | quiet | {"cluster", "jetstream", "tls"} == names


STREAMING = JetStreamOptions(
    enabled=True, store_dir="a", max_memory_bytes=1000, max_file_bytes=1000
)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"enabled": False}, "JetStream: old=true, new=false"),
        ({"store_dir": "b"}, "jetstream storage directory"),
        ({"store_dir": ""}, "jetstream storage dir"),
        ({"max_memory_bytes": 999}, "decreasing jetstream max memory and store"),
        ({"max_file_bytes": -1}, "jetstream max memory and max store"),
        ({"domain": "hub"}, "JetStreamDomain: old=, new=hub"),
        ({"strict": False}, "JetStreamStrict: old=true, new=false"),
        ({"cipher": StoreCipher.AES}, "JetStreamCipher: old=ChaCha20-Poly1305, new=AES-GCM"),
        ({"encryption_key": "secret"}, "JetStreamKey"),
        ({"previous_encryption_key": "secret"}, "JetStreamOldKey"),
    ],
)
def test_most_of_jetstream_needs_a_restart(change: dict[str, Any], reason: str) -> None:
    old = Options(jetstream=STREAMING)
    plan = changed_options(old, Options(jetstream=replace(STREAMING, **change)))
    assert plan.error == f"config reload not supported for {reason}"


def test_limits_that_the_machine_chose_can_not_be_set() -> None:
    old = Options(jetstream=replace(STREAMING, max_memory_bytes=-1))
    plan = changed_options(old, Options(jetstream=STREAMING))
    assert plan.error == "config reload not supported for jetstream dynamic max memory and store"


def test_limits_of_jetstream_may_be_raised() -> None:
    new = Options(jetstream=replace(STREAMING, max_memory_bytes=2048, max_file_bytes=1 << 30))
    plan = changed_options(Options(jetstream=STREAMING), new)
    assert plan.error == ""
    assert plan.changes == (
        "JetStream max_mem_store = 2.00 KB",
        "JetStream max_file_store = 1.00 GB",
    )


def test_a_jetstream_that_is_off_may_be_described_anew() -> None:
    new = Options(jetstream=JetStreamOptions(store_dir="b", max_file_bytes=5, domain="d"))
    assert changed_options(Options(), new).error == ""


def test_every_field_of_jetstream_has_its_rule() -> None:
    ruled = {"enabled", "store_dir", "max_memory_bytes", "max_file_bytes"}
    names = {field.name for field in fields(JetStreamOptions)}
    assert set(JETSTREAM_NEEDS_RESTART) | ruled == names
    assert not set(RELOADED) & set(NEEDS_RESTART)
