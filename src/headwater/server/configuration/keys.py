"""Every configuration key of nats-server 2.15: honoured, or refused by name.

The tables below have every key. A key that is not in them is unknown, as it is to nats-server; a
key that maps to `not_supported` is known and refused, never ignored. To support a key, replace its
handler. A section that is refused is refused as a whole, with all keys in it.

Texts and rules are nats-server's. If a rule of nats-server depends on the order in which Go walks a
map, this module goes by the order of the file.

It must not know the grammar of files (`configuration.parser`), nor flags.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from headwater.base.errors import OperatingError
from headwater.go.durations import format_seconds
from headwater.go.quoting import quote
from headwater.server.configuration.cluster_section import cluster_reader
from headwater.server.configuration.jetstream_section import (
    account_jetstream,
    jetstream,
    store_directory,
)
from headwater.server.configuration.options import (
    CONNECTION_TYPES,
    DEFAULT_HOST,
    DEFAULT_PORT,
    GLOBAL_ACCOUNT,
    TLS_AUTH_EXTRA_S,
    AccountLimits,
    AccountOptions,
    JetStreamOptions,
    Options,
    Permissions,
    ResponsePermission,
    SubjectPermission,
    UserOptions,
)
from headwater.server.configuration.parser import ReadFile, Value, digest, parse_file
from headwater.server.configuration.reading import (
    Draft,
    Refusal,
    Table,
    address,
    boolean,
    duration_s,
    integer,
    mapping,
    not_supported,
    put,
    put_duration,
    put_size,
    put_unless_zero,
    string,
    strings,
    table,
    type_name,
    value_text,
)
from headwater.server.configuration.tls_section import CheckTls, read_tls
from headwater.subjects.grammar import is_valid_pattern
from headwater.wire.credentials.nkeys import KeyKind, is_public_key

MAX_INT32: Final = 2**31 - 1
MAX_UINT8: Final = 255
LAME_DUCK_DURATION_MIN_S: Final = 30.0
AUTH_TIMEOUT_WARNING_S: Final = 60.0

_LATER: Final = "it comes with a later release, remove it for now"


class ConfigError(OperatingError):
    """A file that can be parsed and not honoured. The text has all complaints, one per line."""

    def __init__(self, errors: tuple[str, ...], warnings: tuple[str, ...]) -> None:
        super().__init__("".join(line + "\n" for line in (*warnings, *errors)))
        self.errors = errors
        self.warnings = warnings


@dataclass(frozen=True)
class LoadedConfig:
    """The options of a file."""

    options: Options
    # Complaints that do not stop a server; lines for standard error.
    warnings: tuple[str, ...]


def load_config(
    path: str,
    read_file: ReadFile,
    environ: Mapping[str, str],
    store_dir: str = "",
    check_tls: CheckTls = lambda settings: None,
) -> LoadedConfig:
    """Read a configuration file. `store_dir` is one named elsewhere, which the file must not do.

    Raises ConfParseError for text that is no configuration and ConfigError for keys and values
    that cannot be honoured. Rules between options are left to `Options.validate`, since flags may
    still change them.
    """
    nodes = parse_file(path, read_file, environ)
    draft = Draft(errors=[], warnings=[])
    draft.values["store_dir"] = store_dir
    if not nodes:
        draft.warnings.append(f"{path}: config has no values or is empty")
    draft.read(nodes, TOP_LEVEL)
    _read_tls(draft, check_tls)
    if draft.errors:
        raise ConfigError(tuple(draft.errors), tuple(draft.warnings))
    values = draft.values
    values["jetstream"] = JetStreamOptions(
        store_dir=values.pop("store_dir"), **values.pop("jetstream", {})
    )
    options = Options(config_file=path, config_digest=digest(nodes), **values)
    return LoadedConfig(options, tuple(draft.warnings))


def _read_tls(draft: Draft, check_tls: CheckTls) -> None:
    """Read the section of TLS, which `_keep_tls` has put aside."""
    node = draft.values.pop("tls", None)
    if node is None:
        return
    with draft.collecting():
        tls = draft.values["tls"] = read_tls(node, draft, check_tls)
        if tls is not None:
            draft.values.setdefault("auth_timeout_s", tls.timeout_s + TLS_AUTH_EXTRA_S)


# --- top level ---------------------------------------------------------------------------------


def _listen(draft: Draft, key: str, node: Value) -> None:
    host, port = address(node)
    draft.values["host"] = host or DEFAULT_HOST
    draft.values["port"] = port or DEFAULT_PORT


def _http(draft: Draft, key: str, node: Value) -> None:
    draft.values["http_host"], draft.values["http_port"] = address(node)


def _https(draft: Draft, key: str, node: Value) -> None:
    draft.values["http_host"], draft.values["https_port"] = address(node)


def _keep_tls(draft: Draft, key: str, node: Value) -> None:
    draft.values["tls"] = node


def _server_name(draft: Draft, key: str, node: Value) -> None:
    name = string(node)
    if " " in name:
        raise Refusal(node, "server name cannot contain spaces")
    draft.values["server_name"] = name


def _trace_verbose(draft: Draft, key: str, node: Value) -> None:
    draft.values["trace_verbose"] = draft.values["trace"] = boolean(node)


def _trace_headers(draft: Draft, key: str, node: Value) -> None:
    draft.values["trace_headers"] = draft.values["trace"] = boolean(node)


def _max_connections(draft: Draft, key: str, node: Value) -> None:
    # Zero is a limit here and not the absence of one.
    draft.values["max_connections"] = integer(node) or -1


def _max_subscription_tokens(draft: Draft, key: str, node: Value) -> None:
    count = integer(node)
    if count > MAX_UINT8:
        raise Refusal(node, f"{key} value is too big")
    if count <= 0:
        raise Refusal(node, f"{key} value can not be negative")
    draft.values["max_subscription_tokens"] = count


def _lame_duck_duration(draft: Draft, key: str, node: Value) -> None:
    seconds = duration_s(node, string(node), "error parsing lame_duck_duration:")
    if seconds < LAME_DUCK_DURATION_MIN_S:
        raise Refusal(
            node,
            f"invalid lame_duck_duration of {format_seconds(seconds)}, minimum is 30 seconds",
        )
    draft.values["lame_duck_duration_s"] = seconds


def _lame_duck_grace_period(draft: Draft, key: str, node: Value) -> None:
    seconds = duration_s(node, string(node), "error parsing lame_duck_grace_period:")
    if seconds < 0:
        raise Refusal(node, "invalid lame_duck_grace_period, needs to be positive")
    if seconds:
        draft.values["lame_duck_grace_period_s"] = seconds


def _server_tags(draft: Draft, key: str, node: Value) -> None:
    value = node.value
    if not isinstance(value, str | list):
        raise Refusal(node, f"error parsing tags: unsupported type {type_name(node)}")
    tags = []
    for item in value if isinstance(value, list) else [node]:
        if not isinstance(item.value, str):
            raise Refusal(
                node, "error parsing tags: unsupported type *conf.token where string is expected"
            )
        tags.append(item.value.strip().lower())
    draft.values["server_tags"] = tuple(dict.fromkeys(tag for tag in tags if tag))


def _server_metadata(draft: Draft, key: str, node: Value) -> None:
    if not isinstance(node.value, dict):
        raise Refusal(node, f"error parsing metadata: unsupported type {type_name(node)}")
    draft.values["server_metadata"] = {name: string(item) for name, item in node.value.items()}


def _system_account(draft: Draft, key: str, node: Value) -> None:
    if not isinstance(node.value, str):
        raise Refusal(node, "system account name must be a string")
    if node.value:
        draft.values["system_account"] = node.value


# --- authorization -----------------------------------------------------------------------------


def _read_authorization(draft: Draft, nodes: Mapping[str, Value]) -> dict[str, Any]:
    block = draft.section()
    block.read(nodes, AUTHORIZATION)
    return block.values


def _authorization(draft: Draft, key: str, node: Value) -> None:
    found = _read_authorization(draft, mapping(node))
    username, token = found.get("username"), found.get("token")
    if (username or found.get("password")) and token:
        raise Refusal(node, "Cannot have a user/pass and token")
    names = {user.username for user in _account_users(draft)}
    if "users" in found or names:
        if username:
            raise Refusal(node, "Can not have a single user/pass and a users array")
        if token:
            raise Refusal(node, "Can not have a token and a users array")
    users = _with_defaults(found.pop("users", ()), found.get("default_permissions"))
    for user in users:
        if user.username in names:
            raise Refusal(node, f"Duplicate {user.described} detected")
        names.add(user.username)
    draft.values.update(found, users=users, has_authorization=True)


def _account_users(draft: Draft) -> list[UserOptions]:
    return [user for account in draft.values.get("accounts", ()) for user in account.users]


def _with_defaults(
    users: tuple[UserOptions, ...], permissions: Permissions | None
) -> tuple[UserOptions, ...]:
    return tuple(
        replace(user, permissions=permissions) if user.permissions is None else user
        for user in users
    )


def _auth_timeout(draft: Draft, key: str, node: Value) -> None:
    value = node.value
    if isinstance(value, str):
        seconds = duration_s(node, value, "error parsing authorization config, 'timeout'")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        raise Refusal(node, "error parsing authorization config, 'timeout' wrong type")
    if seconds > AUTH_TIMEOUT_WARNING_S:
        draft.warn(
            key,
            node,
            f"timeout of {value_text(node)} ({seconds:f} seconds) is high, consider keeping it "
            "under 60 seconds. possibly caused by unquoted duration; use '1m' instead of 1m, "
            "for example",
        )
    if seconds:
        draft.values["auth_timeout_s"] = seconds


def _users(draft: Draft, key: str, node: Value) -> None:
    if not isinstance(node.value, list):
        raise Refusal(node, f"Expected users field to be an array, got {value_text(node)}")
    users = []
    for item in node.value:
        with draft.collecting():
            users.append(_user(draft, item))
    draft.values["users"] = tuple(users)


def _user(draft: Draft, node: Value) -> UserOptions:
    if not isinstance(node.value, dict):
        raise Refusal(node, f"Expected user entry to be a map/struct, got {value_text(node)}")
    entry = draft.section()
    errors_before = len(entry.errors)
    entry.read(node.value, USER)
    nkey = entry.values.pop("nkey", "")
    if nkey:
        place = next(item for key, item in node.value.items() if key.lower() == "nkey")
        if entry.values.get("username") or entry.values.get("password"):
            raise Refusal(place, "Nkey users do not take usernames or passwords")
        if not is_public_key(nkey, KeyKind.USER):
            raise Refusal(place, "Not a valid public nkey for a user")
        entry.values.update(username=nkey, is_nkey=True)
    if not entry.values.get("username"):
        if len(entry.errors) > errors_before:
            # The error that left the user without a name has been reported.
            return UserOptions(username="")
        last = next(reversed(node.value.values()), node)
        raise Refusal(last, "User entry requires a user")
    return UserOptions(**entry.values)


def _allowed_connection_types(draft: Draft, key: str, node: Value) -> None:
    kinds = [kind.upper() for kind in strings(node, "allowed connection types")]
    unknown = [kind for kind in kinds if kind not in CONNECTION_TYPES]
    if unknown:
        listed = " ".join(quote(kind) for kind in unknown)
        raise Refusal(node, f"invalid connection types [{listed}]")
    # An empty list confines a user to nothing in particular.
    draft.values["allowed_connection_types"] = tuple(sorted(set(kinds))) or None


# --- permissions -------------------------------------------------------------------------------


def _permissions(draft: Draft, key: str, node: Value) -> None:
    draft.values["permissions"] = _read_permissions(draft, node)


def _default_permissions(draft: Draft, key: str, node: Value) -> None:
    draft.values["default_permissions"] = _read_permissions(draft, node)


def _read_permissions(draft: Draft, node: Value) -> Permissions:
    if not isinstance(node.value, dict):
        raise Refusal(node, f"Expected permissions to be a map/struct, got {value_text(node)}")
    entry = draft.section()
    entry.read(node.value, PERMISSIONS, unknown="Unknown field {key} parsing permissions")
    permissions = Permissions(**entry.values)
    if permissions.allow_responses is not None:
        publish = permissions.publish or SubjectPermission()
        if publish.allow is None:
            # A user with the permission to respond may not publish anything else.
            permissions = replace(permissions, publish=replace(publish, allow=()))
    return permissions


def _publish(draft: Draft, key: str, node: Value) -> None:
    draft.values["publish"] = _subject_permission(draft, node, queues=False)


def _subscribe(draft: Draft, key: str, node: Value) -> None:
    draft.values["subscribe"] = _subject_permission(draft, node, queues=True)


def _subject_permission(draft: Draft, node: Value, *, queues: bool) -> SubjectPermission | None:
    if not isinstance(node.value, dict):
        return SubjectPermission(allow=_subjects(node, queues=queues))
    if not node.value:
        return None
    entry = draft.section()
    entry.read(
        node.value,
        SUBSCRIBE if queues else PUBLISH,
        unknown="Unknown field name {key} parsing subject permissions, "
        "only 'allow' or 'deny' are permitted",
    )
    return SubjectPermission(**entry.values)


def _subjects(node: Value, *, queues: bool) -> tuple[str, ...] | None:
    """The subjects of one list; None for an empty list, which nats-server ignores."""
    if isinstance(node.value, str):
        found = [node.value]
    elif isinstance(node.value, list):
        found = []
        for item in node.value:
            if not isinstance(item.value, str):
                raise Refusal(item, "Subject in permissions array cannot be cast to string")
            found.append(item.value)
    else:
        raise Refusal(
            node,
            "Expected subject permissions to be a subject, or array of subjects, "
            f"got {type_name(node)}",
        )
    for subject in found:
        _check_subject(node, subject, queues=queues)
    return tuple(found) or None


def _check_subject(node: Value, subject: str, *, queues: bool) -> None:
    if _is_valid_subject(subject):
        return
    words = subject.split()
    if not queues or len(words) != 2:
        raise Refusal(node, f"subject {quote(subject)} is not a valid subject")
    if not _is_valid_subject(words[0]):
        raise Refusal(node, f"subject {quote(words[0])} is not a valid subject")
    if not _is_valid_subject(words[1]):
        raise Refusal(node, f"queue {quote(words[1])} is not a valid queue")


def _is_valid_subject(subject: str) -> bool:
    return not any(char in " \t\n\f\r" for char in subject) and is_valid_pattern(subject.encode())


def _allow_responses(draft: Draft, key: str, node: Value) -> None:
    if isinstance(node.value, bool):
        draft.values["allow_responses"] = ResponsePermission() if node.value else None
        return
    if not isinstance(node.value, dict):
        raise Refusal(node, "error parsing response permissions, expected a boolean or a map")
    entry = draft.section()
    entry.read(node.value, RESPONSES, unknown="Unknown field {key} parsing permissions")
    draft.values["allow_responses"] = ResponsePermission(**entry.values)


def _response_ttl(draft: Draft, key: str, node: Value) -> None:
    if not isinstance(node.value, str):
        raise Refusal(node, "error parsing expires, not a duration string")
    seconds = duration_s(node, node.value, "error parsing expires:")
    if seconds:
        draft.values["ttl_s"] = seconds


# --- accounts ----------------------------------------------------------------------------------


def _accounts(draft: Draft, key: str, node: Value) -> None:
    accounts: dict[str, AccountOptions] = {}
    # Seen by whatever comes later in the file, also when this fails half way.
    taken = {user.username for user in draft.values.get("users", ())}
    if isinstance(node.value, list):
        for item in node.value:
            with draft.collecting():
                name = string(item)
                _check_account_name(item, name)
                if name in accounts:
                    raise Refusal(item, f"Duplicate Account Entry: {name}")
                accounts[name] = AccountOptions(name)
    elif isinstance(node.value, dict):
        for name, item in node.value.items():
            if item.is_variable:
                continue
            with draft.collecting():
                accounts[name] = _account(draft, name, item, taken)
    else:
        raise Refusal(node, "Expected map entries for accounts")
    draft.values["accounts"] = tuple(accounts.values())


def _account(draft: Draft, name: str, node: Value, taken: set[str]) -> AccountOptions:
    if not isinstance(node.value, dict):
        raise Refusal(node, "Expected map entries for accounts")
    _check_account_name(node, name)
    entry = draft.section()
    entry.read(node.value, ACCOUNT)
    found: dict[str, Any] = entry.values
    users = _with_defaults(found.pop("users", ()), found.get("default_permissions"))
    if users:
        place = next(item for key, item in node.value.items() if key.lower() == "users")
        if draft.values.get("username"):
            raise Refusal(place, "Can not have a single user/pass and accounts")
        if draft.values.get("token"):
            raise Refusal(place, "Can not have a token and accounts")
        for user in users:
            if user.username in taken:
                raise Refusal(place, f"Duplicate {user.described} detected")
            taken.add(user.username)
    return AccountOptions(
        name, users=tuple(replace(user, account_name=name) for user in users), **found
    )


def _account_limits(draft: Draft, key: str, node: Value) -> None:
    if not isinstance(node.value, dict):
        raise Refusal(node, f"Expected account limits to be a map/struct, got {value_text(node)}")
    entry = draft.section()
    entry.read(node.value, ACCOUNT_LIMITS, "Unknown field {key} parsing account limits")
    draft.values["limits"] = AccountLimits(**entry.values)


def _check_account_name(node: Value, name: str) -> None:
    if name == GLOBAL_ACCOUNT:
        raise Refusal(node, f"{quote(name)} is a Reserved Account")


# --- the tables --------------------------------------------------------------------------------

TOP_LEVEL: Final[Table] = table(
    # where to listen
    ("listen", _listen),
    ("port", put_unless_zero("port", integer)),
    ("host net", put_unless_zero("host", string)),
    ("client_advertise", put("client_advertise", string)),
    ("http", _http),
    ("http_port monitor_port", put("http_port", integer)),
    ("http_base_path", put("http_base_path", string)),
    # who this server is
    ("server_name", _server_name),
    ("server_tags", _server_tags),
    ("server_metadata", _server_metadata),
    # limits
    ("max_payload", put_size("max_payload", MAX_INT32)),
    ("max_control_line", put_size("max_control_line", MAX_INT32)),
    ("max_pending", put_unless_zero("max_pending", integer)),
    ("max_connections max_conn", _max_connections),
    ("max_subscriptions max_subs", put("max_subscriptions", integer)),
    ("max_sub_tokens max_subscription_tokens", _max_subscription_tokens),
    ("max_closed_clients", put_unless_zero("max_closed_clients", integer)),
    # timing
    ("ping_interval", put_duration("ping_interval_s")),
    ("ping_max", put_unless_zero("ping_max", integer)),
    ("write_deadline", put_duration("write_deadline_s")),
    ("lame_duck_duration", _lame_duck_duration),
    ("lame_duck_grace_period", _lame_duck_grace_period),
    # protocol switches
    ("no_header_support", put("no_header_support", boolean)),
    ("disable_sublist_cache no_sublist_cache", put("disable_sublist_cache", boolean)),
    ("no_fast_producer_stall", put("no_fast_producer_stall", boolean)),
    # logging, pid file and ports file
    ("debug", put("debug", boolean)),
    ("trace", put("trace", boolean)),
    ("trace_verbose", _trace_verbose),
    ("trace_headers", _trace_headers),
    ("max_traced_msg_len", put("max_traced_msg_len", integer)),
    ("logtime", put("logtime", boolean)),
    ("logtime_utc", put("logtime_utc", boolean)),
    ("logfile log_file", put("log_file", string)),
    ("logfile_size_limit log_size_limit", put("log_size_limit", integer)),
    ("logfile_max_num log_max_num", put("log_max_num", integer)),
    ("connect_error_reports", put_unless_zero("connect_error_reports", integer)),
    ("reconnect_error_reports", put_unless_zero("reconnect_error_reports", integer)),
    ("pidfile pid_file", put("pid_file", string)),
    ("ports_file_dir", put("ports_file_dir", string)),
    # who may connect
    ("authorization", _authorization),
    ("accounts", _accounts),
    ("no_auth_user", put("no_auth_user", string)),
    ("system_account system", _system_account),
    ("no_system_account no_system no_sys_acc", put("no_system_account", boolean)),
    # streams
    ("store_dir storedir", store_directory),
    ("jetstream", jetstream),
    ("default_js_domain", not_supported(_LATER)),
    # TLS, and what needs it
    ("tls", _keep_tls),
    ("allow_non_tls", put("allow_non_tls", boolean)),
    ("ocsp", not_supported()),
    ("ocsp_cache", not_supported()),
    ("https", _https),
    ("https_port", put("https_port", integer)),
    # other transports and other servers
    ("websocket ws", not_supported(_LATER)),
    ("mqtt", not_supported()),
    ("cluster", cluster_reader(_read_authorization, _read_permissions)),
    ("gateway", not_supported()),
    ("leaf leafnodes", not_supported(_LATER)),
    ("proxies", not_supported()),
    ("proxy_protocol", not_supported()),
    # subjects that become other subjects
    ("mappings maps", not_supported(_LATER)),
    # identities signed by operators
    (
        "operator operators roots root root_operators root_operator",
        not_supported(_LATER),
    ),
    ("resolver account_resolver accounts_resolver", not_supported(_LATER)),
    ("resolver_tls", not_supported(_LATER)),
    ("resolver_preload", not_supported(_LATER)),
    ("resolver_pinned_accounts", not_supported(_LATER)),
    ("trusted trusted_keys", not_supported(_LATER)),
    ("default_sentinel", not_supported(_LATER)),
    # the rest
    ("write_timeout", not_supported("a slow client is always closed after write_deadline")),
    ("feature_flags", not_supported()),
    ("syslog", not_supported("use log_file")),
    ("remote_syslog", not_supported("use log_file")),
    ("prof_port", not_supported()),
    ("prof_block_rate", not_supported()),
)

AUTHORIZATION: Final[Table] = table(
    ("user username", put("username", string)),
    ("pass password", put("password", string)),
    ("token", put("token", string)),
    ("timeout", _auth_timeout),
    ("users", _users),
    ("default_permission default_permissions permissions", _default_permissions),
    ("auth_callout auth_hook", not_supported(_LATER)),
    ("proxy_required", not_supported()),
)

USER: Final[Table] = table(
    ("user username", put("username", string)),
    ("pass password", put("password", string)),
    ("permission permissions authorization", _permissions),
    ("allowed_connection_types connection_types clients", _allowed_connection_types),
    ("nkey", put("nkey", string)),
    ("proxy_required", not_supported()),
)

ACCOUNT: Final[Table] = table(
    ("users", _users),
    ("default_permissions", _default_permissions),
    ("nkey", not_supported(_LATER)),
    ("imports", not_supported(_LATER)),
    ("exports", not_supported(_LATER)),
    ("jetstream", account_jetstream),
    ("mappings maps", not_supported(_LATER)),
    ("limits", _account_limits),
    ("msg_trace trace_dest", not_supported()),
)

ACCOUNT_LIMITS: Final[Table] = table(
    ("max_connections max_conn", put("max_connections", integer)),
    ("max_subscriptions max_subs", put("max_subscriptions", integer)),
    ("max_payload max_pay", put("max_payload", integer)),
    ("max_leafnodes max_leafs", not_supported(_LATER)),
)

PERMISSIONS: Final[Table] = table(
    ("pub publish import", _publish),
    ("sub subscribe export", _subscribe),
    ("publish_allow_responses allow_responses", _allow_responses),
)

PUBLISH: Final[Table] = table(
    ("allow", put("allow", lambda node: _subjects(node, queues=False))),
    ("deny", put("deny", lambda node: _subjects(node, queues=False))),
)

SUBSCRIBE: Final[Table] = table(
    ("allow", put("allow", lambda node: _subjects(node, queues=True))),
    ("deny", put("deny", lambda node: _subjects(node, queues=True))),
)

RESPONSES: Final[Table] = table(
    ("max max_msgs max_messages max_responses", put_unless_zero("max_msgs", integer)),
    ("expires expiration ttl", _response_ttl),
)
