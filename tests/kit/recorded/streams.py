"""Answers of nats-server to STREAM.CREATE and STREAM.UPDATE, written down once.

`stream_configs.json` has requests that try the rules, `stream_bodies.json` bodies that try the
reader of JSON. `record_streams.py` asks a nats-server again and writes the answers; a case is added
by writing a request without one.

A configuration in an answer is told by how it differs from that of a stream nothing is said about:
null is a key that is not there. Long texts of one character are `{"repeat": ["x", 4096]}`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

Document: TypeAlias = dict[str, Any]

CONFIGS: Final = Path(__file__).with_name("stream_configs.json")
BODIES: Final = Path(__file__).with_name("stream_bodies.json")
ORACLE_VERSION: Final = "2.15.1"
ORACLE_LEVEL: Final = 5

_LONG: Final = 100


def plain_stream(name: str) -> Document:
    """The configuration that nats-server makes of a name alone."""
    return {
        "name": name,
        "subjects": [name],
        "retention": "limits",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": -1,
        "max_msg_size": -1,
        "discard": "old",
        "storage": "file",
        "num_replicas": 1,
        "duplicate_window": 120_000_000_000,
        "compression": "none",
        "allow_direct": False,
        "mirror_direct": False,
        "sealed": False,
        "deny_delete": False,
        "deny_purge": False,
        "allow_rollup_hdrs": False,
        "consumer_limits": {},
        "allow_msg_ttl": False,
        "metadata": {
            "_nats.level": str(ORACLE_LEVEL),
            "_nats.req.level": "0",
            "_nats.ver": ORACLE_VERSION,
        },
    }


def difference(config: Mapping[str, Any]) -> Document:
    """The difference between a configuration and that of a plain stream of its name."""
    plain = plain_stream(config["name"])
    changed = {key: value for key, value in config.items() if plain.get(key) != value}
    return changed | {key: None for key in plain if key not in config}


def answer(reply: Document) -> Document:
    """The part of a reply that is recorded."""
    error: Document | None = reply.get("error")
    return {"config": difference(reply["config"])} if error is None else {"error": error}


def from_difference(changed: Mapping[str, Any], name: str) -> Document:
    """The configuration that has this difference."""
    config = {**plain_stream(name), **changed}
    return {key: value for key, value in config.items() if value is not None}


def expanded(value: Any) -> Any:
    """The value with its long texts in full."""
    if isinstance(value, dict):
        if list(value) == ["repeat"]:
            text, count = value["repeat"]
            return text * count
        return {key: expanded(part) for key, part in value.items()}
    return [expanded(part) for part in value] if isinstance(value, list) else value


def shortened(value: Any) -> Any:
    """The value with its long texts counted instead of spelled."""
    if isinstance(value, dict):
        return {key: shortened(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shortened(part) for part in value]
    if isinstance(value, str) and len(value) > _LONG and len(set(value)) == 1:
        return {"repeat": [value[0], len(value)]}
    return value


def as_bytes(text: str) -> bytes:
    """A body; bytes that are no UTF-8 are lone surrogates in the file."""
    return text.encode("utf-8", "surrogateescape")


def load(path: Path) -> Any:
    """The recorded cases, with their long texts in full."""
    return expanded(json.loads(path.read_text(encoding="utf-8")))
