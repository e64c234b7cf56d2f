"""The `jetstream` block and flags: what is accepted, what is refused, and what a start logs.

Some errors have no place in nats-server, or that of the whole block; ours have that of the value.
Those cases leave the place out.
"""

import re
import signal
from functools import partial
from typing import Any

from tests.interop.case import Catalogue, Script
from tests.interop.jetstream import RESOURCES, jetstream, login, with_jetstream
from tests.interop.masks import is_positive
from tests.interop.observation import Mask, Observation
from tests.interop.session import Session
from tests.kit.server_process import LOOPBACK_FLAGS, Setup

catalogue = Catalogue(None)

PLACE = re.compile(r"server\.conf:\d+:\d+: ")
QUIET = ("-a", "127.0.0.1", "-p", "-1")


def refused(session: Session, config: str, *flags: str) -> Observation:
    """The end of a start with this configuration."""
    done = session.fail_to_start(Setup(config, (*QUIET, *flags)))
    stderr = done["stderr"]
    assert isinstance(stderr, list)
    kept = [line for line in stderr if line["level"] not in ("INF", "WRN")]
    return {"exit_code": done["exit_code"], "stdout": done["stdout"], "stderr": kept}


def refused_somewhere(session: Session, config: str) -> Observation:
    """The end of a start with this configuration, without the place in the file."""
    return PLACE.sub("", str(refused(session, config)))


def add_refusal(rule: str, statement: str, text: str, config: str, placed: bool = True) -> None:
    """A case of a configuration that is refused."""

    def script(session: Session) -> Observation:
        return refused(session, config) if placed else refused_somewhere(session, config)

    script.__doc__ = statement
    script.__name__ = rule.replace(".", "_").replace("-", "_")
    catalogue.case(f"js.config.{rule}", text=text)(script)


add_refusal(
    "error.word",
    "The word for JetStream is one of four.",
    "Expected 'enabled' or 'disabled' for string value, got 'on it'",
    "jetstream: 'on it'\n",
)
add_refusal(
    "error.type",
    "JetStream is a map, a word or a truth value.",
    "Expected map, bool or string to define JetStream, got int64",
    "debug: false\njetstream: 5\n",
)
add_refusal(
    "error.unknown-key",
    "An unknown key of the block is refused where it stands.",
    'unknown field "flavour"',
    "jetstream {\n  flavour: salt\n}\n",
)
add_refusal(
    "error.strict",
    "`strict` is true or false.",
    "Expected 'true' or 'false' for bool value, got 'maybe'",
    "jetstream { strict: maybe }\n",
)
add_refusal(
    "error.max-mem",
    "A size in quotes ends in a letter for its unit.",
    "max_mem_store sizes defined as strings must end in K, M, G, T",
    'jetstream { max_mem: "10" }\n',
)
add_refusal(
    "error.max-mem-digits",
    "A size in quotes is a number before its unit.",
    'max_mem_store strconv.ParseInt: parsing "10G": invalid syntax',
    'jetstream { max_memory_store: "10GB" }\n',
)
add_refusal(
    "error.max-file",
    "A size is a number or a text.",
    "max_file_store must be int64 or string",
    "jetstream { max_file: true }\n",
)
add_refusal(
    "error.cipher",
    "There are two ciphers.",
    'Unknown cipher type: "rot13"',
    "jetstream { key: secret, cipher: rot13 }\n",
)
add_refusal(
    "error.limits-type",
    "`limits` is a map.",
    "Expected a map to define JetStreamLimits, got string",
    "jetstream { limits: none }\n",
)
add_refusal(
    "error.limits-unknown",
    "An unknown key of `limits` is refused.",
    'unknown field "max_joy"',
    "jetstream { limits { max_joy: 1 } }\n",
)
add_refusal(
    "error.max-buffered-msgs",
    "A number of messages is a number.",
    'Expected a parseable size for "max_buffered_msgs", got many',
    "jetstream { max_buffered_msgs: many }\n",
)
add_refusal(
    "error.max-buffered-size",
    "An error about a size has the name of its key.",
    "max_buffered_size sizes defined as strings must end in K, M, G, T",
    'jetstream { max_buffered_size: "5X" }\n',
)
add_refusal(
    "error.max-outstanding-catchup",
    "The bytes of snapshots on their way are a size.",
    'max_outstanding_catchup strconv.ParseInt: parsing "fo": invalid syntax',
    "jetstream { max_outstanding_catchup: foo }\n",
)
add_refusal(
    "error.cluster-traffic",
    "The traffic between replicas belongs to one of two accounts.",
    "Expected 'system' or 'owner' string value for \"cluster_traffic\", got foo",
    "accounts { A { jetstream { cluster_traffic: foo } } }\n",
)
add_refusal(
    "error.cluster-traffic-type",
    "The account of the traffic between replicas is named by a text.",
    "Expected either 'system' or 'owner' string value for \"cluster_traffic\", got 5",
    "accounts { A { jetstream { cluster_traffic: 5 } } }\n",
)
add_refusal(
    "error.sync-interval",
    "The sync interval is a duration or `always`.",
    "error parsing sync_interval: time: invalid duration",
    'jetstream { sync_interval: "sometimes" }\n',
)
add_refusal(
    "error.domain-dots",
    "A domain is one token.",
    "invalid domain name: may not contain ., * or >",
    'jetstream { domain: "a.b" }\n',
)
add_refusal(
    "error.domain-space",
    "A domain has to fit into a subject.",
    "is not a valid subject",
    'jetstream { domain: "a b" }\n',
)
add_refusal(
    "error.domain-wildcard",
    "A domain is no wildcard.",
    "",
    'jetstream { domain: "*" }\n',
)
add_refusal(
    "error.domain-of-disabled",
    "The domain is looked at even where JetStream is off.",
    "invalid domain name",
    'jetstream { enabled: false, domain: "a.b" }\n',
)
add_refusal(
    "error.store-dir-twice",
    "The folder is named in one place.",
    "Duplicate 'store_dir' configuration",
    'jetstream { store_dir: "a", store: "b" }\n',
    placed=False,
)
add_refusal(
    "error.store-dir-above-and-inside",
    "The folder is named above or inside the block, not both.",
    "",
    'store_dir: "a"\njetstream { store_dir: "b" }\n',
    placed=False,
)
# The first of each kind claims the text, which does not name the key.
for key, value, text in (
    ("domain", "5", "interface conversion: interface {} is int64, not string"),
    ("enabled", "perhaps", "interface conversion: interface {} is string, not bool"),
    ("key", "7", ""),
    ("store_dir", "true", "interface conversion: interface {} is bool, not string"),
    ("cipher", "1", ""),
    ("unique_tag", "1", ""),
    ("limits { max_ack_pending", "x }", "interface conversion: interface {} is string, not int64"),
    ("limits { max_ha_assets", "x }", ""),
    ("limits { max_request_batch", "x }", ""),
    ("limits { default_max_consumers", "x }", ""),
    ("limits { duplicate_window", "5 }", ""),
):
    name = key.rpartition(" ")[2]
    add_refusal(
        f"error.type-of-{name.replace('_', '-')}",
        f"`{name}` of the block has a type.",
        text,
        f"jetstream {{ {key}: {value} }}\n",
        placed=False,
    )

# --- accounts -----------------------------------------------------------------------------------

for key, value in (
    ("max_mem", '"10G"'),
    ("max_file", "many"),
    ("max_streams", "1.5"),
    ("max_consumers", "true"),
    ("memory_max_stream_bytes", "x"),
    ("store_max_stream_bytes", "x"),
    ("max_ack_pending", "x"),
):
    add_refusal(
        f"account.error.{key.replace('_', '-')}",
        f"`{key}` of an account is a number.",
        f'Expected a parseable size for "{key}"',
        f"accounts {{\n  A {{\n    jetstream {{\n      {key}: {value}\n    }}\n  }}\n}}\n",
    )
add_refusal(
    "account.error.max-bytes-required",
    "`max_bytes_required` is true or false.",
    'Expected a parseable bool for "max_bytes_required", got 5',
    "accounts { A { jetstream { max_bytes_required: 5 } } }\n",
)
add_refusal(
    "account.error.word",
    "The word for an account's JetStream is one of four.",
    "Expected 'enabled' or 'disabled' for string value, got 'maybe'",
    "accounts { A { jetstream: maybe } }\n",
    placed=False,
)
add_refusal(
    "account.error.type",
    "An account's JetStream is a map, a word or a truth value.",
    "Expected map, bool or string to define JetStream, got []interface {}",
    "accounts { A { jetstream: [] } }\n",
    placed=False,
)
add_refusal(
    "account.error.unknown-key",
    "An unknown key of an account's JetStream is refused.",
    'unknown field "domain"',
    "accounts { A { jetstream { domain: x } } }\n",
)


@catalogue.case(
    "js.config.account.system", text="Not allowed to enable JetStream on the system account"
)
def system_account(session: Session) -> Observation:
    """The system account cannot have streams."""
    config = (
        'jetstream { store_dir: "store" }\nsystem_account: S\n'
        "accounts { S { jetstream: enabled, users: [ { user: s, password: x } ] } }\n"
    )
    return refused(session, config)


@catalogue.case("js.config.account.promised-memory", text="insufficient memory resources")
def promised_memory(session: Session) -> Observation:
    """Accounts cannot be promised more memory than there is, together."""
    config = (
        'jetstream { store_dir: "store", max_mem: 1000, max_file: 1000 }\n'
        "accounts {\n A { jetstream { max_mem: 600 } }\n B { jetstream { max_mem: 600 } }\n}\n"
    )
    return refused(session, config)


@catalogue.case("js.config.account.promised-storage", text="insufficient storage resources")
def promised_storage(session: Session) -> Observation:
    """Accounts cannot be promised more of the disk than there is, together."""
    config = (
        'jetstream { store_dir: "store", max_mem: 1000, max_file: 1000 }\n'
        "accounts { A { jetstream { max_file: 2000 } } }\n"
    )
    return refused(session, config)


@catalogue.case(
    "js.config.account.switches",
    setup=with_jetstream(
        rest="""
accounts {
  YES { jetstream: true, users: [ { user: "yes", password: x } ] }
  NO { jetstream: false, users: [ { user: "no", password: x } ] }
  ENABLE { jetstream: Enable, users: [ { user: enable, password: x } ] }
  DISABLED { jetstream: DISABLED, users: [ { user: disabled, password: x } ] }
  EMPTY { jetstream {}, users: [ { user: empty, password: x } ] }
  ALIASES {
    jetstream { mem: 1000, disk: 2000, streams: 3, consumers: 4, max_stream_bytes: true
      mem_max_stream_bytes: 5, disk_max_stream_bytes: 6 }
    users: [ { user: aliases, password: x } ]
  }
}
"""
    ),
    own_server=True,
)
def account_switches(session: Session) -> Observation:
    """JetStream of an account by truth value, word or map; limits have several names."""
    users = ("yes", "no", "enable", "disabled", "empty", "aliases")
    return {user: jetstream(session, **login(user)).api("INFO") for user in users}


@catalogue.case(
    "js.config.account.none-named",
    setup=with_jetstream(rest="accounts { A { users: [ { user: a, password: x } ] } }\n"),
    own_server=True,
)
def no_account_named(session: Session) -> Observation:
    """If accounts are configured and none is given JetStream, none has it."""
    jsz = session.get("/jsz?accounts=1")["jsz"]
    return {"total": jsz["total"], "info": jetstream(session, **login("a")).api("INFO")}


# --- configurations that start -------------------------------------------------------------------


def seen(session: Session) -> dict[str, Any]:
    """The JetStream settings on the page of a started server."""
    jsz = session.get("/jsz")["jsz"]
    return {key: jsz.get(key) for key in ("config", "limits", "disabled")}


def logged(session: Session) -> list[str]:
    """The log lines of a start that are about JetStream, without the picture and times."""
    lines = [line for line in session.server.log if line.level in ("INF", "WRN")]
    begin = next(at for at, line in enumerate(lines) if line.text == "Starting JetStream")
    wanted = re.compile(r"  \w+( \w+)?: |.*Temporary|-----")
    return [f"{line.level} {line.text}" for line in lines[begin:] if wanted.match(line.text)]


OFF = {
    "word": "jetstream: disabled",
    "disable": "jetstream: Disable",
    "false": "jetstream: false",
    "switch": "jetstream { enabled: false, max_mem: 5 }",
    "store alone": "store_dir: 'store'",
}


def add(
    rule: str, statement: str, setup: Setup, script: Script, masks: tuple[Mask, ...] = ()
) -> None:
    """A case of a server of its own; the script needs neither name nor words."""

    def named(session: Session) -> Observation:
        return script(session)

    named.__doc__ = statement
    named.__name__ = rule.replace(".", "_").replace("-", "_")
    catalogue.case(f"js.config.{rule}", setup=setup, own_server=True, masks=masks)(named)


for name, text in OFF.items():
    add(
        f"off.{name.replace(' ', '-')}",
        f"JetStream is off where the configuration says `{text}`.",
        Setup(text + "\n"),
        lambda session: {"jsz": seen(session), "info": session.dial().frame()},
    )

ON = {
    "word": "jetstream: enabled\nstore_dir: store",
    "true": "jetstream: true\nstore_dir: store",
    "empty": "jetstream {}\nstore_dir: store",
    "storedir": "jetstream { storedir: store, max_mem: 1MB }",
    "strings": "jetstream { store: './store/', max_mem_store: '1M', max_file_store: '2G' }",
    "zero": "jetstream { store_dir: store, max_mem: 0, max_file: 0 }",
    "negative": "jetstream { store_dir: store, max_mem: -1, max_file: 1000 }",
    "sync": "jetstream { store_dir: store, max_mem: 1K, max_file: 1K, sync: '1s' }",
    "sync-always": "jetstream { store_dir: store, max_mem: 1K, max_file: 1K, sync: Always }",
    "lax": "jetstream { store_dir: store, max_mem: 1K, max_file: 1K, strict: false }",
    "buffers": (
        "jetstream { store_dir: store, max_mem: 1K, max_file: 1K, max_buffered_size: 5, "
        "max_buffered_msgs: 6, unique_tag: 'AZ' }"
    ),
}
MACHINE = (
    Mask("**.config.max_memory", is_positive, "by the machine, sampled at another moment"),
    Mask("**.config.max_storage", is_positive, "by the free disk at another moment"),
)
DYNAMIC = ("word", "true", "empty", "storedir", "negative")
for name, text in ON.items():
    add(
        f"on.{name}",
        f"What runs where the configuration says `{text}`.",
        Setup(text + "\n"),
        seen,
        MACHINE if name in DYNAMIC else (),
    )


@catalogue.case(
    "js.config.flags",
    setup=Setup(flags=(*LOOPBACK_FLAGS, "-js", "-sd", "store")),
    own_server=True,
    masks=MACHINE,
)
def flags(session: Session) -> Observation:
    """Flags alone switch JetStream on."""
    return seen(session)


@catalogue.case(
    "js.config.flag-over-file",
    setup=Setup("jetstream { enabled: false, store_dir: store }\n", (*LOOPBACK_FLAGS, "-js")),
    own_server=True,
    masks=MACHINE,
)
def flag_over_file(session: Session) -> Observation:
    """The flag switches JetStream on if the file switches it off."""
    return seen(session)


@catalogue.case(
    "js.config.flag-off",
    setup=Setup("jetstream { store_dir: store }\n", (*LOOPBACK_FLAGS, "-js=false")),
    own_server=True,
)
def flag_off(session: Session) -> Observation:
    """The flag switches JetStream off if the file switches it on."""
    return seen(session)


@catalogue.case("js.config.store-dir-flag-and-file")
def store_dir_twice(session: Session) -> Observation:
    """The folder is named by the flag or by the file, not by both."""
    return {
        config: PLACE.sub("", str(refused(session, config, "-sd", "other")))
        for config in ("store_dir: store\n", "jetstream { store_dir: store }\n")
    }


@catalogue.case(
    "js.config.banner",
    setup=with_jetstream(f"{RESOURCES}, domain: hub, key: secret, cipher: aes"),
    own_server=True,
)
def banner(session: Session) -> Observation:
    """The log of a start: limits, folder, domain, cipher, level."""
    return logged(session)


@catalogue.case(
    "js.config.banner.lax",
    setup=with_jetstream("max_mem: 900, max_file: 1500, strict: false, key: secret"),
    own_server=True,
)
def banner_lax(session: Session) -> Observation:
    """The log of a start with small limits, lax requests, and the default cipher."""
    return logged(session)


# --- the folder ----------------------------------------------------------------------------------


@catalogue.case("js.config.folder.is-file", text="storage directory is not a directory")
def folder_is_file(session: Session) -> Observation:
    """A file where the folder should be."""
    (session.directory / "store").write_text("")
    return refused(session, "jetstream { store_dir: store }\n")


@catalogue.case("js.config.folder.inner-is-file")
def inner_folder_is_file(session: Session) -> Observation:
    """A file where the folder in the folder should be."""
    (session.directory / "store").mkdir()
    (session.directory / "store" / "jetstream").write_text("")
    return refused(session, "jetstream { store_dir: store }\n")


@catalogue.case("js.config.folder.can-not-be-made", text="could not create storage directory")
def folder_can_not_be_made(session: Session) -> Observation:
    """A folder where none can be made."""
    return refused(session, 'jetstream { store_dir: "/proc/nowhere" }\n')


# --- reload --------------------------------------------------------------------------------------

LISTENING = 'listen: "127.0.0.1:-1"\nhttp: "127.0.0.1:-1"\nserver_name: interop\n'
BEFORE = LISTENING + 'jetstream { store_dir: "store", max_mem: 1000, max_file: 1000 }\n'


def reloaded(session: Session, config: str) -> dict[str, Observation]:
    """The log line of a reload, and the configuration in force then."""
    server = session.server
    before = len(server.log)
    server.rewrite_config(LISTENING + config)
    server.signal(signal.SIGHUP)
    # The two outcomes have these words in common.
    line = server.wait_for_log("server configuration", before)
    config_now = session.get("/jsz")["jsz"]["config"]
    return {"said": line.text.split(" (sha256")[0], "config": config_now}


RELOADS = {
    "raise": "jetstream { store_dir: 'store', max_mem: 2000, max_file: 3000 }",
    "lower": "jetstream { store_dir: 'store', max_mem: 500, max_file: 1000 }",
    "unset": "jetstream { store_dir: 'store', max_mem: 1000 }",
    "folder": "jetstream { store_dir: 'other', max_mem: 1000, max_file: 1000 }",
    "no-folder": "jetstream { max_mem: 1000, max_file: 1000 }",
    "domain": "jetstream { store_dir: 'store', max_mem: 1000, max_file: 1000, domain: hub }",
    "sync-always": "jetstream { store_dir: 'store', max_mem: 1000, max_file: 1000, sync: always }",
}
for name, text in RELOADS.items():
    add(
        f"reload.{name}",
        f"What a reload makes of `{text}`: limits may be raised, and nothing else.",
        Setup(BEFORE, ()),
        partial(reloaded, config=text + "\n"),
    )


@catalogue.case(
    "js.config.reload.dynamic",
    setup=Setup(LISTENING + 'jetstream { store_dir: "store" }\n', ()),
    own_server=True,
)
def reload_dynamic(session: Session) -> Observation:
    """Limits chosen by the machine cannot be set while the server runs."""
    return reloaded(session, 'jetstream { store_dir: "store", max_mem: 1000 }\n')["said"]


def one_account(limits: str, name: str = "A") -> str:
    """A server with one account, and limits of its own for it."""
    users = "users: [ { user: a, password: x } ]"
    return (
        f'jetstream {{ store_dir: "store", {RESOURCES} }}\n'
        f"accounts {{ {name} {{ {limits}, {users} }} }}\n"
    )


@catalogue.case(
    "js.config.reload.account-limits",
    setup=Setup(LISTENING + one_account("jetstream { max_streams: 1 }"), ()),
    own_server=True,
)
def reload_account_limits(session: Session) -> Observation:
    """Limits of an account are those of the file from a reload on."""
    js = jetstream(session, **login("a"))
    created = [js.create("ONE").get("error"), js.create("TWO").get("error")]
    reloaded(session, one_account("jetstream { max_streams: 2 }"))
    return [*created, js.create("TWO").get("error"), js.api("INFO")["limits"]]


@catalogue.case(
    "js.config.reload.account-enabled",
    setup=Setup(LISTENING + one_account("jetstream: disabled"), ()),
    own_server=True,
)
def reload_enables_account(session: Session) -> Observation:
    """An account may be given JetStream by a reload."""
    js = jetstream(session, **login("a"))
    before = js.api("INFO")
    reloaded(session, one_account("jetstream: enabled"))
    return {"before": before, "created": js.create("ONE"), "info": js.api("INFO")}


@catalogue.case(
    "js.config.reload.account-added",
    setup=Setup(LISTENING + one_account("jetstream: enabled"), ()),
    own_server=True,
)
def reload_adds_account(session: Session) -> Observation:
    """An account that a reload brings may have JetStream at once."""
    users = "users: [ { user: b, password: x } ]"
    other = f"accounts {{ B {{ jetstream {{ streams: 3 }}, {users} }} }}\n"
    reloaded(session, f'jetstream {{ store_dir: "store", {RESOURCES} }}\n' + other)
    js = jetstream(session, **login("b"))
    return [js.create("ONE"), js.api("INFO")]
