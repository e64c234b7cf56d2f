"""Effects of configuration keys. Expected texts are those of `nats-server -t`, version 2.15.1."""

import pytest

from headwater.base.clock import NS_PER_MS, NS_PER_S
from headwater.server.configuration.keys import ConfigError, LoadedConfig, load_config
from headwater.server.configuration.options import (
    AccountLimits,
    AccountOptions,
    JetStreamOptions,
    LinearizableReads,
    Options,
    OptionsError,
    Permissions,
    ResponsePermission,
    SubjectPermission,
    UserOptions,
)
from headwater.wire.credentials.nkeys import KeyKind, KeyPair

NO_UNIT = 'invalid use of field "ping_interval": ping_interval should be converted to a duration'


def load(text: str) -> LoadedConfig:
    return load_config("x.conf", lambda path: text.encode(), {})


def options(text: str) -> Options:
    loaded = load(text)
    assert loaded.warnings == ()
    return loaded.options


def _streams(**changes: object) -> dict[str, object]:
    """The options of a server with streams, with these values."""
    return {"jetstream": JetStreamOptions(enabled=True, **changes)}  # type: ignore[arg-type]


def complaints(text: str) -> str:
    """All errors in `text`, without the name of the file."""
    with pytest.raises(ConfigError) as caught:
        load(text)
    return str(caught.value).replace("x.conf:", "").rstrip("\n")


TYPE_ERRORS = [
    ("lame_duck_duration: 5", "int64", "string"),
    ("lame_duck_grace_period: 5", "int64", "string"),
    ('max_payload: "x"', "string", "int64"),
    ("max_payload: 1.5", "float64", "int64"),
    ("debug: 1", "int64", "bool"),
    ('debug: "x"', "string", "bool"),
    ("host: 1", "int64", "string"),
    ("port: 2016-05-04T18:53:41Z", "time.Time", "int64"),
    ("port: [1, 2 ]", "[]interface {}", "int64"),
    ("port: {}", "map[string]interface {}", "int64"),
    ("max_traced_msg_len: x", "string", "int64"),
    ("ping_max: true", "bool", "int64"),
    ("no_auth_user: 5", "int64", "string"),
    ("logtime: 1", "int64", "bool"),
    ("log_file: 1", "int64", "string"),
    ("log_size_limit: x", "string", "int64"),
    ("pid_file: 1", "int64", "string"),
    ("ports_file_dir: 1", "int64", "string"),
    ("http_port: x", "string", "int64"),
    ("http_base_path: 1", "int64", "string"),
    ("client_advertise: 1", "int64", "string"),
    ("max_connections: x", "string", "int64"),
    ("max_subs: x", "string", "int64"),
    ("max_pending: x", "string", "int64"),
    ("max_closed_clients: x", "string", "int64"),
    ("connect_error_reports: x", "string", "int64"),
    ("reconnect_error_reports: x", "string", "int64"),
    ("no_header_support: 1", "int64", "bool"),
    ("disable_sublist_cache: 1", "int64", "bool"),
    ("no_fast_producer_stall: 1", "int64", "bool"),
    ("no_system_account: 1", "int64", "bool"),
    ("trace: 1", "int64", "bool"),
    ("trace_verbose: 1", "int64", "bool"),
    ("trace_headers: 1", "int64", "bool"),
    ("logtime_utc: 1", "int64", "bool"),
]

ERRORS = [
    ("listen: foo", '1:0: could not parse address string "foo"'),
    ('listen: "a:b"', '1:0: could not parse port "b"'),
    ("listen: true", "1:0: expected port or host:port, got bool"),
    ('listen: "::1:4222"', '1:0: could not parse address string "::1:4222"'),
    ('listen: "[::1]"', '1:0: could not parse address string "[::1]"'),
    ('http: "x"', '1:0: could not parse address string "x"'),
    ('server_name: "a b"', "1:0: server name cannot contain spaces"),
    ("max_payload: 3GB", "1:0: max_payload value is too big"),
    ("max_control_line: 3GB", "1:0: max_control_line value is too big"),
    ("max_sub_tokens: 300", "1:0: max_sub_tokens value is too big"),
    ("max_sub_tokens: 0", "1:0: max_sub_tokens value can not be negative"),
    ('lame_duck_duration: "5s"', "1:0: invalid lame_duck_duration of 5s, minimum is 30 seconds"),
    (
        'lame_duck_duration: "x"',
        '1:0: error parsing lame_duck_duration: time: invalid duration "x"',
    ),
    ('lame_duck_grace_period: "-5s"', "1:0: invalid lame_duck_grace_period, needs to be positive"),
    ('ping_interval: "5"', '1:0: error parsing ping_interval: time: missing unit in duration "5"'),
    (
        'ping_interval: "5x"',
        '1:0: error parsing ping_interval: time: unknown unit "x" in duration "5x"',
    ),
    ('write_deadline: "abc"', '1:0: error parsing write_deadline: time: invalid duration "abc"'),
    (
        'authorization { timeout: "x" }',
        "1:16: error parsing authorization config, 'timeout' time: invalid duration \"x\"",
    ),
    (
        "authorization { timeout: true }",
        "1:16: error parsing authorization config, 'timeout' wrong type",
    ),
    ("authorization { user: a, token: b }", "1:0: Cannot have a user/pass and token"),
    ("authorization { users: 5 }", "1:16: Expected users field to be an array, got 5"),
    ("authorization { users: [5 ] }", "1:24: Expected user entry to be a map/struct, got 5"),
    ("authorization { users: [ {user: a, pass: b, foo: 1 } ] }", '1:44: unknown field "foo"'),
    ("authorization { users: [], token: y }", "1:0: Can not have a token and a users array"),
    ("authorization { users: [{user: a},{user: a}] }", '1:0: Duplicate user "a" detected'),
    ("authorization { foo: 1 }", '1:16: unknown field "foo"'),
    (
        "authorization { users: [{user: 5}] }",
        "1:25: interface conversion: interface {} is int64, not string",
    ),
    ("authorization { users: [{pass: x}] }", "1:25: User entry requires a user"),
    ("authorization { users: [{}] }", "1:26: User entry requires a user"),
    ("accounts: [a, a]", "1:14: Duplicate Account Entry: a"),
    ('accounts: [a, "$G"]', '1:15: "$G" is a Reserved Account'),
    ("accounts: [5 ]", "1:11: interface conversion: interface {} is int64, not string"),
    ('accounts { "$G" {} }', '1:12: "$G" is a Reserved Account'),
    ("accounts { A: 5 }", "1:11: Expected map entries for accounts"),
    ("accounts { A { foo: 1 } }", '1:15: unknown field "foo"'),
    ("accounts { A { users: [{user: a}, {user: a}] } }", '1:15: Duplicate user "a" detected'),
    (
        "authorization { token: x }\naccounts { A { users: [{user: a}] } }",
        "2:16: Can not have a token and accounts",
    ),
    (
        "authorization { user: x }\naccounts { A { users: [{user: a}] } }",
        "2:16: Can not have a single user/pass and accounts",
    ),
    ("system_account: 5", "1:0: system account name must be a string"),
    ("system: 5", "1:0: system account name must be a string"),
    ("server_tags: 5", "1:0: error parsing tags: unsupported type int64"),
    (
        "server_tags: [a, 5 ]",
        "1:0: error parsing tags: unsupported type *conf.token where string is expected",
    ),
    ("server_metadata: 5", "1:0: error parsing metadata: unsupported type int64"),
    ("server_metadata { a: 5 }", "1:18: interface conversion: interface {} is int64, not string"),
    ("store_dir: a\nstoredir: b", "2:1: Duplicate 'store_dir' configuration"),
    ('authorization { users: [ "x y" ] }', "1:26: Expected user entry to be a map/struct, got x y"),
    (
        "authorization { default_permissions: 5 }",
        "1:16: Expected permissions to be a map/struct, got 5",
    ),
    ('authorization { users: "x" }', "1:16: Expected users field to be an array, got x"),
    ("authorization { users: 1.50 }", "1:16: Expected users field to be an array, got 1.5"),
    ("authorization { users: [ true ] }", "1:25: Expected user entry to be a map/struct, got true"),
    (
        "authorization { users: [ 2016-05-04T18:53:41Z ] }",
        "1:25: Expected user entry to be a map/struct, got 2016-05-04 18:53:41 +0000 UTC",
    ),
    (
        'write_deadline: "1d"',
        '1:0: error parsing write_deadline: time: unknown unit "d" in duration "1d"',
    ),
    ('ping_interval: ""', '1:0: error parsing ping_interval: time: invalid duration ""'),
    ('ping_interval: "-"', '1:0: error parsing ping_interval: time: invalid duration "-"'),
    ('ping_interval: "1"', '1:0: error parsing ping_interval: time: missing unit in duration "1"'),
    (
        'ping_interval: "9999999999h"',
        '1:0: error parsing ping_interval: time: invalid duration "9999999999h"',
    ),
    ('ping_interval: ".s"', '1:0: error parsing ping_interval: time: invalid duration ".s"'),
    ("{ foo { bar: 1 } }", '1:2: unknown field "foo"'),
    ("# c\n\n  foo: 1", '3:3: unknown field "foo"'),
]

USER_ERRORS = [
    ("permissions: 5", "1:34: Expected permissions to be a map/struct, got 5"),
    ("permissions: {foo: 1 }", '1:48: Unknown field "foo" parsing permissions'),
    (
        "permissions: {publish: [1 ] }",
        "1:58: Subject in permissions array cannot be cast to string",
    ),
    (
        "permissions: {publish: {allow: 1 } }",
        "1:58: Expected subject permissions to be a subject, or array of subjects, got int64",
    ),
    (
        "permissions: {publish: {foo: 1 } }",
        '1:58: Unknown field name "foo" parsing subject permissions, '
        "only 'allow' or 'deny' are permitted",
    ),
    ('permissions: {subscribe: {allow: "a b c"} }', '1:60: subject "a b c" is not a valid subject'),
    (
        'permissions: {subscribe: "a b", publish: {allow: "foo..bar"} }',
        '1:76: subject "foo..bar" is not a valid subject',
    ),
    ('permissions: {subscribe: {deny: "a. b"} }', '1:60: subject "a." is not a valid subject'),
    ('permissions: {subscribe: {deny: "a b."} }', '1:60: queue "b." is not a valid queue'),
    (
        "permissions: {allow_responses: 5 }",
        "1:48: error parsing response permissions, expected a boolean or a map",
    ),
    (
        'permissions: {allow_responses: {max: "x"} }',
        "1:66: interface conversion: interface {} is string, not int64",
    ),
    (
        "permissions: {allow_responses: {ttl: 5 } }",
        "1:66: error parsing expires, not a duration string",
    ),
    (
        'permissions: {allow_responses: {ttl: "5"} }',
        '1:66: error parsing expires: time: missing unit in duration "5"',
    ),
    (
        'permissions: {allow_responses: {foo: "5"} }',
        '1:66: Unknown field "foo" parsing permissions',
    ),
    (
        'allowed_connection_types: [foo, STANDARD, "b r"]',
        '1:34: invalid connection types ["FOO" "B R"]',
    ),
    (
        "allowed_connection_types: 5",
        "1:34: error parsing allowed connection types: unsupported type int64",
    ),
    (
        "allowed_connection_types: [5 ]",
        "1:61: error parsing allowed connection types: unsupported type in array int64",
    ),
]


@pytest.mark.parametrize(("text", "found", "wanted"), TYPE_ERRORS)
def test_values_of_the_wrong_type(text: str, found: str, wanted: str) -> None:
    expected = f"1:0: interface conversion: interface {{}} is {found}, not {wanted}"
    assert complaints(text) == expected


@pytest.mark.parametrize(("text", "expected"), ERRORS)
def test_errors_name_place_and_reason(text: str, expected: str) -> None:
    assert complaints(text) == expected


@pytest.mark.parametrize(("text", "expected"), USER_ERRORS)
def test_errors_in_a_user(text: str, expected: str) -> None:
    assert complaints("authorization { users: [{user: a, " + text + " }] }") == expected


def test_all_errors_are_reported_in_the_order_of_the_file_after_the_warnings() -> None:
    text = "foo: 1\nport: x\nping_interval: 5\nauthorization { bar: 1, users: [{pass: b}] }"
    assert complaints(text).splitlines() == [
        f"3:1: {NO_UNIT}",
        '1:0: unknown field "foo"',
        "2:1: interface conversion: interface {} is string, not int64",
        '4:17: unknown field "bar"',
        "4:34: User entry requires a user",
    ]


def test_a_duration_without_a_unit_is_seconds_and_warned_about() -> None:
    loaded = load("ping_interval: 5")
    assert loaded.options.ping_interval_s == 5.0
    assert loaded.warnings == (f"x.conf:1:0: {NO_UNIT}",)
    assert complaints("ping_interval: true").splitlines() == [
        f"1:0: {NO_UNIT}",
        "1:0: interface conversion: interface {} is bool, not int64",
    ]


def test_an_empty_file_is_warned_about() -> None:
    loaded = load("# nothing\n")
    assert loaded.warnings == ("x.conf: config has no values or is empty",)
    assert loaded.options == Options(
        config_file="x.conf", config_digest=loaded.options.config_digest
    )


@pytest.mark.parametrize("timeout", ["100", "90.5", '"90s"', "1m"])
def test_a_high_timeout_is_warned_about(timeout: str) -> None:
    loaded = load(f"authorization {{ timeout: {timeout} }}")
    value = {"1m": "1000000", '"90s"': "90s"}.get(timeout, timeout)
    seconds = f"{loaded.options.auth_timeout_s:f}"
    assert loaded.warnings == (
        f'x.conf:1:16: invalid use of field "timeout": timeout of {value} ({seconds} seconds) is '
        "high, consider keeping it under 60 seconds. possibly caused by unquoted duration; "
        "use '1m' instead of 1m, for example",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("listen: 4333", {"port": 4333}),
        ('listen: "127.0.0.1:-1"', {"host": "127.0.0.1", "port": -1}),
        ('listen: "[::1]:4333"', {"host": "::1", "port": 4333}),
        ("port: 0", {}),
        ("PORT: 4333", {"port": 4333}),
        ("host: localhost", {"host": "localhost"}),
        ('net: ""', {}),
        ("http: 8222", {"http_port": 8222}),
        ('http: "localhost:8222"', {"http_host": "localhost", "http_port": 8222}),
        ("monitor_port: -1", {"http_port": -1}),
        ("http_base_path: /nats", {"http_base_path": "/nats"}),
        ("client_advertise: a.b", {"client_advertise": "a.b"}),
        ("server_name: a", {"server_name": "a"}),
        ('server_tags: ["Foo", "foo", " bar ", ""]', {"server_tags": ("foo", "bar")}),
        ("server_tags: Foo", {"server_tags": ("foo",)}),
        ("server_metadata { a: b }", {"server_metadata": {"a": "b"}}),
        ("max_payload: 8MB", {"max_payload": 8 * 1024 * 1024}),
        ("max_payload: 0", {}),
        ("max_control_line: 2k", {"max_control_line": 2000}),
        ("max_pending: 1GB", {"max_pending": 1024**3}),
        ("max_conn: 10", {"max_connections": 10}),
        ("max_connections: 0", {"max_connections": -1}),
        ("max_subs: 10", {"max_subscriptions": 10}),
        ("max_sub_tokens: 255", {"max_subscription_tokens": 255}),
        ("max_closed_clients: 5", {"max_closed_clients": 5}),
        ('ping_interval: "1m30s"', {"ping_interval_s": 90.0}),
        ("ping_interval: 250ms", {"ping_interval_s": 0.25}),
        ('ping_interval: "0s"', {}),
        ("ping_max: 5", {"ping_max": 5}),
        ("write_deadline: 3s", {"write_deadline_s": 3.0}),
        ("lame_duck_duration: 30s", {"lame_duck_duration_s": 30.0}),
        ("lame_duck_grace_period: 1s", {"lame_duck_grace_period_s": 1.0}),
        ("lame_duck_grace_period: 0s", {}),
        ("no_header_support: yes", {"no_header_support": True}),
        ("no_sublist_cache: on", {"disable_sublist_cache": True}),
        ("no_fast_producer_stall: true", {"no_fast_producer_stall": True}),
        ("debug: true", {"debug": True}),
        ("trace: true", {"trace": True}),
        ("trace_verbose: true", {"trace": True, "trace_verbose": True}),
        ("trace_headers: true", {"trace": True, "trace_headers": True}),
        ("max_traced_msg_len: 64", {"max_traced_msg_len": 64}),
        ("logtime: false", {"logtime": False}),
        ("logtime_utc: true", {"logtime_utc": True}),
        ("logfile: a.log", {"log_file": "a.log"}),
        ("log_size_limit: 1MB", {"log_size_limit": 1024 * 1024}),
        ("logfile_max_num: 3", {"log_max_num": 3}),
        ("connect_error_reports: 3", {"connect_error_reports": 3}),
        ("reconnect_error_reports: 3", {"reconnect_error_reports": 3}),
        ("pidfile: a.pid", {"pid_file": "a.pid"}),
        ("ports_file_dir: ports", {"ports_file_dir": "ports"}),
        ("no_auth_user: a", {"no_auth_user": "a"}),
        ("system: SYS", {"system_account": "SYS"}),
        ("no_sys_acc: true", {"no_system_account": True}),
        ("store_dir: data", {"jetstream": JetStreamOptions(store_dir="data")}),
        ("jetstream { ack_timeout: '500ms' }", _streams(ack_timeout_ns=500 * NS_PER_MS)),
        ("jetstream { ack_timeout: '0s' }", _streams(ack_timeout_ns=0)),
        ("jetstream { eventual_max_tail: 5 }", _streams(eventual_max_tail=5)),
        (
            "jetstream { linearizable_reads: Quorum }",
            _streams(linearizable_reads=LinearizableReads.QUORUM),
        ),
        ("jetstream { lease: '2s' }", _streams(lease_ns=2 * NS_PER_S)),
    ],
)
def test_keys_and_the_options_they_set(text: str, expected: dict[str, object]) -> None:
    found = options(text)
    source = {"config_file": "x.conf", "config_digest": found.config_digest}
    assert found == Options(**source, **expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("ack_timeout: '-1s'", "error parsing ack_timeout: it cannot be negative"),
        ("eventual_max_tail: 0", "eventual_max_tail must be between 1 and 16777216, not 0"),
        ("eventual_max_tail: 16777217", "must be between 1 and 16777216, not 16777217"),
        (
            "linearizable_reads: both",
            "Expected 'lease' or 'quorum' string value for \"linearizable_reads\", got both",
        ),
    ],
)
def test_levels_without_meaning_are_refused(text: str, error: str) -> None:
    assert complaints(f"jetstream {{ {text} }}").endswith(error)


@pytest.mark.parametrize(("text", "shown"), [("99ms", "99ms"), ("61s", "1m1s")])
def test_a_lease_has_bounds(text: str, shown: str) -> None:
    with pytest.raises(OptionsError) as failure:
        options(f"jetstream {{ lease: '{text}' }}").validate()
    assert str(failure.value) == f"jetstream lease ({shown}) is not between 100ms and 1m0s"


def test_a_key_that_a_variable_refers_to_may_have_any_name() -> None:
    found = options("p: 4333\nauthorization { t: 5, timeout: $t }\nport: $p")
    assert (found.port, found.auth_timeout_s) == (4333, 5.0)


class TestAuthorization:
    def test_of_one_user(self) -> None:
        found = options("authorization { user: a, password: b, timeout: 0.5 }")
        assert (found.username, found.password, found.auth_timeout_s) == ("a", "b", 0.5)
        assert found.has_authorization

    def test_by_token(self) -> None:
        assert options("authorization { token: s3cr3t }").token == "s3cr3t"

    def test_timeout_of_zero_is_the_default(self) -> None:
        assert options("authorization { timeout: 0 }").auth_timeout_s == 2.0

    def test_of_many_users(self) -> None:
        found = options(
            "authorization { users = [ {user: a, pass: b}\n {username: c, password: $2a$11$x} ] }"
        )
        assert found.users == (UserOptions("a", "b"), UserOptions("c", "$2a$11$x"))

    def test_with_connection_types(self) -> None:
        found = options("authorization { users [ {user: a, clients: [standard, mqtt]} ] }")
        assert found.users[0].allowed_connection_types == ("MQTT", "STANDARD")

    @pytest.mark.parametrize("where", ["before", "after"])
    def test_defaults_are_for_users_without_permissions(self, where: str) -> None:
        users = "users [ {user: a}, {user: b, permissions { publish: own }} ]"
        defaults = "default_permissions { publish: shared }"
        first, second = (defaults, users) if where == "before" else (users, defaults)
        found = options(f"authorization {{ {first}\n {second} }}")
        allowed = [user.permissions and user.permissions.publish for user in found.users]
        assert allowed == [SubjectPermission(("shared",)), SubjectPermission(("own",))]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", Permissions()),
            ("publish: a", Permissions(publish=SubjectPermission(("a",)))),
            ("pub: [a, b.*]", Permissions(publish=SubjectPermission(("a", "b.*")))),
            ("import: a", Permissions(publish=SubjectPermission(("a",)))),
            (
                'sub: ["a", "b.> workers"]',
                Permissions(subscribe=SubjectPermission(("a", "b.> workers"))),
            ),
            (
                "subscribe { allow: a, deny: [b] }",
                Permissions(subscribe=SubjectPermission(("a",), ("b",))),
            ),
            ("publish {}", Permissions()),
            # An empty list is no list: everything is allowed.
            ("publish: []", Permissions(publish=SubjectPermission())),
            (
                "publish { allow: [], deny: a }",
                Permissions(publish=SubjectPermission(None, ("a",))),
            ),
            ("allow_responses: false", Permissions()),
            # A user who may only respond may not publish anything else, wherever that is written.
            (
                "allow_responses: true",
                Permissions(SubjectPermission(()), allow_responses=ResponsePermission(1, 120.0)),
            ),
            (
                "allow_responses: true, publish { deny: a }",
                Permissions(
                    SubjectPermission((), ("a",)), allow_responses=ResponsePermission(1, 120.0)
                ),
            ),
            (
                "publish: a, allow_responses { max: 5, ttl: 1m }",
                Permissions(SubjectPermission(("a",)), allow_responses=ResponsePermission(5, 60.0)),
            ),
            (
                'allow_responses { max_msgs: 0, expires: "0s" }',
                Permissions(SubjectPermission(()), allow_responses=ResponsePermission(1, 120.0)),
            ),
            (
                'allow_responses { max: -1, expires: "-1s" }',
                Permissions(SubjectPermission(()), allow_responses=ResponsePermission(-1, -1.0)),
            ),
        ],
    )
    def test_permissions(self, text: str, expected: Permissions) -> None:
        # `ttl: 1m` without quotes would be a million.
        text = text.replace("1m", '"1m"')
        found = options("authorization { users [ {user: a, permissions { " + text + " }} ] }")
        assert found.users[0].permissions == expected

    def test_old_style_permissions_are_checked_with_a_place(self) -> None:
        # nats-server reports this error without its place.
        text = 'authorization { users: [{user: a, permissions: {publish: "a b" } }] }'
        assert complaints(text) == '1:48: subject "a b" is not a valid subject'


class TestAccounts:
    def test_by_name_only(self) -> None:
        assert options("accounts: [A, B]").accounts == (AccountOptions("A"), AccountOptions("B"))

    def test_with_users_who_know_their_account(self) -> None:
        found = options(
            "accounts { A { users [ {user: a, pass: b} ] }\n"
            " B { default_permissions { publish: x }, users [ {user: c} ] } }"
        )
        permissions = Permissions(publish=SubjectPermission(("x",)))
        assert found.accounts == (
            AccountOptions("A", (UserOptions("a", "b", "A"),)),
            AccountOptions("B", (UserOptions("c", "", "B", permissions),), permissions),
        )
        assert [user.username for user in found.all_users()] == ["a", "c"]

    def test_share_names_with_nobody(self) -> None:
        inner = "accounts { A { users: [{user: a}] } }"
        outer = "authorization { users: [{user: a}] }"
        assert complaints(f"{outer}\n{inner}") == '2:16: Duplicate user "a" detected'
        assert complaints(f"{inner}\n{outer}") == '2:1: Duplicate user "a" detected'

    def test_do_not_go_with_a_single_user_or_token(self) -> None:
        inner = "accounts { A { users: [{user: a}] } }"
        assert complaints(f"{inner}\nauthorization {{ user: x }}") == (
            "2:1: Can not have a single user/pass and a users array"
        )
        assert complaints(f"{inner}\nauthorization {{ token: x }}") == (
            "2:1: Can not have a token and a users array"
        )

    def test_can_be_limited(self) -> None:
        found = options("accounts { A { limits { max_conn: 1, max_subs: 2, max_payload: 1K } } }")
        assert found.accounts == (AccountOptions("A", limits=AccountLimits(1, 2, 1000)),)
        assert complaints("accounts { A { limits: 5 } }") == (
            "1:15: Expected account limits to be a map/struct, got 5"
        )
        assert complaints("accounts { A { limits { max_x: 5 } } }") == (
            '1:24: Unknown field "max_x" parsing account limits'
        )

    def test_skip_variables(self) -> None:
        found = options("accounts { u: [{user: a}], A { users: $u } }")
        assert [account.name for account in found.accounts] == ["A"]

    def test_have_to_be_named_in_a_map_or_an_array(self) -> None:
        # nats-server ignores anything else.
        assert complaints("accounts: 5") == "1:0: Expected map entries for accounts"


HONOURED = """
    listen client_advertise port server_name host net debug trace trace_verbose trace_headers
    logtime logtime_utc disable_sublist_cache no_sublist_cache accounts authorization http
    http_port monitor_port http_base_path store_dir storedir logfile log_file logfile_size_limit
    log_size_limit logfile_max_num log_max_num pidfile pid_file ports_file_dir max_control_line
    max_payload max_pending max_connections max_conn max_traced_msg_len max_subscriptions max_subs
    max_sub_tokens max_subscription_tokens ping_interval ping_max write_deadline
    lame_duck_duration lame_duck_grace_period no_auth_user system_account system
    no_system_account no_system no_sys_acc no_header_support connect_error_reports
    reconnect_error_reports server_tags server_metadata no_fast_producer_stall max_closed_clients
    jetstream cluster
"""
REFUSED = """
    mappings maps default_sentinel gateway leaf leafnodes
    syslog remote_syslog prof_port prof_block_rate proxy_protocol ocsp
    write_timeout operator operators roots root root_operators root_operator resolver
    account_resolver accounts_resolver resolver_tls resolver_preload resolver_pinned_accounts
    trusted trusted_keys websocket ws mqtt feature_flags default_js_domain ocsp_cache proxies
"""
NESTED_HONOURED = {
    "authorization {{ {} }}": """
        user username pass password token timeout users default_permission default_permissions
        permissions""",
    "authorization {{ users [ {{ user: a, {} }} ] }}": """
        user username pass password permission permissions authorization
        allowed_connection_types connection_types clients""",
    "authorization {{ default_permissions {{ {} }} }}": """
        pub publish import sub subscribe export publish_allow_responses allow_responses""",
    "authorization {{ default_permissions {{ publish {{ {} }} }} }}": "allow deny",
    "authorization {{ default_permissions {{ subscribe {{ {} }} }} }}": "allow deny",
    "authorization {{ default_permissions {{ allow_responses {{ {} }} }} }}": """
        max max_msgs max_messages max_responses expires expiration ttl""",
    "accounts {{ A {{ {} }} }}": "users default_permissions limits jetstream",
    "accounts {{ A {{ limits {{ {} }} }} }}": """
        max_connections max_conn max_subscriptions max_subs max_payload max_pay""",
    "jetstream {{ {} }}": """
        strict store store_dir storedir sync sync_interval max_memory_store max_mem_store max_mem
        max_file_store max_file domain enable enabled key ek encryption_key prev_key prev_ek
        prev_encryption_key cipher limits unique_tag max_buffered_size max_buffered_msgs
        max_outstanding_catchup ack_timeout linearizable_reads lease
        eventual_max_tail runtime_dir""",
    "jetstream {{ limits {{ {} }} }}": """
        max_ack_pending max_ha_assets max_request_batch duplicate_window default_max_consumers
        batch""",
    "cluster {{ {} }}": """
        name listen port host net authorization routes cluster_advertise advertise no_advertise
        connect_retries connect_backoff permissions ping_interval ping_max write_deadline""",
    "accounts {{ A {{ jetstream {{ {} }} }} }}": """
        max_memory max_mem mem memory max_store max_file max_disk store disk max_streams streams
        max_consumers consumers max_bytes_required max_stream_bytes max_bytes mem_max_stream_bytes
        memory_max_stream_bytes disk_max_stream_bytes store_max_stream_bytes max_ack_pending
        cluster_traffic""",
}
NESTED_REFUSED = {
    "authorization {{ {} }}": "auth_callout auth_hook proxy_required",
    "authorization {{ users [ {{ user: a, {} }} ] }}": "proxy_required",
    "accounts {{ A {{ {} }} }}": """
        nkey imports exports mappings maps msg_trace trace_dest""",
    "jetstream {{ {} }}": """
        tpm extension_hint request_queue_limit info_queue_limit
        meta_compact meta_compact_size meta_compact_sync max_concurrent_io""",
    "cluster {{ {} }}": "tls accounts pool_size compression write_timeout",
    "accounts {{ A {{ limits {{ {} }} }} }}": "max_leafnodes max_leafs",
}


def nested(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(frame, key) for frame, keys in table.items() for key in keys.split()]


class TestEveryKeyOfNatsServer:
    """No key is unknown to us that nats-server knows, and none is ignored."""

    @pytest.mark.parametrize(("frame", "key"), nested({"{}": HONOURED}) + nested(NESTED_HONOURED))
    def test_is_honoured(self, frame: str, key: str) -> None:
        # No key accepts a datetime, so one that looks at its value complains about it.
        found = complaints(frame.format(f"{key}: 2016-05-04T18:53:41Z"))
        assert "unknown field" not in found.lower()
        assert "not supported" not in found

    @pytest.mark.parametrize(("frame", "key"), nested({"{}": REFUSED}) + nested(NESTED_REFUSED))
    def test_or_refused_by_name(self, frame: str, key: str) -> None:
        text = frame.format(f"{key}: 1")
        place = f"1:{text.index(key + ': 1')}"
        found = complaints(text)
        assert found.startswith(f'{place}: "{key}" is not supported')
        assert len(found.splitlines()) == 1

    def test_as_it_is_written(self) -> None:
        assert complaints("\n  GateWay { name: a }") == '2:3: "GateWay" is not supported'


@pytest.mark.parametrize("more", ["user: ada", "password: secret"])
def test_a_user_with_a_key_has_no_other_credentials(more: str) -> None:
    key = KeyPair(KeyKind.USER, bytes(32)).public
    text = f"authorization {{ users [ {{ nkey: {key}, {more} }} ] }}"
    with pytest.raises(ConfigError, match="Nkey users do not take usernames or passwords"):
        load(text)
