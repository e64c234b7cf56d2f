"""Rules between options, with the texts of nats-server."""

from dataclasses import replace

import pytest

from headwater.server.configuration.options import (
    MIB,
    AccountOptions,
    Options,
    OptionsError,
    UserOptions,
    is_bcrypt,
)

ALICE = UserOptions("alice", "secret")
BOB = UserOptions("bob", "secret", account_name="B")


def test_the_defaults_are_valid_and_those_of_nats_server() -> None:
    options = Options()
    options.validate()
    assert (options.host, options.port, options.http_port) == ("0.0.0.0", 4222, 0)
    assert (options.max_payload, options.max_control_line) == (MIB, 4096)
    assert (options.max_pending, options.max_connections) == (64 * MIB, 65536)
    assert (options.ping_interval_s, options.ping_max, options.write_deadline_s) == (120, 2, 10)
    assert (options.auth_timeout_s, options.lame_duck_duration_s) == (2, 120)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            Options(lame_duck_duration_s=60, lame_duck_grace_period_s=90),
            "lame duck grace period (1m30s) should be strictly lower "
            "than lame duck duration (1m0s)",
        ),
        (
            Options(lame_duck_duration_s=30, lame_duck_grace_period_s=30),
            "lame duck grace period (30s) should be strictly lower than lame duck duration (30s)",
        ),
        (
            Options(max_payload=20, max_pending=10),
            "max_payload (20) cannot be higher than max_pending (10)",
        ),
        (Options(server_name="a b"), "server name cannot contain spaces"),
        (Options(max_control_line=2**31), "max_control_line value is too big"),
        (
            Options(max_subscription_tokens=256),
            "max_subscription_tokens value is too big",
        ),
        (Options(username="a", token="t"), "Cannot have a user/pass and token"),
        (Options(password="a", token="t"), "Cannot have a user/pass and token"),
        (
            Options(username="a", users=(ALICE,)),
            "Can not have a single user/pass and a users array",
        ),
        (Options(token="a", users=(ALICE,)), "Can not have a token and a users array"),
        (Options(users=(ALICE, ALICE)), 'Duplicate user "alice" detected'),
        (
            Options(
                users=(ALICE,),
                accounts=(AccountOptions("B", (replace(ALICE, account_name="B"),)),),
            ),
            'Duplicate user "alice" detected',
        ),
        (
            Options(users=(replace(ALICE, allowed_connection_types=("PIGEON",)),)),
            'unknown connection type "PIGEON"',
        ),
        (Options(accounts=(AccountOptions("$G"),)), '"$G" is a Reserved Account'),
        (
            Options(accounts=(AccountOptions("A"), AccountOptions("A"))),
            "Duplicate Account Entry: A",
        ),
        (
            Options(accounts=(AccountOptions("A", (BOB,)),)),
            'user "bob" of account "A" says it is of account "B"',
        ),
        (
            Options(system_account="SYS"),
            "error resolving system account: account missing",
        ),
        (
            Options(no_auth_user="alice"),
            'no_auth_user: "alice" present, but users/nkeys are not defined',
        ),
        (
            Options(no_auth_user="carol", users=(ALICE,)),
            'no_auth_user: "carol" not present as user or nkey in authorization block '
            "or account configuration",
        ),
    ],
)
def test_rules(options: Options, message: str) -> None:
    with pytest.raises(OptionsError) as caught:
        options.validate()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "options",
    [
        Options(port=-1, http_port=-1),
        Options(port=65535, http_port=65535),
        Options(max_payload=10, max_pending=10),
        Options(lame_duck_duration_s=30, lame_duck_grace_period_s=29.9),
        Options(max_control_line=2**31 - 1, max_subscription_tokens=255),
        Options(users=(ALICE,), accounts=(AccountOptions("B", (BOB,)),), no_auth_user="bob"),
        Options(accounts=(AccountOptions("SYS"),), system_account="SYS"),
        Options(system_account="$G"),
        Options(users=(replace(ALICE, allowed_connection_types=("STANDARD",)),)),
    ],
)
def test_at_the_limit(options: Options) -> None:
    options.validate()


def test_monitoring_binds_where_clients_connect_unless_told_otherwise() -> None:
    assert Options(host="127.0.0.1").monitoring_host == "127.0.0.1"
    assert Options(host="127.0.0.1", http_host="::1").monitoring_host == "::1"


@pytest.mark.parametrize(
    ("options", "required"),
    [
        (Options(), False),
        (Options(username="a"), True),
        (Options(token="a"), True),
        (Options(users=(ALICE,)), True),
        (Options(accounts=(AccountOptions("B", (BOB,)),)), True),
        (Options(accounts=(AccountOptions("B"),)), False),
    ],
)
def test_who_has_to_present_credentials(options: Options, required: bool) -> None:
    assert options.auth_required is required


def test_users_of_the_system_account_alone_leave_the_global_account_open() -> None:
    admin = replace(ALICE, account_name="$SYS")
    only_system = Options(accounts=(AccountOptions("$SYS", (admin,)),))
    assert only_system.is_global_open
    assert not replace(only_system, has_authorization=True).is_global_open
    assert not replace(only_system, no_auth_user="alice").is_global_open
    assert not replace(
        only_system, accounts=(*only_system.accounts, AccountOptions("B"))
    ).is_global_open
    assert not Options().is_global_open


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        ("$2a$11$abc", True),
        ("$2b$04$", True),
        ("$2x$11$abc", True),
        ("$2y$11$abc", True),
        ("$2c$11$abc", False),
        ("$2a$1$abc", False),
        ("2a$11$abc", False),
        ("secret", False),
        ("", False),
    ],
)
def test_bcrypt_is_told_by_its_beginning(secret: str, expected: bool) -> None:
    assert is_bcrypt(secret) is expected


PLAINTEXT = "Plaintext passwords detected, use nkeys or bcrypt"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Options(), ()),
        (Options(token="plain"), ()),
        (Options(username="a", password="plain"), (PLAINTEXT,)),
        (Options(username="a", password="$2a$11$x"), ()),
        (Options(users=(UserOptions("a", "$2a$11$x"), ALICE)), (PLAINTEXT,)),
        (Options(accounts=(AccountOptions("B", (BOB,)),)), (PLAINTEXT,)),
        (Options(max_payload=8 * MIB), ()),
        (
            Options(max_payload=8 * MIB + 1),
            (
                "Maximum payloads over 8.00 MB are generally discouraged and could lead to "
                "poor performance",
            ),
        ),
    ],
)
def test_what_the_log_warns_about(options: Options, expected: tuple[str, ...]) -> None:
    assert options.warnings() == expected
