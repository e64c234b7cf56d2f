"""Reload plans: the consequences of a changed configuration for a running server.

Every field of Options is in one of two tables: fields that a running server takes over, with their
lines in the log, and fields that need a restart, with nats-server's names for them. JetStream has
rules of its own, and a table for the rest of its fields.

This module knows options only; the server applies a plan.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Final

from headwater.go.durations import format_seconds
from headwater.go.numbers import format_float
from headwater.server.configuration.options import (
    RANDOM_PORT,
    ClusterOptions,
    JetStreamOptions,
    Options,
    OptionsError,
    TlsOptions,
)
from headwater.server.streams.storage.resources import friendly_bytes


@dataclass(frozen=True)
class ReloadPlan:
    """The outcome of comparing two configurations."""

    # The options to run with from now on; the old options if `error` is set.
    options: Options
    # Names of the fields that changed, in the order of Options.
    changed: tuple[str, ...] = ()
    # The lines of the log after "Reloaded: ", in that order.
    changes: tuple[str, ...] = ()
    # The reason for which no option may change. Empty without one.
    error: str = ""


def changed_options(old: Options, new: Options) -> ReloadPlan:
    """Compare the options in force with those of the configuration now."""
    try:
        new.validate()
    except OptionsError as error:
        return ReloadPlan(old, error=str(error))
    new = _kept_ports(old, new)
    changed = tuple(
        field.name
        for field in fields(Options)
        if getattr(old, field.name) != getattr(new, field.name)
    )
    for name in changed:
        refusal = _refusal(name, old, new)
        if refusal:
            return ReloadPlan(old, error=f"config reload not supported for {refusal}")
    lines: list[str] = []
    for name in changed:
        if name == "jetstream":
            lines += _raised_limits(old.jetstream, new.jetstream)
        elif name == "cluster":
            lines += _cluster_lines(old.cluster, new.cluster)
        elif name == "tls":
            lines += _tls_lines(old.tls, new.tls)
        elif name not in _WITHOUT_LINE:
            lines.append(RELOADED[name](getattr(new, name)))
    return ReloadPlan(new, changed, tuple(lines))


def _kept_ports(old: Options, new: Options) -> Options:
    """The new options with the ports in use, where any free port was asked for."""
    return replace(
        new,
        port=old.port if new.port == RANDOM_PORT else new.port,
        http_port=old.http_port if new.http_port == RANDOM_PORT else new.http_port,
        https_port=old.https_port if new.https_port == RANDOM_PORT else new.https_port,
        cluster=replace(new.cluster, port=old.cluster.port)
        if new.cluster.port == RANDOM_PORT
        else new.cluster,
    )


def _refusal(name: str, old: Options, new: Options) -> str:
    """The refusal of a change that needs a restart; empty if it does not."""
    if name == "jetstream":
        return _jetstream_refusal(old.jetstream, new.jetstream)
    if name == "cluster":
        return _cluster_refusal(old.cluster, new.cluster)
    before, after = _shown(getattr(old, name)), _shown(getattr(new, name))
    if name == "no_auth_user":
        gone = all(user.username != old.no_auth_user for user in new.all_users())
        if not new.no_auth_user and gone:
            return ""
        return f"NoAuthUser: old={before}, new={after}"
    if name not in NEEDS_RESTART:
        return ""
    return f"{NEEDS_RESTART[name]}: old={before}, new={after}"


def _jetstream_refusal(old: JetStreamOptions, new: JetStreamOptions) -> str:
    """Limits that were set may be raised; everything else of JetStream needs a restart."""
    if old.enabled != new.enabled:
        return f"JetStream: old={_shown(old.enabled)}, new={_shown(new.enabled)}"
    if not new.enabled:
        return ""
    if old.store_dir != new.store_dir:
        return "jetstream storage directory" if new.store_dir else "jetstream storage dir"
    for name in _JETSTREAM_LIMITS:
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        if before < 0:
            return "jetstream dynamic max memory and store"
        if after < 0:
            return "jetstream max memory and max store"
        if after < before:
            return "decreasing jetstream max memory and store"
    for name, title in JETSTREAM_NEEDS_RESTART.items():
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            is_secret = name in _SECRETS
            return title if is_secret else f"{title}: old={_shown(before)}, new={_shown(after)}"
    return ""


def _cluster_refusal(old: ClusterOptions, new: ClusterOptions) -> str:
    """The address of a cluster needs a restart, and so does its beginning and its end."""
    if old.host != new.host:
        return f"cluster host: old={old.host}, new={new.host}"
    if old.port != new.port:
        return f"cluster port: old={old.port}, new={new.port}"
    for name in ("heartbeat_interval", "election_timeout", "unclean_wait"):
        before, after = getattr(old, f"{name}_s"), getattr(new, f"{name}_s")
        if before != after:
            return f"cluster {name}: old={before:g}s, new={after:g}s"
    return ""


def _cluster_lines(old: ClusterOptions, new: ClusterOptions) -> list[str]:
    lines = []
    if replace(old, routes=()) != replace(new, routes=()):
        lines.append("cluster")
    if old.routes != new.routes:
        lines.append("cluster routes")
    return lines


def _tls_lines(old: TlsOptions | None, new: TlsOptions | None) -> list[str]:
    before, after = old or TlsOptions(), new or TlsOptions()
    lines = []
    if before.timeout_s != after.timeout_s:
        lines.append(f"tls timeout = {format_float(after.timeout_s)}")
    if (old is None) != (new is None) or before.settings != after.settings:
        lines.append(f"tls = {'disabled' if new is None else 'enabled'}")
    if before.pinned_keys != after.pinned_keys:
        lines.append(f"{len(after.pinned_keys)} pinned_certs")
    if before.is_first != after.is_first:
        lines.append(f"Client TLS handshake first: {_shown(after.is_first)}")
    return lines


def _raised_limits(old: JetStreamOptions, new: JetStreamOptions) -> list[str]:
    return [
        f"JetStream {label} = {friendly_bytes(getattr(new, name))}"
        for name, label in _JETSTREAM_LIMITS.items()
        if new.enabled and getattr(old, name) != getattr(new, name)
    ]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.value if isinstance(value, Enum) else value)


Line = Callable[[Any], str]


def _value(label: str) -> Line:
    return lambda value: f"{label} = {_shown(value)}"


def _duration(label: str) -> Line:
    return lambda seconds: f"{label} = {format_seconds(seconds)}"


def _only(label: str) -> Line:
    return lambda value: label


def _stalling(no_fast_producer_stall: bool) -> str:
    return f"fast producers will {'not ' if no_fast_producer_stall else ''}be stalled"


# Fields without a line: they change with another field, or are of no interest.
_WITHOUT_LINE: Final = frozenset({"config_digest", "default_permissions", "has_authorization"})

RELOADED: Final[Mapping[str, Line]] = {
    "client_advertise": _value("client_advertise"),
    "server_tags": _only("tags"),
    "server_metadata": _only("metadata"),
    "max_payload": _value("max_payload"),
    "max_control_line": _value("max_control_line"),
    "max_pending": _value("max_pending"),
    "max_connections": _value("max_connections"),
    "max_subscriptions": _value("max_subscriptions"),
    "max_subscription_tokens": _value("max_subscription_tokens"),
    "write_deadline_s": _duration("write_deadline"),
    "ping_interval_s": _duration("ping_interval"),
    "ping_max": _value("ping_max"),
    "auth_timeout_s": lambda seconds: f"authorization timeout = {format_float(seconds)}",
    "lame_duck_duration_s": _duration("lame_duck_duration"),
    "lame_duck_grace_period_s": _duration("lame_duck_grace_period"),
    "no_fast_producer_stall": _stalling,
    "debug": _value("debug"),
    "trace": _value("trace"),
    "trace_verbose": _value("trace_verbose"),
    "trace_headers": _value("trace_headers"),
    "max_traced_msg_len": _value("max_traced_msg_len"),
    "logtime": _value("logtime"),
    "logtime_utc": _value("logtime_utc"),
    "log_file": _value("log_file"),
    "log_size_limit": _value("log_size_limit"),
    "log_max_num": _value("log_max_num"),
    "connect_error_reports": _value("connect_error_reports"),
    "reconnect_error_reports": _value("reconnect_error_reports"),
    "pid_file": _value("pid_file"),
    "ports_file_dir": _value("ports_file_dir"),
    "username": _only("authorization username"),
    "password": _only("authorization password"),
    "token": _only("authorization token"),
    "users": _only("authorization users"),
    "no_auth_user": _value("no_auth_user"),
    "accounts": _only("accounts"),
}

NEEDS_RESTART: Final[Mapping[str, str]] = {
    "host": "Host",
    "port": "Port",
    "server_name": "ServerName",
    "http_host": "HTTPHost",
    "http_port": "HTTPPort",
    "http_base_path": "HTTPBasePath",
    "https_port": "HTTPSPort",
    "allow_non_tls": "AllowNonTLS",
    "max_closed_clients": "MaxClosedClients",
    "no_header_support": "NoHeaderSupport",
    "disable_sublist_cache": "NoSublistCache",
    "system_account": "SystemAccount",
    "no_system_account": "NoSystemAccount",
    "config_file": "ConfigFile",
}

# Limits that may be raised, with their names in the log.
_JETSTREAM_LIMITS: Final[Mapping[str, str]] = {
    "max_memory_bytes": "max_mem_store",
    "max_file_bytes": "max_file_store",
}
_SECRETS: Final = frozenset({"encryption_key", "previous_encryption_key"})

JETSTREAM_NEEDS_RESTART: Final[Mapping[str, str]] = {
    "runtime_dir": "JetStreamRuntimeDir",
    "strict": "JetStreamStrict",
    "domain": "JetStreamDomain",
    "encryption_key": "JetStreamKey",
    "previous_encryption_key": "JetStreamOldKey",
    "cipher": "JetStreamCipher",
    "unique_tag": "JetStreamUniqueTag",
    "outstanding_catch_up_bytes_max": "JetStreamMaxCatchup",
    "sync_interval_s": "SyncInterval",
    "sync_always": "SyncAlways",
    "ack_timeout_ns": "JetStreamAckTimeout",
    "eventual_max_tail": "JetStreamEventualMaxTail",
    "linearizable_reads": "JetStreamLinearizableReads",
    "lease_ns": "JetStreamLease",
    "max_buffered_messages": "StreamMaxBufferedMsgs",
    "max_buffered_bytes": "StreamMaxBufferedSize",
    "duplicate_window_max_ns": "JetStreamLimits",
    "max_ack_pending": "JetStreamLimits",
    "max_request_batch": "JetStreamLimits",
    "max_ha_assets": "JetStreamLimits",
    "default_max_consumers": "JetStreamLimits",
    "batches": "JetStreamLimits",
}
