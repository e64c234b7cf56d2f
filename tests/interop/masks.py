"""Every field that may differ between the two servers, by path, with what has to be true of it.

Identity, time, memory and the build of a server differ from process to process; nothing else is
excused here. A case that needs more carries its own masks, next to its script.
"""

import re

from tests.interop.observation import Addition, Mask, Observation, Omission

PORT_MAX = 65535

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")
_UPTIME = re.compile(r"(\d+y)?(\d+d)?(\d+h)?(\d+m)?\d+s")
_ROUND_TRIP = re.compile(r"\d+(\.\d+)?(ns|µs|ms|s)")
_PUBLIC_KEY = re.compile(r"[NX][A-Z2-7]{55}")
_VERSION = re.compile(r"2\.15\.\d+")


def is_server_id(value: Observation) -> bool:
    return _is_text(value, _PUBLIC_KEY) and str(value).startswith("N")


def is_curve_key(value: Observation) -> bool:
    return _is_text(value, _PUBLIC_KEY) and str(value).startswith("X")


def is_version(value: Observation) -> bool:
    return _is_text(value, _VERSION)


def is_timestamp(value: Observation) -> bool:
    return _is_text(value, _TIMESTAMP)


def is_uptime(value: Observation) -> bool:
    return _is_text(value, _UPTIME)


def is_round_trip(value: Observation) -> bool:
    return _is_text(value, _ROUND_TRIP)


def is_port(value: Observation) -> bool:
    return is_positive(value) and isinstance(value, int) and value <= PORT_MAX


def is_positive(value: Observation) -> bool:
    return type(value) is int and value > 0


def is_count(value: Observation) -> bool:
    return type(value) is int and value >= 0


def is_number(value: Observation) -> bool:
    return type(value) in (int, float)


def is_filled_text(value: Observation) -> bool:
    return isinstance(value, str) and value != ""


def _is_text(value: Observation, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


INFO = (
    Mask("**.INFO.server_id", is_server_id, "every server draws its own key"),
    Mask("**.INFO.version", is_version, "both speak as 2.15, the last digit is a build's own"),
    Omission("**.INFO.git_commit", is_filled_text, "a build's own; builds without git omit it"),
    Mask("**.INFO.go", is_filled_text, "the language a server is built with"),
    Mask("**.INFO.port", is_port, "a free port was asked for"),
    Mask("**.INFO.client_id", is_positive, "counts all connections since the start"),
    Omission(
        "**.INFO.xkey", is_curve_key, "for auth callouts, which come later; clients pass it by"
    ),
    Addition("**.INFO.headwater", is_filled_text, "our own version stands beside the one we speak"),
)

VARZ = (
    Mask("**.varz.server_id", is_server_id, "every server draws its own key"),
    Mask("**.varz.version", is_version, "as in INFO"),
    Omission("**.varz.git_commit", is_filled_text, "as in INFO"),
    Mask("**.varz.go", is_filled_text, "the language a server is built with"),
    Mask("**.varz.port", is_port, "a free port was asked for"),
    Mask("**.varz.start", is_timestamp, "time"),
    Mask("**.varz.now", is_timestamp, "time"),
    Mask("**.varz.config_load_time", is_timestamp, "time"),
    Mask("**.varz.uptime", is_uptime, "time"),
    Mask("**.varz.mem", is_positive, "memory"),
    Mask("**.varz.cpu", is_number, "load"),
    Mask("**.varz.gomaxprocs", is_positive, "a setting of the language"),
    Mask("**.varz.subscriptions", is_count, "counts the server's own services too"),
    Addition("**.varz.headwater", is_filled_text, "as in INFO"),
)

CONNZ = (
    Mask("**.connz.server_id", is_server_id, "every server draws its own key"),
    Mask("**.connz.now", is_timestamp, "time"),
    Mask("**.connz.connections.*.cid", is_positive, "counts all connections since the start"),
    Mask("**.connz.connections.*.port", is_port, "chosen by the kernel"),
    Mask("**.connz.connections.*.start", is_timestamp, "time"),
    Mask("**.connz.connections.*.stop", is_timestamp, "time"),
    Mask("**.connz.connections.*.last_activity", is_timestamp, "time"),
    Mask("**.connz.connections.*.uptime", is_uptime, "time"),
    Mask("**.connz.connections.*.idle", is_uptime, "time"),
    Mask("**.connz.connections.*.rtt", is_round_trip, "time"),
    Mask("**.connz.connections.*.pending_bytes", is_count, "what the last write left to account"),
    Mask("**.connz.connections.*.subscriptions_list_detail.*.cid", is_positive, "as above"),
)

SUBSZ = (
    Mask("**.subsz.server_id", is_server_id, "every server draws its own key"),
    Mask("**.subsz.now", is_timestamp, "time"),
    Mask("**.subsz.num_subscriptions", is_count, "counts the server's own services too"),
    Mask("**.subsz.num_cache", is_count, "how much is cached is a server's own affair"),
    Mask("**.subsz.num_inserts", is_count, "counts the server's own services too"),
    Mask("**.subsz.num_removes", is_count, "counts the server's own services too"),
    Mask("**.subsz.num_matches", is_count, "how much is cached is a server's own affair"),
    Mask("**.subsz.cache_hit_rate", is_number, "how much is cached is a server's own affair"),
    Mask("**.subsz.max_fanout", is_count, "taken over the cache"),
    Mask("**.subsz.avg_fanout", is_number, "taken over the cache"),
    Mask("**.subsz.subscriptions_list.*.cid", is_positive, "counts all connections"),
)

MASKS = (*INFO, *VARZ, *CONNZ, *SUBSZ)
