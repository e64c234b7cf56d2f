"""The floods: bytes that one connection sends as fast as it can while another client waits.

A flood is data: the preparation of the server, the bytes that the connection sends before the clock
runs, and the bytes that it then repeats. Each flood gets a server of its own, so nothing is cleaned
up afterwards. Sizes are those at which a server was seen to stall; a quick run uses a part of them.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from benchmarks.servers import Server
from benchmarks.stream_load import INBOX, Publishing, create_stream, publish_rate

STREAM: Final = "FLOOD"
# Replaced in a repeated buffer by the number of the repetition, which has as many digits.
PASS_MARK: Final = b"@@@@@@@@"

# Large enough that the sender is hardly ever between two buffers.
OPERATIONS_PER_BUFFER: Final = 20_000
# Tokens, of two bytes each, that fit into the megabyte that servers accept by default.
FILTER_TOKENS: Final = 450_000
FILTERS: Final = 40_000
PURGED_SUBJECTS: Final = 1_000_000
LISTED_SUBJECTS: Final = 100_000
# Messages that one request or publish removes, and subjects whose last message a consumer wants.
WALKED_MESSAGES: Final = 1_000_000
LAST_SUBJECTS: Final = 500_000
UNKNOWN_KEYS: Final = 60_000
SUBSCRIPTIONS_OF_ONE_CLIENT: Final = 500_000
EQUAL_SUBSCRIPTIONS: Final = 100_000


@dataclass(frozen=True)
class Size:
    """The part of the full sizes."""

    share: float = 1.0

    def of(self, full: int) -> int:
        """That part of a full number."""
        return max(int(full * self.share), 1)


def nothing_before(server: Server, size: Size) -> None:
    """Prepare nothing."""


def no_bytes(size: Size) -> bytes:
    """Send nothing."""
    return b""


@dataclass(frozen=True)
class Flood:
    """One row of the table."""

    name: str
    title: str
    buffer: Callable[[Size], bytes] = no_bytes
    """Whole operations, repeated; PASS_MARK in them becomes the number of the repetition."""
    repeats_max: int | None = None
    """None: until the time is over. Long requests are sent only this many times."""
    setup: Callable[[Server, Size], None] = nothing_before
    prelude: Callable[[Size], bytes] = no_bytes
    """Sent by the same connection and processed by the server before the clock runs."""
    leaves: bool = False
    """The connection is closed as soon as everything has been sent."""


# --- preparation --------------------------------------------------------------------------------


def small_stream(server: Server, size: Size) -> None:
    """A stream with a few messages."""
    create_stream(server, {"name": STREAM, "subjects": ["flood.>"]})
    publish_rate(server, Publishing("flood.{}", 16, 100, 100), 100)


def purged_stream(server: Server, size: Size) -> None:
    """A stream with a message on each of very many subjects."""
    stream_of(server, size.of(PURGED_SUBJECTS))


def listed_stream(server: Server, size: Size) -> None:
    """A stream with as many subjects as one page of STREAM.INFO holds."""
    stream_of(server, size.of(LISTED_SUBJECTS))


def stored_stream(server: Server, size: Size) -> None:
    """A stream on disk of which the flood removes everything."""
    stream_of(server, size.of(WALKED_MESSAGES), storage="file", allow_rollup_hdrs=True)


def stream_of_lasts(server: Server, size: Size) -> None:
    """A stream with two messages on each of very many subjects."""
    subjects = size.of(LAST_SUBJECTS)
    stream_of(server, subjects)
    publish_rate(server, Publishing("flood.{}.a", 8, 1000, subjects), subjects)


def stream_of(server: Server, subjects: int, **config: object) -> None:
    """A stream with `subjects` subjects, in memory unless `config` has another storage."""
    config = {"name": STREAM, "subjects": ["flood.>"], "storage": "memory", **config}
    create_stream(server, config)
    publish_rate(server, Publishing("flood.{}.a", 8, 1000, subjects), subjects)


# --- bytes to send ------------------------------------------------------------------------------


def pings(size: Size) -> bytes:
    """PING and nothing else."""
    return b"PING\r\n" * OPERATIONS_PER_BUFFER


def subscribe_unsubscribe(size: Size) -> bytes:
    """Subscriptions on changing subjects, each ended at once."""
    return b"".join(
        b"SUB flood.%b.%d %d\r\nUNSUB %d\r\n" % (PASS_MARK, number, number, number)
        for number in range(1, OPERATIONS_PER_BUFFER)
    )


def changing_subjects(size: Size) -> bytes:
    """Publishes without a subscription or stream, each on a subject of its own."""
    return b"".join(
        b"PUB nobody.%b.%d 16\r\n0123456789abcdef\r\n" % (PASS_MARK, number)
        for number in range(OPERATIONS_PER_BUFFER)
    )


def with_ids(size: Size) -> bytes:
    """Publishes into the stream, each with an id of its own."""
    parts = []
    for number in range(OPERATIONS_PER_BUFFER):
        header = b"NATS/1.0\r\nNats-Msg-Id: %b-%d\r\n\r\n" % (PASS_MARK, number)
        sizes = (len(header), len(header) + 16)
        parts.append(b"HPUB flood.1 %b0 %d %d\r\n" % (INBOX.encode(), *sizes))
        parts.append(header + b"0123456789abcdef\r\n")
    return b"".join(parts)


def request(subject: str, body: bytes = b"") -> bytes:
    """One request; the answer comes to the inbox that the connection has subscribed to."""
    return b"PUB %b %b0 %d\r\n%b\r\n" % (subject.encode(), INBOX.encode(), len(body), body)


def api(name: str, body: object = None) -> bytes:
    """One request to the JetStream API."""
    return request(f"$JS.API.{name}", b"" if body is None else json.dumps(body).encode())


def long_subject(size: Size, first: str = "flood", token: str = "*") -> str:
    """A subject of very many tokens; wildcards, which may match anything, cost most."""
    return ".".join([first] + [token] * size.of(FILTER_TOKENS))


def long_creates(size: Size) -> bytes:
    """Two streams, one of them with wildcards, that each want one very long subject."""
    subjects = {"PLAIN": long_subject(size, "plain", "a"), "WILD": long_subject(size, "wild")}
    return b"".join(
        api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject]})
        for name, subject in subjects.items()
    )


def create_consumer(name: str, **config: object) -> bytes:
    """A request for a durable consumer."""
    config = {"durable_name": name, "ack_policy": "none", **config}
    body = {"stream_name": STREAM, "config": config}
    return api(f"CONSUMER.CREATE.{STREAM}.{name}", body)


def many_filters(size: Size) -> bytes:
    """A consumer with very many filters, none of which overlaps another."""
    filters = [f"flood.{number}" for number in range(size.of(FILTERS))]
    return create_consumer("MANY", filter_subjects=filters)


def filtered_purges(size: Size) -> bytes:
    """Purges that check every subject and find nothing, and then one that finds all of them."""
    nothing = api(f"STREAM.PURGE.{STREAM}", {"filter": "flood.*.b"})
    return nothing * 5 + api(f"STREAM.PURGE.{STREAM}", {"filter": "flood.*.a"})


def limited(size: Size) -> bytes:
    """An update that removes all messages but one."""
    config = {"name": STREAM, "subjects": ["flood.>"], "allow_rollup_hdrs": True, "max_msgs": 1}
    return api(f"STREAM.UPDATE.{STREAM}", config)


def rolled_up(size: Size) -> bytes:
    """A publish that replaces all other messages."""
    header = b"NATS/1.0\r\nNats-Rollup: all\r\n\r\n"
    sizes = (len(header), len(header))
    return b"HPUB flood.all %b0 %d %d\r\n" % (INBOX.encode(), *sizes) + header + b"\r\n"


def lasts(size: Size) -> bytes:
    """A consumer of the last message of each of very many subjects."""
    return create_consumer("LASTS", deliver_policy="last_per_subject", filter_subject="flood.>")


def unknown_keys(size: Size) -> bytes:
    """A request of a megabyte of keys that no server knows."""
    keys = {f"key{number:06d}": 0 for number in range(size.of(UNKNOWN_KEYS))}
    return api(f"STREAM.UPDATE.{STREAM}", {"name": STREAM, "subjects": ["flood.>"], **keys})


def many_subscriptions(size: Size) -> bytes:
    """Subscriptions on subjects that differ."""
    count = size.of(SUBSCRIPTIONS_OF_ONE_CLIENT)
    return b"".join(b"SUB mine.%d %d\r\n" % (number, number) for number in range(1, count + 1))


def equal_subscriptions(size: Size) -> bytes:
    """Subscriptions on one subject."""
    count = size.of(EQUAL_SUBSCRIPTIONS)
    return b"".join(b"SUB equal %d\r\n" % number for number in range(1, count + 1))


def listen(size: Size) -> bytes:
    """The subscription for answers."""
    return b"SUB %b* 1\r\n" % INBOX.encode()


def repeated(operation: bytes) -> Callable[[Size], bytes]:
    """A short operation as a buffer."""
    return lambda size: operation * OPERATIONS_PER_BUFFER


FLOODS: Final[dict[str, Flood]] = {
    flood.name: flood
    for flood in (
        Flood("idle", "no flood", repeats_max=0),
        Flood("ping", "PING", pings),
        Flood("sub", "SUB and UNSUB", subscribe_unsubscribe),
        Flood("subjects", "publishes on changing subjects", changing_subjects),
        Flood("ids", "publishes with ids", with_ids, setup=small_stream, prelude=listen),
        Flood("account-info", "$JS.API.INFO", repeated(api("INFO")), prelude=listen),
        Flood(
            "stream-info",
            "STREAM.INFO",
            repeated(api(f"STREAM.INFO.{STREAM}")),
            setup=small_stream,
            prelude=listen,
        ),
        Flood(
            "refused-create",
            "STREAM.CREATE, refused",
            repeated(api(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "subjects": ["other"]})),
            setup=small_stream,
            prelude=listen,
        ),
        Flood(
            "long-purge",
            "PURGE, filter of 450,000 tokens",
            lambda size: api(f"STREAM.PURGE.{STREAM}", {"filter": long_subject(size)}),
            repeats_max=5,
            setup=small_stream,
            prelude=listen,
        ),
        Flood(
            "long-create",
            "STREAM.CREATE, subject of 450,000 tokens",
            long_creates,
            repeats_max=3,
            prelude=listen,
        ),
        Flood(
            "long-filter",
            "CONSUMER.CREATE, filter of 450,000 tokens",
            lambda size: create_consumer("LONG", filter_subject=long_subject(size)),
            repeats_max=5,
            setup=small_stream,
            prelude=listen,
        ),
        Flood(
            "many-filters",
            "CONSUMER.CREATE, 40,000 filters",
            many_filters,
            repeats_max=3,
            setup=small_stream,
            prelude=listen,
        ),
        Flood(
            "filtered-purge",
            "filtered PURGE, a million subjects",
            filtered_purges,
            repeats_max=1,
            setup=purged_stream,
            prelude=listen,
        ),
        Flood(
            "purge-all",
            "PURGE of a million messages",
            lambda size: api(f"STREAM.PURGE.{STREAM}"),
            repeats_max=1,
            setup=stored_stream,
            prelude=listen,
        ),
        Flood(
            "limit",
            "STREAM.UPDATE, a million messages beyond the limit",
            limited,
            repeats_max=1,
            setup=stored_stream,
            prelude=listen,
        ),
        Flood(
            "roll-up",
            "roll-up of a million messages",
            rolled_up,
            repeats_max=1,
            setup=stored_stream,
            prelude=listen,
        ),
        Flood(
            "delete",
            "STREAM.DELETE, a million messages",
            lambda size: api(f"STREAM.DELETE.{STREAM}"),
            repeats_max=1,
            setup=stored_stream,
            prelude=listen,
        ),
        Flood(
            "lasts",
            "CONSUMER.CREATE, last of 500,000 subjects",
            lasts,
            repeats_max=1,
            setup=stream_of_lasts,
            prelude=listen,
        ),
        Flood(
            "subject-pages",
            "STREAM.INFO, pages of 100,000 subjects",
            lambda size: api(f"STREAM.INFO.{STREAM}", {"subjects_filter": ">"}),
            repeats_max=50,
            setup=listed_stream,
            prelude=listen,
        ),
        Flood(
            "unknown-keys",
            "1 MB of unknown JSON keys",
            unknown_keys,
            repeats_max=20,
            setup=small_stream,
            prelude=listen,
        ),
        Flood(
            "leaving",
            "a client with 500,000 subscriptions leaves",
            repeats_max=0,
            prelude=many_subscriptions,
            leaves=True,
        ),
        Flood(
            "equal",
            "20 publishes to 100,000 equal subscriptions",
            lambda size: b"PUB equal 8\r\n01234567\r\n" * 20,
            repeats_max=1,
            prelude=equal_subscriptions,
        ),
    )
}
