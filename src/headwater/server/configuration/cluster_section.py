"""The `cluster` section of a configuration file, and route URLs in files and flags.

Each key is honoured or refused by name. Texts and rules are nats-server's.

Authorization and permissions are read as those of clients are; the readers of those sections are
given to `cluster_reader`, because they stand above this module.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from headwater.go.quoting import quote
from headwater.server.configuration.options import (
    CLUSTER_NAME_HAS_SPACES,
    ClusterOptions,
    Permissions,
    RouteUrl,
    SubjectPermission,
)
from headwater.server.configuration.parser import Value
from headwater.server.configuration.reading import (
    Draft,
    Handler,
    Refusal,
    Table,
    address,
    boolean,
    integer,
    mapping,
    not_supported,
    put,
    put_duration,
    put_unless_zero,
    string,
    table,
    type_name,
)
from headwater.subjects.grammar import is_valid_pattern

PING_INTERVAL_S_MAX: Final = 30.0

_LATER: Final = "it comes with a later release, remove it for now"
_TWO: Final = "a link always has two connections"

ReadAuthorization = Callable[[Draft, Mapping[str, Value]], dict[str, Any]]
ReadPermissions = Callable[[Draft, Value], Permissions]


def parse_route_url(text: str) -> RouteUrl | None:
    """The server that a URL names; None for a text that is no URL of a server."""
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        return None
    if not parts.hostname or port is None:
        return None
    return RouteUrl(
        parts.hostname, port, unquote(parts.username or ""), unquote(parts.password or "")
    )


def cluster_reader(
    read_authorization: ReadAuthorization, read_permissions: ReadPermissions
) -> Handler:
    """The handler of the section."""

    def cluster(draft: Draft, key: str, node: Value) -> None:
        if not isinstance(node.value, dict):
            raise Refusal(node, f"Expected map to define cluster, got {type_name(node)}")
        section = draft.section()
        section.read(node.value, CLUSTER)
        values = section.values
        readers = (("authorization", authorization), ("permissions", permissions))
        parts = [(read, values.pop(name, None)) for name, read in readers]
        for read, part in parts:
            if part is not None:
                with section.collecting():
                    read(section, *part)
        draft.values["cluster"] = ClusterOptions(**values)

    def authorization(section: Draft, key: str, node: Value) -> None:
        found = read_authorization(section, mapping(node))
        if "users" in found:
            raise Refusal(node, "Cluster authorization does not allow multiple users")
        if found.get("token"):
            raise Refusal(node, "Cluster authorization does not support tokens")
        inner = found.pop("default_permissions", None)
        section.values.update(found)
        if inner is not None:
            _check_permissions(node, inner)
            section.warn(
                key,
                node,
                'setting "permissions" within cluster authorization block is deprecated',
            )
            section.values["permissions"] = inner

    def permissions(section: Draft, key: str, node: Value) -> None:
        found = read_permissions(section, node)
        if found.allow_responses is not None:
            raise Refusal(node, "Cluster permissions do not support dynamic responses")
        _check_permissions(node, found)
        section.values["permissions"] = found

    return cluster


def _keep(draft: Draft, key: str, node: Value) -> None:
    """Keep a part that is read after the others: permissions win over those of authorization."""
    draft.values[key.lower()] = key, node


def _name(draft: Draft, key: str, node: Value) -> None:
    name = string(node)
    if " " in name:
        raise Refusal(node, CLUSTER_NAME_HAS_SPACES)
    draft.values["name"] = name


def _listen(draft: Draft, key: str, node: Value) -> None:
    host, draft.values["port"] = address(node)
    if host:
        draft.values["host"] = host


def _routes(draft: Draft, key: str, node: Value) -> None:
    if not isinstance(node.value, list):
        # As Go reports a value of another type.
        raise Refusal(
            node, f"interface conversion: interface {{}} is {type_name(node)}, not []interface {{}}"
        )
    routes: dict[str, RouteUrl] = {}
    for item in node.value:
        with draft.collecting():
            text = string(item)
            if text in routes:
                draft.warn(text, item, "Duplicate route entry detected")
                continue
            route = parse_route_url(text)
            if route is None:
                raise Refusal(item, f"error parsing route url [{quote(text.strip())}]")
            routes[text] = route
    draft.values["routes"] = tuple(routes.values())


_ping_interval: Final = put_duration("ping_interval_s")


def _route_ping_interval(draft: Draft, key: str, node: Value) -> None:
    _ping_interval(draft, key, node)
    if draft.values.get("ping_interval_s", 0.0) > PING_INTERVAL_S_MAX:
        draft.warnings.append(
            f"{node.where()}: Cluster 'ping_interval' will reset to 30s which is the max for routes"
        )


def _check_permissions(node: Value, permissions: Permissions) -> None:
    for direction, permission in (
        ("import", permissions.publish),
        ("export", permissions.subscribe),
    ):
        permission = permission or SubjectPermission()
        for kind, subjects in (("allow", permission.allow), ("deny", permission.deny)):
            for subject in subjects or ():
                if " " in subject or not is_valid_pattern(subject.encode()):
                    raise Refusal(
                        node,
                        f"cluster {direction} {kind}: subject {quote(subject)} "
                        "is not a valid subject",
                    )


CLUSTER: Final[Table] = table(
    ("name", _name),
    ("listen", _listen),
    ("port", put("port", integer)),
    ("host net", put_unless_zero("host", string)),
    ("authorization", _keep),
    ("routes", _routes),
    ("cluster_advertise advertise", put("advertise", string)),
    ("no_advertise", put("no_advertise", boolean)),
    ("connect_retries", put("connect_retries", integer)),
    ("connect_backoff", put("connect_backoff", boolean)),
    ("permissions", _keep),
    ("ping_interval", _route_ping_interval),
    ("ping_max", put_unless_zero("ping_max", integer)),
    ("write_deadline", put_duration("write_deadline_s")),
    ("heartbeat_interval", put_duration("heartbeat_interval_s")),
    ("election_timeout", put_duration("election_timeout_s")),
    ("unclean_wait", put_duration("unclean_wait_s")),
    ("tls", not_supported(_LATER)),
    ("accounts", not_supported("all accounts share the connections of a link")),
    ("pool_size", not_supported(_TWO)),
    ("compression", not_supported()),
    ("write_timeout", not_supported("a slow server is always disconnected after write_deadline")),
)
