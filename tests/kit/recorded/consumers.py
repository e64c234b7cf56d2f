"""Answers of nats-server to calls of the consumer API, written down once.

`consumer_calls.json` has groups of cases; a group is one configuration of the server. A case makes
a stream, then calls, of which the last one is answered. `record_consumers.py` asks a nats-server
again and writes the answers; a case is added by writing a call without one.

An answer is told by how it differs from that about a consumer nothing is said about: null is a key
that is not there. Times, durations that run and names that were drawn are masked. Long texts of one
character are `{"repeat": ["x", 4096]}`.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.kit.recorded.streams import ORACLE_LEVEL, ORACLE_VERSION, Document

Call: TypeAlias = list[Any]

CALLS: Final = Path(__file__).with_name("consumer_calls.json")
STREAM: Final[Document] = {"name": "S", "subjects": ["s.>"]}
SERVER_METADATA: Final = {"_nats.level": str(ORACLE_LEVEL), "_nats.ver": ORACLE_VERSION}

_MASK: Final = "masked"
_RUNNING: Final = ("created", "ts", "pause_remaining")
_DRAWN: Final = re.compile(r"\b[0-9A-Za-z]{8}$")


def plain_consumer(name: str) -> Document:
    """The configuration that nats-server makes of a name alone."""
    return {
        "name": name,
        "deliver_policy": "all",
        "ack_policy": "none",
        "max_deliver": -1,
        "replay_policy": "instant",
        "max_waiting": 512,
        "inactive_threshold": 5_000_000_000,
        "num_replicas": 0,
        "metadata": {**SERVER_METADATA, "_nats.req.level": "0"},
    }


def plain_reply(name: str) -> Document:
    """The reply about a consumer that has delivered nothing."""
    return {
        "type": "io.nats.jetstream.api.v1.consumer_create_response",
        "stream_name": "S",
        "name": name,
        "created": _MASK,
        "config": plain_consumer(name),
        "delivered": {"consumer_seq": 0, "stream_seq": 0},
        "ack_floor": {"consumer_seq": 0, "stream_seq": 0},
        "num_ack_pending": 0,
        "num_redelivered": 0,
        "num_waiting": 0,
        "num_pending": 0,
        "ts": _MASK,
    }


def answer(case: Document, reply: Document | None) -> Document | None:
    """The part of a reply that is recorded; None is silence."""
    if reply is None or "error" in reply or "stream_name" not in reply:
        return None if reply is None else _masked(reply, json.dumps(case))
    masked = _masked(reply, json.dumps(case))
    plain = plain_reply(masked["name"])
    told = _difference(masked, plain)
    if "config" in told:
        told["config"] = _difference(masked["config"], plain["config"])
    return told


def _masked(value: Any, asked: str) -> Any:
    if isinstance(value, list):
        return [_masked(each, asked) for each in value]
    if not isinstance(value, dict):
        return value
    masked = {
        key: _MASK if key in _RUNNING else _masked(part, asked) for key, part in value.items()
    }
    name = masked.get("name")
    if isinstance(name, str) and name not in asked:
        masked["name"] = _DRAWN.sub("DRAWN", name)
    return masked


def _difference(value: Mapping[str, Any], plain: Mapping[str, Any]) -> Document:
    changed = {key: part for key, part in value.items() if plain.get(key) != part}
    return changed | {key: None for key in plain if key not in value}


def body_of(call: Call) -> bytes:
    """The body of a call: a document, or a text that is sent as it is."""
    body = call[1] if len(call) > 1 else ""
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()
