"""The `jetstream` section of a configuration file, of the server and of an account.

Each key is honoured or refused by name. Keys of clusters have no effect on a server on its own;
monitoring shows two of them (`unique_tag`, `max_ha_assets`).
"""

import re
from typing import Final

from headwater.base.clock import NS_PER_S
from headwater.go.numbers import MAX_INT64
from headwater.go.quoting import quote
from headwater.jetstream.account import AccountLimits
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from headwater.server.configuration.options import LinearizableReads, StoreCipher
from headwater.server.configuration.parser import Value
from headwater.server.configuration.reading import (
    Draft,
    Handler,
    Refusal,
    Table,
    boolean,
    duration_s,
    integer,
    not_supported,
    put,
    put_duration,
    string,
    table,
    type_name,
    value_text,
)

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_SIZE_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_CIPHERS: Final = {
    "chacha": StoreCipher.CHACHA,
    "chachapoly": StoreCipher.CHACHA,
    "aes": StoreCipher.AES,
}
# The next leader passes over as many sequences as one may be ahead.
EVENTUAL_TAIL_MAX: Final = 1 << 24
_NO_QUEUE: Final = "requests are answered in the order in which they are read, none is queued"
_NO_EXTENSIONS: Final = "streams of other servers are not extended across leaf nodes"
_COMPACTED: Final = "the log of the meta group is kept short by itself"


def jetstream(draft: Draft, key: str, node: Value) -> None:
    """Streams of the server: switched on or off by a word, or described by a map."""
    section = draft.section()
    if draft.values.get("store_dir"):
        section.values["store_dir"] = draft.values["store_dir"]
    if isinstance(node.value, dict):
        section.values["enabled"] = True
        section.read(node.value, JETSTREAM)
    else:
        section.values["enabled"] = _switch(node)
    # There is one folder, whichever of the two places names it.
    draft.values["store_dir"] = section.values.pop("store_dir", "")
    draft.values["jetstream"] = section.values


def account_jetstream(draft: Draft, key: str, node: Value) -> None:
    """Streams of an account: allowed or not, or allowed within limits."""
    if isinstance(node.value, dict):
        section = draft.section()
        section.read(node.value, ACCOUNT_JETSTREAM)
        draft.values["jetstream"] = AccountLimits(**section.values)
    else:
        draft.values["jetstream"] = AccountLimits() if _switch(node) else None


def store_directory(draft: Draft, key: str, node: Value) -> None:
    """The folder of the store, which may be named at the top or in the section, once."""
    if draft.values.get("store_dir"):
        raise Refusal(node, "Duplicate 'store_dir' configuration")
    draft.values["store_dir"] = string(node)


def _switch(node: Value) -> bool:
    value = node.value
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise Refusal(
            node, f"Expected map, bool or string to define JetStream, got {type_name(node)}"
        )
    if value.lower() in ("enabled", "enable"):
        return True
    if value.lower() in ("disabled", "disable"):
        return False
    raise Refusal(node, f"Expected 'enabled' or 'disabled' for string value, got '{value}'")


# --- values ------------------------------------------------------------------------------------


def _size(node: Value, name: str) -> int:
    """A number of bytes, or a text such as "10G". An error names it by `name`."""
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise Refusal(node, f"{name} must be int64 or string")
    if not value:
        return 0
    digits, unit = value[:-1], value[-1]
    if _INTEGER.fullmatch(digits) is None:
        raise Refusal(node, f"{name} strconv.ParseInt: parsing {quote(digits)}: invalid syntax")
    if unit not in _SIZE_UNITS:
        raise Refusal(node, f"{name} sizes defined as strings must end in K, M, G, T")
    size = int(digits) * _SIZE_UNITS[unit] if len(digits) < len(str(MAX_INT64)) else MAX_INT64 + 1
    if abs(size) > MAX_INT64:
        raise Refusal(node, f"{name} value is too big")
    return size


def _put_size(field: str, name: str) -> Handler:
    def handler(draft: Draft, key: str, node: Value) -> None:
        draft.values[field] = _size(node, name)

    return handler


def _plain_integer(key: str, node: Value) -> int:
    if isinstance(node.value, bool) or not isinstance(node.value, int):
        raise Refusal(node, f"Expected a parseable size for {quote(key)}, got {value_text(node)}")
    return node.value


def _put_integer(field: str) -> Handler:
    def handler(draft: Draft, key: str, node: Value) -> None:
        draft.values[field] = _plain_integer(key, node)

    return handler


def _put_boolean(field: str) -> Handler:
    def handler(draft: Draft, key: str, node: Value) -> None:
        if not isinstance(node.value, bool):
            raise Refusal(
                node, f"Expected a parseable bool for {quote(key)}, got {value_text(node)}"
            )
        draft.values[field] = node.value

    return handler


# --- keys of the server ------------------------------------------------------------------------


def _sync_interval(draft: Draft, key: str, node: Value) -> None:
    if isinstance(node.value, str) and node.value.lower() == "always":
        draft.values["sync_always"] = True
        return
    put_duration("sync_interval_s")(draft, key, node)
    if draft.values.get("sync_interval_s", 1) < 0:
        raise Refusal(node, f"error parsing {key.lower()}: it can not be negative")


def _strict(draft: Draft, key: str, node: Value) -> None:
    if not isinstance(node.value, bool):
        text = value_text(node)
        raise Refusal(node, f"Expected 'true' or 'false' for bool value, got '{text}'")
    draft.values["strict"] = node.value


def _cipher(draft: Draft, key: str, node: Value) -> None:
    name = string(node)
    if name.lower() not in _CIPHERS:
        raise Refusal(node, f"Unknown cipher type: {quote(name)}")
    draft.values["cipher"] = _CIPHERS[name.lower()]


def _max_buffered_messages(draft: Draft, key: str, node: Value) -> None:
    count = _plain_integer(key, node)
    # Zero says nothing and leaves the default.
    if count:
        draft.values["max_buffered_messages"] = count


def _max_buffered_bytes(draft: Draft, key: str, node: Value) -> None:
    size = _size(node, key.lower())
    if size:
        draft.values["max_buffered_bytes"] = size


def _limits(draft: Draft, key: str, node: Value) -> None:
    if not isinstance(node.value, dict):
        raise Refusal(node, f"Expected a map to define JetStreamLimits, got {type_name(node)}")
    section = draft.section()
    section.read(node.value, LIMITS)
    draft.values.update(section.values)


def _duplicate_window(draft: Draft, key: str, node: Value) -> None:
    seconds = duration_s(node, string(node), f"error parsing {key}:")
    draft.values["duplicate_window_max_ns"] = round(seconds * NS_PER_S)


def _batch_limits(draft: Draft, key: str, node: Value) -> None:
    if not isinstance(node.value, dict):
        raise Refusal(node, f"Expected a map to define batch limits, got {type_name(node)}")
    section = draft.section()
    section.read(node.value, BATCH_LIMITS)
    # Others leave the default.
    chosen = {name: value for name, value in section.values.items() if value > 0}
    draft.values["batches"] = BatchLimits(**chosen)


def _batch_timeout(draft: Draft, key: str, node: Value) -> None:
    seconds = duration_s(node, string(node), f"error parsing {key}:")
    draft.values["idle_ns_max"] = round(seconds * NS_PER_S)


def _ack_timeout(draft: Draft, key: str, node: Value) -> None:
    """The time for which a publish waits for its quorum; zero waits without end."""
    # Zero is a choice here: it must replace the default.
    draft.values["ack_timeout_ns"] = 0
    _put_positive_time("ack_timeout_ns")(draft, key, node)


def _eventual_max_tail(draft: Draft, key: str, node: Value) -> None:
    """The messages by which the leader of an eventual stream may be ahead of its quorum."""
    count = _plain_integer(key, node)
    if not 0 < count <= EVENTUAL_TAIL_MAX:
        raise Refusal(node, f"{key.lower()} must be between 1 and {EVENTUAL_TAIL_MAX}, not {count}")
    draft.values["eventual_max_tail"] = count


def _put_positive_time(field: str) -> Handler:
    """Keep a duration in nanoseconds that is not negative."""

    def handler(draft: Draft, key: str, node: Value) -> None:
        section = draft.section()
        put_duration("seconds")(section, key, node)
        seconds = section.values.get("seconds", 0.0)
        if seconds < 0:
            raise Refusal(node, f"error parsing {key.lower()}: it cannot be negative")
        if seconds:
            draft.values[field] = round(seconds * NS_PER_S)

    return handler


def _linearizable_reads(draft: Draft, key: str, node: Value) -> None:
    name = string(node)
    try:
        draft.values["linearizable_reads"] = LinearizableReads(name.lower())
    except ValueError:
        raise Refusal(
            node, f"Expected 'lease' or 'quorum' string value for {quote(key)}, got {name}"
        ) from None


def _cluster_traffic(draft: Draft, key: str, node: Value) -> None:
    """The account under which the frames of consensus of an account's streams are reported."""
    if not isinstance(node.value, str):
        raise Refusal(
            node,
            f"Expected either 'system' or 'owner' string value for {quote(key)}, "
            f"got {value_text(node)}",
        )
    if node.value not in ("system", "owner", ""):
        raise Refusal(
            node,
            f"Expected 'system' or 'owner' string value for {quote(key)}, got {node.value}",
        )
    draft.values["owns_traffic"] = node.value == "owner"


JETSTREAM: Final[Table] = table(
    ("enable enabled", put("enabled", boolean)),
    ("store store_dir storedir", store_directory),
    ("runtime_dir", put("runtime_dir", string)),
    ("sync sync_interval", _sync_interval),
    ("max_memory_store max_mem_store max_mem", _put_size("max_memory_bytes", "max_mem_store")),
    ("max_file_store max_file", _put_size("max_file_bytes", "max_file_store")),
    ("domain", put("domain", string)),
    ("strict", _strict),
    ("limits", _limits),
    ("key ek encryption_key", put("encryption_key", string)),
    ("prev_key prev_ek prev_encryption_key", put("previous_encryption_key", string)),
    ("cipher", _cipher),
    ("tpm", not_supported("name the key with encryption_key")),
    ("max_buffered_msgs", _max_buffered_messages),
    ("max_buffered_size", _max_buffered_bytes),
    ("request_queue_limit info_queue_limit", not_supported(_NO_QUEUE)),
    ("max_concurrent_io", not_supported("one thread at a time uses the disk")),
    # of clusters
    ("unique_tag", put("unique_tag", lambda node: string(node).strip().lower())),
    (
        "max_outstanding_catchup",
        _put_size("outstanding_catch_up_bytes_max", "max_outstanding_catchup"),
    ),
    ("ack_timeout", _ack_timeout),
    ("eventual_max_tail", _eventual_max_tail),
    ("linearizable_reads", _linearizable_reads),
    ("lease", _put_positive_time("lease_ns")),
    ("extension_hint", not_supported(_NO_EXTENSIONS)),
    ("meta_compact meta_compact_size meta_compact_sync", not_supported(_COMPACTED)),
)

LIMITS: Final[Table] = table(
    ("duplicate_window", _duplicate_window),
    ("max_ha_assets", put("max_ha_assets", integer)),
    ("max_ack_pending", put("max_ack_pending", integer)),
    ("max_request_batch", put("max_request_batch", integer)),
    ("default_max_consumers", put("default_max_consumers", integer)),
    ("batch", _batch_limits),
)


BATCH_LIMITS: Final[Table] = table(
    ("max_inflight_per_stream", put("per_stream_max", integer)),
    ("max_inflight_total", put("total_max", integer)),
    ("max_msgs", put("messages_max", integer)),
    ("timeout", _batch_timeout),
)

ACCOUNT_JETSTREAM: Final[Table] = table(
    ("max_memory max_mem mem memory", _put_integer("max_memory")),
    ("max_store max_file max_disk store disk", _put_integer("max_storage")),
    ("max_streams streams", _put_integer("max_streams")),
    ("max_consumers consumers", _put_integer("max_consumers")),
    ("max_bytes_required max_stream_bytes max_bytes", _put_boolean("max_bytes_required")),
    (
        "mem_max_stream_bytes memory_max_stream_bytes",
        _put_integer("memory_max_stream_bytes"),
    ),
    (
        "disk_max_stream_bytes store_max_stream_bytes",
        _put_integer("storage_max_stream_bytes"),
    ),
    ("max_ack_pending", _put_integer("max_ack_pending")),
    ("cluster_traffic", _cluster_traffic),
)
