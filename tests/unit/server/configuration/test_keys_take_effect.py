"""Every configuration key that is accepted changes what a server does; every other is refused.

The tables of the configuration are walked, so that a key cannot be added without one of the two. A
key is looked at by a probe (`key_probes`) of two servers, one with the key and one without.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from headwater.server.configuration import cluster_section as config_cluster
from headwater.server.configuration import flags
from headwater.server.configuration import jetstream_section as config_jetstream
from headwater.server.configuration import keys as config_keys
from headwater.server.configuration import tls_section as config_tls
from headwater.server.configuration.keys import ConfigError
from headwater.server.configuration.options import Options
from headwater.server.configuration.reading import Table
from headwater.wire.credentials.nkeys import KeyKind, KeyPair
from tests.unit.server.configuration import cluster_probes
from tests.unit.server.configuration import key_probes as probes
from tests.unit.server.configuration.key_probes import (
    HEADERS,
    Probe,
    api,
    batches,
    consumer,
    enters,
    flood,
    is_answered,
    options_of,
    publish,
    stream,
    talk,
    told_by_jsz,
    told_by_varz,
    told_in_info,
    traced,
)

# --- the places of keys -------------------------------------------------------------------------

TABLES: Final[dict[str, Table]] = {
    "{}": config_keys.TOP_LEVEL,
    "authorization {{ {} }}": config_keys.AUTHORIZATION,
    "authorization {{ users [ {{ user: a, {} }} ] }}": config_keys.USER,
    "accounts {{ A {{ {} }} }}": config_keys.ACCOUNT,
    "accounts {{ A {{ limits {{ {} }} }} }}": config_keys.ACCOUNT_LIMITS,
    "authorization {{ permissions {{ {} }} }}": config_keys.PERMISSIONS,
    "authorization {{ permissions {{ publish {{ {} }} }} }}": config_keys.PUBLISH,
    "authorization {{ permissions {{ subscribe {{ {} }} }} }}": config_keys.SUBSCRIBE,
    "authorization {{ permissions {{ allow_responses {{ {} }} }} }}": config_keys.RESPONSES,
    "jetstream {{ {} }}": config_jetstream.JETSTREAM,
    "jetstream {{ limits {{ {} }} }}": config_jetstream.LIMITS,
    "jetstream {{ limits {{ batch {{ {} }} }} }}": config_jetstream.BATCH_LIMITS,
    "accounts {{ A {{ jetstream {{ {} }} }} }}": config_jetstream.ACCOUNT_JETSTREAM,
    "cluster {{ {} }}": config_cluster.CLUSTER,
    "tls {{ {} }}": config_tls.TLS,
}

# Keys that have no effect but on the replicas of streams: tests of clusters show it.
NEEDS_A_CLUSTER: Final = {
    ("accounts {{ A {{ jetstream {{ {} }} }} }}", "cluster_traffic"),
    ("cluster {{ {} }}", "unclean_wait"),
    ("jetstream {{ {} }}", "ack_timeout"),
    ("jetstream {{ {} }}", "eventual_max_tail"),
    ("jetstream {{ {} }}", "lease"),
    ("jetstream {{ {} }}", "linearizable_reads"),
    ("jetstream {{ {} }}", "max_outstanding_catchup"),
    ("jetstream {{ {} }}", "unique_tag"),
    ("jetstream {{ limits {{ {} }} }}", "max_ha_assets"),
}

# Keys of TLS, which needs real sockets: `tests/interop/cases/tls.py` compares nats-server, and
# `tests/robustness/test_tls_processes.py` has the rest.
NEEDS_SOCKETS: Final = {
    *(("{}", name) for name in ("allow_non_tls", "https", "https_port", "tls")),
    *(("tls {{ {} }}", name) for name in (
        "ca_file", "cert_file", "cipher_suites", "curve_preferences", "handshake_first",
        "key_file", "min_version", "pinned_certs", "timeout", "verify", "verify_and_map",
        "verify_cert_and_check_known_urls",
    )),
}  # fmt: skip


@dataclass(frozen=True)
class Effect:
    """A key in its place, the rest of the file that both servers have, and what to look at."""

    frame: str
    key: str
    value: str
    probe: Probe
    rest: str = ""
    # The text in place of the key in the file of the other server.
    otherwise: str = ""

    def texts(self) -> tuple[str, str]:
        """The file with the key, and the file without."""
        return self._text(f"{self.key}: {self.value}"), self._text(self.otherwise)

    def _text(self, entry: str) -> str:
        return f"{self.rest}\n{self.frame.format(entry)}\n"


def effects(frame: str, rest: str, rows: dict[str, tuple[str, Probe]]) -> list[Effect]:
    """Effects of keys that stand in one place."""
    return [Effect(frame, key, value, probe, rest) for key, (value, probe) in rows.items()]


# --- clients ------------------------------------------------------------------------------------

SMALL_BUFFERS: Final = "max_payload: 1000"

LISTENING: Final = effects("{}", "", {
    "listen": ("'127.0.0.1:4333'", probes.listening_lines),
    "port": ("4333", probes.listening_lines),
    "host": ("'127.0.0.1'", probes.listening_lines),
    "client_advertise": ("'far:1'", told_in_info("host", "port")),
    "http": ("'127.0.0.1:8333'", probes.listening_lines),
    "http_port": ("8333", probes.ports),
    "http_base_path": ("'/nats'", probes.page_at("/nats/varz")),
    "server_name": ("one", told_in_info("server_name")),
    "server_tags": ("[a]", told_by_varz("tags")),
    "server_metadata": ("{ a: b }", told_by_varz("metadata")),
})  # fmt: skip

LIMITS: Final = [
    *effects("{}", "", {
        "max_payload": ("4", talk(publish("a", 5))),
        "max_control_line": ("64", talk(publish("a" * 100))),
        "max_connections": ("1", probes.second_connection),
        "max_subscriptions": ("1", talk(b"SUB a 1\r\nSUB b 2\r\n")),
        "max_sub_tokens": ("1", talk(b"SUB a.b 1\r\n")),
        "max_closed_clients": ("1", probes.closed_ones_remembered),
        "ping_interval": ("'5s'", probes.pings_in_quarter_minute),
        "write_deadline": ("'1s'", probes.a_write_that_takes_long),
        "lame_duck_duration": ("'31s'", probes.lame_duck_s),
        "no_header_support": ("true", talk(b"HPUB a %d %d\r\n%b\r\n" % (17, 17, HEADERS))),
        "disable_sublist_cache": ("true", probes.cached_routes),
    }),
    *effects("{}", SMALL_BUFFERS, {
        "max_pending": ("2000", probes.much_for_a_slow_reader),
    }),
    *effects("{}", f"{SMALL_BUFFERS}, max_pending: 2000", {
        "no_fast_producer_stall": ("true", probes.publisher_of_a_slow_reader),
    }),
    *effects("{}", "ping_interval: '5s'", {
        "ping_max": ("1", probes.pings_in_quarter_minute),
    }),
    *effects("{}", "lame_duck_duration: '40s'", {
        "lame_duck_grace_period": ("'3s'", probes.lame_duck_s),
    }),
]  # fmt: skip

LOGGING: Final = [
    *effects("{}", "", {
        "debug": ("true", probes.levels),
        "trace": ("true", traced(b"PING\r\n")),
        "trace_headers": ("true", traced(b"PING\r\n")),
        "logtime": ("false", probes.stamps),
        "logtime_utc": ("true", probes.stamps),
        "pid_file": ("'/run/pid'", probes.files),
        "ports_file_dir": ("'/run'", probes.files),
    }),
    *effects("{}", "trace: true", {
        "max_traced_msg_len": ("2", traced(publish("a", 9))),
    }),
    *effects("{}", "trace: true\naccounts { $SYS { users [ { user: s, password: s } ] } }", {
        "trace_verbose": ("true", traced(b"PING\r\n", user="s", password="s")),
    }),
]  # fmt: skip

# --- users and permissions ----------------------------------------------------------------------

_A: Final = {"user": "a", "pass": "a"}
_USER: Final = {"user": "a", "password": "a"}
_NKEY: Final = KeyPair(KeyKind.USER, bytes(32)).public
_ACCOUNT: Final = "accounts {{ A {{ users [ {{ user: a, password: a }} ], {} }} }}"
_PERMITTED: Final = "authorization {{ users [ {{ user: a, password: a, permissions {{ {} }} }} ] }}"

AUTHORIZATION: Final = [
    *effects("{}", "", {
        "authorization": ("{ token: t }", enters()),
        "accounts": ("{ A { users [ { user: a, password: a } ] } }", enters()),
        "no_system_account": ("true", probes.has_system_account),
    }),
    *effects("{}", "authorization { users [ { user: a, password: a } ] }", {
        "no_auth_user": ("a", enters()),
    }),
    *effects("{}", "accounts { A { users [ { user: a, password: a } ] } }", {
        "system_account": ("A", probes.answers_system_requests(**_USER)),
    }),
    *effects("authorization {{ {} }}", "", {
        "user": ("a", enters()),
        "token": ("t", enters()),
        "users": ("[ { user: a, password: a } ]", enters()),
    }),
    Effect("authorization {{ user: a, {} }}", "password", "a", enters(**_A)),
    Effect("authorization {{ user: a, password: a, {} }}", "timeout", "10",
           probes.silent_before_connect),
    Effect("authorization {{ users [ {{ user: a, password: a }} ], {} }}", "permissions",
           "{ publish: other }", talk(publish("mine"), **_USER)),
    Effect("authorization {{ users [ {{ {}, password: a }} ] }}", "user", "a", enters(**_A),
           otherwise="user: z"),
    Effect("authorization {{ users [ {{ {} }} ] }}", "nkey", _NKEY, told_in_info("nonce"),
           otherwise="user: a"),
    Effect("authorization {{ users [ {{ user: a, {} }} ] }}", "password", "a", enters(**_A)),
    Effect("authorization {{ users [ {{ user: a, password: a, {} }} ] }}", "permissions",
           "{ publish: other }", talk(publish("mine"), **_USER)),
    Effect("authorization {{ users [ {{ user: a, password: a, {} }} ] }}",
           "allowed_connection_types", "[MQTT]", enters(**_A)),
    Effect(_PERMITTED, "publish", "other", talk(publish("mine"), **_USER)),
    Effect(_PERMITTED, "subscribe", "other", talk(b"SUB mine 1\r\n", **_USER)),
    Effect(_PERMITTED.replace("{}", "publish {{ {} }}"), "allow", "other",
           talk(publish("mine"), **_USER)),
    Effect(_PERMITTED.replace("{}", "publish {{ {} }}"), "deny", "mine",
           talk(publish("mine"), **_USER)),
    Effect(_PERMITTED.replace("{}", "subscribe {{ {} }}"), "allow", "other",
           talk(b"SUB mine 1\r\n", **_USER)),
    Effect(_PERMITTED.replace("{}", "subscribe {{ {} }}"), "deny", "mine",
           talk(b"SUB mine 1\r\n", **_USER)),
]  # fmt: skip


def responders(inner: str) -> str:
    """Two users, the first of whom may publish nothing but what `inner` allows."""
    first = f'user: a, password: a, permissions {{{{ publish: other, subscribe: ">", {inner} }}}}'
    return f"authorization {{{{ users [ {{{{ {first} }}}}, {{{{ user: b, password: b }}}} ] }}}}"


RESPONSES: Final = [
    Effect(responders("{}"), "allow_responses", "true", probes.reply_permission()),
    Effect(responders("allow_responses {{ {} }}"), "max", "2",
           probes.reply_permission(replies=2)),
    Effect(responders("allow_responses {{ {} }}"), "expires", "'1s'",
           probes.reply_permission(after_s=5)),
]  # fmt: skip

ACCOUNTS: Final = [
    Effect("accounts {{ A {{ {} }} }}", "users", "[ { user: a, password: a } ]", enters()),
    Effect(_ACCOUNT, "default_permissions", "{ publish: other }", talk(publish("mine"), **_USER)),
    Effect(_ACCOUNT, "limits", "{ max_payload: 2 }", talk(publish("a", 3), **_USER)),
    Effect(_ACCOUNT, "jetstream", "true", api(("INFO", None), **_USER),
           rest="jetstream { store_dir: /data, max_mem: 1M, max_file: 1M }"),
    *effects(_ACCOUNT.replace("{}", "limits {{ {} }}"), "", {
        "max_connections": ("1", probes.second_connection_of_a_user),
        "max_subscriptions": ("1", talk(b"SUB a 1\r\nSUB b 2\r\n", **_USER)),
        "max_payload": ("2", talk(publish("a", 3), **_USER)),
    }),
]  # fmt: skip

# --- streams ------------------------------------------------------------------------------------

_MINUTE_NS: Final = 60 * 10**9
_JETSTREAM: Final = "jetstream {{ store_dir: /data, max_mem: 1M, max_file: 1M, {} }}"
_IN_LIMITS: Final = _JETSTREAM.replace("{}", "limits {{ {} }}")
_IN_BATCH: Final = _JETSTREAM.replace("{}", "limits {{ batch {{ {} }} }}")
_OPEN_BATCHES: Final = ("S", "one", 1, False), ("S", "two", 1, False)

STREAMS: Final = [
    *effects("{}", "", {
        "jetstream": ("{ store_dir: /data, max_mem: 1M, max_file: 1M }",
                      is_answered("$JS.API.INFO")),
    }),
    *effects("{}", "jetstream { max_mem: 1M, max_file: 1M }", {
        "store_dir": ("/elsewhere", probes.files_of_a_message),
    }),
    *effects("jetstream {{ max_mem: 1M, max_file: 1M, {} }}", "", {
        "enabled": ("false", is_answered("$JS.API.INFO")),
        "store_dir": ("/elsewhere", probes.files_of_a_message),
    }),
    *effects("jetstream {{ store_dir: /data, {} }}", "", {
        "max_memory_store": ("1K", api(stream(max_bytes=5000, storage="memory"))),
        "max_file_store": ("1K", api(stream(max_bytes=5000))),
    }),
    *effects(_JETSTREAM, "", {
        "sync_interval": ("'1s'", probes.left_by_a_power_loss),
        "runtime_dir": ("/run/headwater", probes.folders_of_marks),
        "domain": ("hub", is_answered("$JS.hub.API.INFO")),
        "strict": ("false", api(stream(flavour="salt"))),
        "limits": ("{ duplicate_window: '1s' }", api(stream(duplicate_window=_MINUTE_NS))),
        "key": ("secret", probes.files_of_a_message),
        "max_buffered_msgs": ("3", flood(5)),
        "max_buffered_size": ("30", flood(5, 10)),
    }),
    *effects(_JETSTREAM.replace("{}", "key: new, {}"), "", {
        "prev_key": ("old", probes.reads_what_another_key_wrote),
        "cipher": ("aes", probes.files_of_a_message),
    }),
    *effects(_IN_LIMITS, "", {
        "duplicate_window": ("'1s'", api(stream(duplicate_window=_MINUTE_NS))),
        "max_ack_pending": ("5", api(stream(), consumer("c", max_ack_pending=10))),
        "max_request_batch": ("5", api(stream(), consumer("c", max_batch=10))),
        "default_max_consumers": ("1", api(stream(), consumer("c"), consumer("d"))),
        "batch": ("{ max_inflight_per_stream: 1 }", batches(*_OPEN_BATCHES)),
    }),
    *effects(_IN_BATCH, "", {
        "max_inflight_per_stream": ("1", batches(*_OPEN_BATCHES)),
        "max_inflight_total": ("1", batches(("S", "one", 1, False), ("T", "two", 1, False))),
        "max_msgs": ("1", batches(("S", "one", 1, False), ("S", "one", 2, True))),
        "timeout": ("'1s'", batches(("S", "one", 1, False), ("S", "one", 2, True), wait_s=5)),
    }),
    *effects(_ACCOUNT.replace("{}", "jetstream {{ {} }}"),
             "jetstream { store_dir: /data, max_mem: 1M, max_file: 1M }", {
        "max_memory": ("100", api(stream(max_bytes=500, storage="memory"), **_USER)),
        "max_store": ("100", api(stream(max_bytes=500), **_USER)),
        "max_streams": ("1", api(stream("S"), stream("T"), **_USER)),
        "max_consumers": ("1", api(stream(), consumer("c"), consumer("d"), **_USER)),
        "max_bytes_required": ("true", api(stream(), **_USER)),
        "mem_max_stream_bytes": ("100", api(stream(max_bytes=500, storage="memory"), **_USER)),
        "disk_max_stream_bytes": ("100", api(stream(max_bytes=500), **_USER)),
        "max_ack_pending": ("5", api(stream(), consumer("c", max_ack_pending=10), **_USER)),
    }),
]  # fmt: skip

# --- other servers ------------------------------------------------------------------------------

_HERE: Final = "host: '10.0.0.1'\nserver_name: s1"
_CLUSTER: Final = "cluster {{ name: C, host: '10.0.0.1', port: 6222, {} }}"
_FAR_ROUTE: Final = "debug: true\n" + _HERE
_ROUTED: Final = (
    "cluster {{ {}\n name: C, host: '10.0.0.1', port: 6222, routes: ['nats://10.0.0.2:6222'] }}"
)
_WITH_ROUTE: Final = f"{_FAR_ROUTE}\n{_ROUTED.format('').replace('{{', '{').replace('}}', '}')}"

CLUSTER: Final = [
    *effects("{}", _HERE, {
        "cluster": ("{ name: C, host: '10.0.0.1', port: 6222 }", cluster_probes.links),
    }),
    *effects("{}", _WITH_ROUTE, {
        "connect_error_reports": ("2", cluster_probes.reported_failures),
        "reconnect_error_reports": ("7", cluster_probes.reported_failures_later),
    }),
    *effects("cluster {{ name: C, {} }}", _HERE, {
        "listen": ("'10.0.0.1:6222'", cluster_probes.links),
    }),
    *effects("cluster {{ name: C, host: '10.0.0.1', {} }}", _HERE, {
        "port": ("6222", cluster_probes.links),
    }),
    *effects("cluster {{ name: C, port: 6222, {} }}", _HERE, {
        "host": ("'10.0.0.1'", cluster_probes.links),
    }),
    *effects("cluster {{ host: '10.0.0.1', port: 6222, {} }}", _HERE, {
        "name": ("D", cluster_probes.links),
    }),
    *effects(_CLUSTER, _HERE, {
        "authorization": ("{ user: a, password: b }", cluster_probes.links),
        "routes": ("['nats://10.0.0.2:6222']", cluster_probes.links_of_its_own),
        "advertise": ("'far:1'", cluster_probes.route_info("host", "port")),
        "no_advertise": ("true", cluster_probes.client_info("connect_urls")),
        "permissions": ("{ import { deny: a } }", cluster_probes.crossing),
        "ping_interval": ("'5s'", cluster_probes.pings),
        "ping_max": ("5", cluster_probes.silence_s),
        "write_deadline": ("'3s'", cluster_probes.slow_reader_s),
        "heartbeat_interval": ("'200ms'", cluster_probes.frames_of_an_idle_group),
        "election_timeout": ("'3s'", cluster_probes.silence_of_a_lost_leader_s),
    }),
    *effects(_ROUTED, _FAR_ROUTE, {
        "connect_backoff": ("true", cluster_probes.attempts),
        "connect_retries": ("5", cluster_probes.attempts_to_a_member),
    }),
]  # fmt: skip
EFFECTS: Final = [
    *LISTENING, *LIMITS, *LOGGING, *AUTHORIZATION, *RESPONSES, *ACCOUNTS, *STREAMS, *CLUSTER
]  # fmt: skip
# Shown below by a whole process.
LOG_FILES: Final = ("log_file", "log_size_limit", "log_max_num")


# --- the tests ----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose local time is not UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


def name_of(effect: Effect) -> str:
    return f"{effect.frame.replace('{{', '{').replace('}}', '}')}: {effect.key}"


@pytest.mark.parametrize("effect", EFFECTS, ids=name_of)
def test_a_key_changes_what_a_server_does(effect: Effect) -> None:
    having, lacking = (effect.probe(options_of(text)) for text in effect.texts())
    assert having != lacking
    if not isinstance(having, int | str | None):
        # A number or a word does not vary by chance; a part of a long answer might.
        assert effect.probe(options_of(effect.texts()[0])) == having


def complaint(text: str) -> str:
    try:
        options_of(text)
    except ConfigError as error:
        return str(error)
    except Exception:
        return ""
    return ""


def section_of(effect: Effect) -> Table:
    """The table that a key is read by: the one that knows it where it stands."""
    return next(
        table
        for frame, table in TABLES.items()
        if depth_of(frame) == depth_of(effect.frame) and effect.key in table
    )


def depth_of(frame: str) -> tuple[str, ...]:
    """The sections around the key."""
    names: list[str] = []
    words = frame.replace("{{", " {{ ").replace("}}", " }} ").replace("[", " [ ").split()
    for position, word in enumerate(words):
        if word in ("{{", "["):
            names.append(words[position - 1])
        elif word.rstrip(",") in ("}}", "]"):
            names.pop()
        elif word.startswith("{}"):
            path = [name for name in names if name not in ("[", "A", "{{")]
            # The keys of a user are read as those of all users are.
            return tuple(path if path[-1:] == ["users"] else (n for n in path if n != "users"))
    raise AssertionError(frame)


def rows() -> Iterator[tuple[str, list[str]]]:
    """Every key of every section, with its other names."""
    for frame, table in TABLES.items():
        by_handler: dict[int, list[str]] = {}
        for name, handler in table.items():
            by_handler.setdefault(id(handler), []).append(name)
        for names in by_handler.values():
            yield frame, names


def is_refused(frame: str, name: str) -> bool:
    return f'"{name}" is not supported' in complaint(frame.format(f"{name}: 1"))


def test_every_key_has_an_effect_or_is_refused_by_name() -> None:
    shown = {(id(section_of(effect)), effect.key) for effect in EFFECTS}
    shown |= {(id(config_keys.TOP_LEVEL), name) for name in LOG_FILES}
    shown |= {(id(TABLES[frame]), name) for frame, name in NEEDS_A_CLUSTER | NEEDS_SOCKETS}
    for frame, names in rows():
        if is_refused(frame, names[0]):
            assert all(is_refused(frame, name) for name in names)
            continue
        assert any((id(TABLES[frame]), name) in shown for name in names), (frame, names)


def test_every_table_of_the_configuration_is_walked() -> None:
    found = {
        id(value)
        for module in (config_keys, config_jetstream, config_cluster, config_tls)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, dict) and all(map(callable, value.values()))
    }
    assert found == {id(table) for table in TABLES.values()}


def test_keys_of_clusters_are_shown_where_nats_server_shows_them() -> None:
    for key, text in (("unique_tag", "unique_tag: az"), ("max_ha_assets", "max_ha_assets: 7")):
        inner = text if key == "unique_tag" else f"limits {{ {text} }}"
        options = options_of(_JETSTREAM.format(inner))
        assert told_by_jsz(key)(options) != told_by_jsz(key)(options_of(_JETSTREAM.format("")))


def test_the_log_goes_to_files_of_the_size_and_number_that_are_set(tmp_path: Path) -> None:
    listings = []
    sized = "log_size_limit: 200"
    for number, text in enumerate(("", sized, f"{sized}, log_max_num: 1")):
        folder = tmp_path / str(number)
        folder.mkdir()
        config = folder / "server.conf"
        # The server ends by itself, because it cannot listen on that port.
        config.write_text(f"log_file: '{folder}/log', port: 99999, {text}\n")
        command = [sys.executable, "-m", "headwater", "serve", "-c", str(config)]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        assert done.returncode == 1
        listings.append(sorted(path.name for path in folder.iterdir() if path != config))
    one, several, two = (len(listing) for listing in listings)
    assert (one, two) == (1, 2)
    assert several > 2


# --- flags --------------------------------------------------------------------------------------

_TLS_FLAGS: Final = "--tlscert c --tlskey k"
_TLS_KEYS: Final = "cert_file: c, key_file: k"
# Flags that do the work of a key: the flag with its value, and the file with the key.
FLAGS: Final = {
    "-a": ("-a h", "host: h"),
    "-p": ("-p 4333", "port: 4333"),
    "-n": ("-n one", "server_name: one"),
    "-P": ("-P f", "pid_file: f"),
    "-m": ("-m 8333", "http_port: 8333"),
    "--client_advertise": ("--client_advertise h:1", "client_advertise: 'h:1'"),
    "--ports_file_dir": ("--ports_file_dir d", "ports_file_dir: d"),
    "-l": ("-l f", "log_file: f"),
    "--log_size_limit": ("--log_size_limit 9", "log_size_limit: 9"),
    "-T": ("-T=false", "logtime: false"),
    "--logtime_utc": ("--logtime_utc", "logtime_utc: true"),
    "-D": ("-D", "debug: true"),
    "-V": ("-V", "trace: true"),
    "-VV": ("-VV", "trace_verbose: true"),
    "-DV": ("-DV", "debug: true, trace: true"),
    "-DVV": ("-DVV", "debug: true, trace_verbose: true"),
    "--max_traced_msg_len": ("--max_traced_msg_len 9", "max_traced_msg_len: 9"),
    "-js": ("-js", "jetstream: true"),
    "-sd": ("-sd d", "store_dir: d"),
    "--cluster": (
        "--cluster nats://a:b@127.0.0.1:6222",
        "cluster { listen: '127.0.0.1:6222', authorization { user: a, password: b } }",
    ),
    "--cluster_name": ("--cluster_name C", "cluster { name: C }"),
    "--cluster_advertise": ("--cluster_advertise h:1", "cluster { advertise: 'h:1' }"),
    "--no_advertise": ("--no_advertise", "cluster { no_advertise: true }"),
    "--connect_retries": ("--connect_retries 3", "cluster { connect_retries: 3 }"),
    "--routes": (
        "--cluster nats://127.0.0.1:6222 --routes nats://x:1,nats://u:p@y:2",
        "cluster { listen: '127.0.0.1:6222', routes: ['nats://x:1', 'nats://u:p@y:2'] }",
    ),
    "--user": ("--user a", "authorization { user: a }"),
    "--pass": ("--user a --pass b", "authorization { user: a, password: b }"),
    "--auth": ("--auth t", "authorization { token: t }"),
    "-ms": ("-ms 8444", "https_port: 8444"),
    "--tls": (f"--tls {_TLS_FLAGS}", f"tls {{ {_TLS_KEYS} }}"),
    "--tlscert": (_TLS_FLAGS, f"tls {{ {_TLS_KEYS} }}"),
    "--tlskey": (_TLS_FLAGS, f"tls {{ {_TLS_KEYS} }}"),
    "--tlsverify": (f"--tlsverify {_TLS_FLAGS}", f"tls {{ {_TLS_KEYS}, verify: true }}"),
    "--tlscacert": (f"--tlscacert a {_TLS_FLAGS}", f"tls {{ {_TLS_KEYS}, ca_file: a }}"),
}
COMMANDS: Final[dict[str, tuple[str, Any]]] = {
    "-c": ("-c server.conf", flags.RunServer),
    "-t": ("-c server.conf -t", flags.TestConfig),
    "-sl": ("-sl stop", flags.SendSignal),
    "-h": ("-h", flags.ShowHelp),
    "--help_tls": ("--help_tls", flags.ShowHelp),
    "-v": ("-v", flags.ShowVersion),
}


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_does_what_its_key_does(flag: str) -> None:
    line, text = FLAGS[flag]
    by_flag, by_key = settings_of("", *line.split()), settings_of(text)
    assert by_flag == by_key
    assert by_flag != settings_of("")


def settings_of(text: str, *flags: str) -> Options:
    """The options of a file, without what tells how they were written."""
    found = options_of(f"port: 4222\n{text}", *flags)
    return replace(found, config_digest="", has_authorization=False)


@pytest.mark.parametrize("flag", COMMANDS)
def test_a_flag_is_a_command(flag: str) -> None:
    line, kind = COMMANDS[flag]
    command = flags.parse_command_line(line.split(), lambda _: b"port: 4333\n", {})
    assert isinstance(command, kind)
    if isinstance(command, flags.RunServer):
        assert command.options.port == 4333


def test_every_flag_of_the_help_is_one_of_these() -> None:
    listed = [
        line.split()[0].rstrip(",")
        for line in flags.HELP.partition("Not supported")[0].splitlines()
        if line.strip().startswith("-")
    ]
    assert sorted(listed) == sorted([*FLAGS, *COMMANDS])
