"""Headers with a meaning in streams, as they stand on the wire."""

from typing import Final

MSG_ID: Final = b"Nats-Msg-Id"
EXPECTED_STREAM: Final = b"Nats-Expected-Stream"
EXPECTED_LAST_SEQUENCE: Final = b"Nats-Expected-Last-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE: Final = b"Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT: Final = b"Nats-Expected-Last-Subject-Sequence-Subject"
EXPECTED_LAST_MSG_ID: Final = b"Nats-Expected-Last-Msg-Id"
ROLLUP: Final = b"Nats-Rollup"
TTL: Final = b"Nats-TTL"
INCREMENT: Final = b"Nats-Incr"
COUNTER_SOURCES: Final = b"Nats-Counter-Sources"
BATCH_ID: Final = b"Nats-Batch-Id"
BATCH_SEQUENCE: Final = b"Nats-Batch-Sequence"
BATCH_COMMIT: Final = b"Nats-Batch-Commit"
SCHEDULE: Final = b"Nats-Schedule"
SCHEDULE_NEXT: Final = b"Nats-Schedule-Next"
SCHEDULER: Final = b"Nats-Scheduler"
STREAM_SOURCE: Final = b"Nats-Stream-Source"
REQUIRED_API_LEVEL: Final = b"Nats-Required-Api-Level"
MARKER_REASON: Final = b"Nats-Marker-Reason"

STREAM: Final = b"Nats-Stream"
SUBJECT: Final = b"Nats-Subject"
SEQUENCE: Final = b"Nats-Sequence"
TIME_STAMP: Final = b"Nats-Time-Stamp"
LAST_SEQUENCE: Final = b"Nats-Last-Sequence"
# The sequence up to which a reply to a session read is complete; not a header of nats-server.
SESSION_SEQUENCE: Final = b"Nats-Session-Sequence"

ROLLUP_SUBJECT: Final = b"sub"
ROLLUP_ALL: Final = b"all"
SCHEDULE_NEXT_PURGE: Final = b"purge"

_PREFIX: Final = b"Nats-"
_CRLF: Final = b"\r\n"


def read_control_headers(block: bytes) -> dict[bytes, bytes]:
    """The headers of a block that a stream may act on, by name.

    The rules are nats-server's: the first of a name counts, names are matched exactly, blanks
    before the value do not count and blanks after it do. An empty value counts as no header.
    """
    found: dict[bytes, bytes] = {}
    if _PREFIX not in block:
        return found
    for line in block.split(_CRLF):
        if line.startswith(_PREFIX):
            name, colon, value = line.partition(b":")
            if colon and name not in found:
                found[name] = value.lstrip(b" ")
    return {name: value for name, value in found.items() if value}
