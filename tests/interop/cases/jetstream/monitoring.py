"""JetStream as operators see it: /jsz, /healthz, /varz, /accountz and the system services."""

import json
from typing import Any

from tests.interop.case import Catalogue
from tests.interop.jetstream import (
    ACCOUNTS,
    DOMAIN,
    JETSTREAM,
    SYNC_ALWAYS,
    JetStreamClient,
    Reply,
    jetstream,
    login,
    with_jetstream,
    with_moments,
)
from tests.interop.observation import Observation
from tests.interop.session import Session
from tests.kit.server_process import Setup

catalogue = Catalogue(JETSTREAM)

LIMITED = with_jetstream(
    "max_memory_store: 1MB, max_file_store: 2MB, sync_interval: '10s', unique_tag: ' AZ ', "
    "limits { max_ack_pending: 7, max_request_batch: 8, max_ha_assets: 9, "
    "duplicate_window: '1m' }"
)
"""Everything of the block that is shown."""


def in_order(document: Reply) -> Reply:
    """JSZ without the server's identity, its time, and the requests in flight (the oracle counts
    its own a little longer), and with its streams sorted, which the oracle does not do.
    """
    for key in ("server_id", "now"):
        document.pop(key, None)
    document.get("api", {}).pop("inflight", None)
    for part in (document, *document.get("account_details", ())):
        part.get("stream_detail", []).sort(key=lambda stream: stream["name"])
    moments: Reply = with_moments(document)
    return moments


def page(session: Session, path: str) -> Reply:
    """/jsz, in order."""
    answer = session.get(path)
    return {**answer, "jsz": in_order(answer["jsz"])}


def ask(session: Session, subject: str, body: object = None) -> Reply:
    """The document of a system service, without the server's identity."""
    client = JetStreamClient(session.connect(**login("admin")))
    reply = client.request(subject, "" if body is None else json.dumps(body))
    reply.pop("server", None)
    if isinstance(data := reply.get("data"), dict):
        reply["data"] = in_order(data)
    return reply


def first_info(session: Session) -> Reply:
    """The first INFO of a connection."""
    frame = session.dial().frame()
    assert isinstance(frame, dict)
    info = frame["INFO"]
    assert isinstance(info, dict)
    return info


def part(document: Reply, *path: str) -> Observation:
    """A part of a document."""
    found: Any = document
    for key in path:
        found = found.get(key)
    inner: Observation = found
    return inner


def filled(session: Session, **options: Any) -> JetStreamClient:
    """A client beside a stream on disk, with a gap, and one in memory."""
    js = jetstream(session, "DISK", "RAM", **options)
    js.create("DISK", max_bytes=5000, description="a <stream> & more")
    js.create("RAM", storage="memory", max_bytes=700)
    js.fill("DISK.a", "DISK.b", "DISK.c", "RAM")
    js.api("STREAM.MSG.DELETE.DISK", {"seq": 2})
    return js


# --- /jsz ---------------------------------------------------------------------------------------


@catalogue.case("js.monitor.jsz.off", setup=Setup())
def jsz_off(session: Session) -> Observation:
    """/jsz of a server without JetStream says so, whatever was asked for."""
    return {query: page(session, f"/jsz?{query}") for query in ("", "streams=1&config=1&acc=$G")}


@catalogue.case("js.monitor.jsz.off-leader-only", setup=Setup(), text="not leader")
def jsz_off_leader_only(session: Session) -> Observation:
    """Without JetStream a server leads nothing."""
    return session.get("/jsz?leader-only=1")


@catalogue.case("js.monitor.jsz.fresh", own_server=True)
def jsz_fresh(session: Session) -> Observation:
    """/jsz of a server that has done nothing yet: its limits, its folder, and zeros."""
    return page(session, "/jsz")


@catalogue.case("js.monitor.jsz.settings", setup=LIMITED, own_server=True)
def jsz_settings(session: Session) -> Observation:
    """The page shows the settings of the block, durations in nanoseconds."""
    return page(session, "/jsz")


@catalogue.case("js.monitor.jsz.sync-always", setup=SYNC_ALWAYS)
def jsz_sync_always(session: Session) -> Observation:
    """`sync_interval: always` is a switch of its own beside the interval."""
    return part(page(session, "/jsz"), "jsz", "config")


@catalogue.case("js.monitor.jsz.domain", setup=DOMAIN)
def jsz_domain(session: Session) -> Observation:
    """A domain is part of the configuration."""
    return part(page(session, "/jsz"), "jsz", "config")


@catalogue.case("js.monitor.jsz.counts", own_server=True)
def jsz_counts(session: Session) -> Observation:
    """Streams, messages, bytes, reservations and calls are counted over all accounts."""
    js = filled(session)
    js.info("NONE")
    return page(session, "/jsz")


@catalogue.case("js.monitor.jsz.accounts", setup=ACCOUNTS, own_server=True)
def jsz_accounts(session: Session) -> Observation:
    """`accounts` lists accounts by name; no limit is the largest number there is."""
    filled(session, **login("plain"))
    return page(session, "/jsz?accounts=true")


@catalogue.case("js.monitor.jsz.paging", setup=ACCOUNTS, own_server=True)
def jsz_paging(session: Session) -> Observation:
    """`offset` and `limit` cut a page out of the accounts; `total` counts all."""
    pages = {}
    for query in ("limit=1", "offset=1&limit=2", "offset=9", "offset=-1&limit=1", "offset=3"):
        jsz = page(session, f"/jsz?accounts=1&{query}")["jsz"]
        names = [account["name"] for account in jsz.get("account_details", ())]
        pages[query] = {"total": jsz["total"], "names": names, "key": "account_details" in jsz}
    return pages


@catalogue.case("js.monitor.jsz.negative-limit", setup=ACCOUNTS, own_server=True)
def jsz_negative_limit(session: Session) -> Observation:
    """A negative limit is none."""
    jsz = page(session, "/jsz?accounts=1&limit=-1&offset=2")["jsz"]
    return sorted(account["name"] for account in jsz["account_details"])


@catalogue.case("js.monitor.jsz.account", setup=ACCOUNTS, own_server=True)
def jsz_account(session: Session) -> Observation:
    """`acc` shows one account; one without JetStream, or that is not there, shows none."""
    filled(session, **login("plain"))
    queries = (
        "acc=PLAIN",
        "acc=PLAIN&streams=1",
        "acc=TIGHT",
        "acc=WITHOUT",
        "acc=NOPE",
        "acc=NOPE&streams=1",
        "acc=NOPE&accounts=1&limit=1",
        "acc=PLAIN&offset=5",
    )
    return {query: page(session, f"/jsz?{query}") for query in queries}


@catalogue.case("js.monitor.jsz.streams", own_server=True)
def jsz_streams(session: Session) -> Observation:
    """`streams` shows each stream with who leads it and its state."""
    filled(session)
    return page(session, "/jsz?streams=true")


@catalogue.case("js.monitor.jsz.stream-config", own_server=True)
def jsz_stream_config(session: Session) -> Observation:
    """`config` adds what streams are set to, and nothing where streams are not shown."""
    filled(session)
    queries = ("streams=1&config=1", "accounts=1&config=1", "config=1")
    return {query: page(session, f"/jsz?{query}") for query in queries}


@catalogue.case("js.monitor.jsz.consumers", own_server=True)
def jsz_consumers(session: Session) -> Observation:
    """`consumers` shows streams too; one that has none shows no key."""
    filled(session)
    queries = ("consumers=1", "direct-consumers=1", "consumers=1&direct-consumers=1&config=1")
    return {query: page(session, f"/jsz?{query}") for query in queries}


@catalogue.case("js.monitor.jsz.raft", own_server=True)
def jsz_raft(session: Session) -> Observation:
    """`raft` counts the streams a server leads: on its own, all of them."""
    empty = page(session, "/jsz?raft=1")
    filled(session)
    return {"empty": empty, "filled": page(session, "/jsz?raft=1&streams=1")}


@catalogue.case("js.monitor.jsz.leader-only", own_server=True)
def jsz_leader_only(session: Session) -> Observation:
    """A server on its own leads itself and its streams."""
    filled(session)
    return page(session, "/jsz?leader-only=1&stream-leader-only=1&streams=1")


@catalogue.case("js.monitor.jsz.empty-account-streams", own_server=True)
def jsz_no_streams(session: Session) -> Observation:
    """An account without streams has no list of them, asked for or not."""
    return {query: page(session, f"/jsz?{query}") for query in ("streams=1", "accounts=1")}


@catalogue.case("js.monitor.jsz.state-of-empty-stream", own_server=True)
def jsz_state_of_empty_stream(session: Session) -> Observation:
    """A stream that never had a message has no times."""
    jetstream(session).create("EMPTY")
    return page(session, "/jsz?streams=1")


@catalogue.case("js.monitor.jsz.deleted-stream", own_server=True)
def jsz_deleted_stream(session: Session) -> Observation:
    """A deleted stream leaves no usage and no reservation behind."""
    js = filled(session)
    for name in ("DISK", "RAM"):
        js.api(f"STREAM.DELETE.{name}")
    return page(session, "/jsz?streams=1")


@catalogue.case("js.monitor.jsz.bad-options", text="Error decoding")
def jsz_bad_options(session: Session) -> Observation:
    """Options that cannot be read are refused by name, the first one of them."""
    queries = (
        "accounts=x",
        "streams=2",
        "consumers=x",
        "direct-consumers=x",
        "config=x",
        "leader-only=x",
        "raft=x",
        "stream-leader-only=x",
        "offset=x",
        "limit=1.5",
        "raft=x&limit=x&accounts=x",
    )
    return {query: session.get(f"/jsz?{query}") for query in queries}


# --- /varz, /accountz, INFO ---------------------------------------------------------------------


@catalogue.case("js.monitor.varz", setup=LIMITED, own_server=True)
def varz(session: Session) -> Observation:
    """/varz has configuration, numbers and limits of JetStream."""
    js = jetstream(session)
    js.create("DISK", max_bytes=5000)
    js.fill("DISK.a")
    return part(session.get("/varz"), "varz", "jetstream")


@catalogue.case("js.monitor.accountz", setup=ACCOUNTS)
def accountz(session: Session) -> Observation:
    """/accountz tells which accounts have JetStream; all of them see its API."""
    seen = {}
    for account in ("PLAIN", "TIGHT", "WITHOUT", "$SYS"):
        detail = session.get(f"/accountz?acc={account}")["accountz"]["account_detail"]
        imports = detail.get("imports", [])
        seen[account] = {
            "jetstream_enabled": detail["jetstream_enabled"],
            "imports": sorted(imports, key=lambda each: str(each["to"])),
            "mappings": detail.get("mappings"),
        }
    return seen


@catalogue.case("js.monitor.accountz.domain", setup=DOMAIN)
def accountz_domain(session: Session) -> Observation:
    """The names a domain gives to the API are mappings of every account."""
    return part(session.get("/accountz?acc=$G"), "accountz", "account_detail", "mappings")


@catalogue.case("js.monitor.info.domain", setup=DOMAIN)
def info_domain(session: Session) -> Observation:
    """INFO tells of JetStream, of its level and of its domain."""
    info = first_info(session)
    return {key: info.get(key) for key in ("jetstream", "domain", "api_lvl")}


# --- /healthz -----------------------------------------------------------------------------------


@catalogue.case("js.monitor.healthz.ok", own_server=True)
def healthz_ok(session: Session) -> Observation:
    """A server whose streams are all there is well, whatever is asked."""
    filled(session)
    queries = (
        "",
        "js-enabled-only=true",
        "js-server-only=true",
        "js-enabled=true",
        "js-meta-only=true",
        "details=true",
        "account=$G",
        "account=$G&stream=DISK",
        "account=$G&stream=DISK&details=1",
    )
    return {query: session.get(f"/healthz?{query}") for query in queries}


@catalogue.case("js.monitor.healthz.empty", own_server=True)
def healthz_empty(session: Session) -> Observation:
    """An account that never had a stream on disk is not there.

    An account that had a stream has a folder, which the oracle removes sooner or later or never.
    """
    queries = ("", "account=$G", "account=$G&stream=DISK", "account=$G&details=1")
    return {query: session.get(f"/healthz?{query}") for query in queries}


@catalogue.case("js.monitor.healthz.not-found", own_server=True, text='account "NOPE" not found')
def healthz_not_found(session: Session) -> Observation:
    """The page says which of account, stream and consumer is not there."""
    filled(session)
    queries = (
        "account=NOPE",
        "account=NOPE&details=1",
        "account=NOPE&stream=DISK",
        "account=$G&stream=NOPE",
        "account=$G&stream=NOPE&details=1",
        "account=$G&stream=NOPE&consumer=C",
        "account=$G&stream=DISK&consumer=C",
        "account=$G&stream=DISK&consumer=C&details=1",
        "account=$SYS",
    )
    return {query: session.get(f"/healthz?{query}") for query in queries}


@catalogue.case("js.monitor.healthz.memory", own_server=True, text='stream "RAM" not found')
def healthz_memory(session: Session) -> Observation:
    """A stream in memory has no files to look for."""
    filled(session)
    return session.get("/healthz?account=$G&stream=RAM")


@catalogue.case("js.monitor.healthz.only-before-names", text="must not be empty")
def healthz_only_before_names(session: Session) -> Observation:
    """A check of less than streams ignores names; a stream needs its account, a consumer both."""
    queries = (
        "js-enabled-only=1&account=NOPE",
        "js-server-only=1&account=NOPE&stream=NOPE",
        "stream=DISK",
        "stream=DISK&js-server-only=1",
        "consumer=C&account=$G",
        "consumer=C&account=$G&details=1",
    )
    return {query: session.get(f"/healthz?{query}") for query in queries}


# --- system services ----------------------------------------------------------------------------


@catalogue.case("js.monitor.service.jsz", setup=ACCOUNTS, own_server=True)
def service_jsz(session: Session) -> Observation:
    """JSZ of a server, with the options of the page under other names."""
    filled(session, **login("plain"))
    bodies: tuple[Any, ...] = (
        None,
        {"accounts": True, "limit": 1},
        {"account": "PLAIN", "streams": True, "config": True},
        {"consumer": True, "account": "PLAIN"},
        {"leader_only": True},
        {"raft": True},
    )
    subject = "$SYS.REQ.SERVER.PING.JSZ"
    return {json.dumps(body): ask(session, subject, body) for body in bodies}


@catalogue.case("js.monitor.service.account-jsz", setup=ACCOUNTS, own_server=True)
def service_account_jsz(session: Session) -> Observation:
    """JSZ of an account."""
    filled(session, **login("plain"))
    subject = "$SYS.REQ.ACCOUNT.PLAIN.JSZ"
    bodies: tuple[Any, ...] = (None, {"streams": True}, {"streams": True, "config": True})
    return {json.dumps(body): ask(session, subject, body) for body in bodies}


@catalogue.case(
    "js.monitor.service.account-jsz-errors", setup=ACCOUNTS, text="not jetstream enabled"
)
def service_account_jsz_errors(session: Session) -> Observation:
    """JSZ of an account without JetStream, of one that is not there, and of the system's."""
    return {
        account: ask(session, f"$SYS.REQ.ACCOUNT.{account}.JSZ")
        for account in ("WITHOUT", "NOPE", "$SYS")
    }


@catalogue.case("js.monitor.service.statsz", setup=ACCOUNTS, own_server=True)
def service_statsz(session: Session) -> Observation:
    """STATSZ tells of JetStream as /varz does, but not where its files are."""
    filled(session, **login("plain"))
    return part(ask(session, "$SYS.REQ.SERVER.PING.STATSZ"), "statsz", "jetstream")


@catalogue.case("js.monitor.service.identity", setup=ACCOUNTS)
def service_identity(session: Session) -> Observation:
    """Every answer says that the server has JetStream, and what it can do."""
    client = JetStreamClient(session.connect(**login("admin")))
    server = client.request("$SYS.REQ.SERVER.PING.HEALTHZ")["server"]
    return {key: server.get(key) for key in ("jetstream", "flags", "domain")}


@catalogue.case(
    "js.monitor.service.identity-domain",
    setup=with_jetstream(
        "max_memory_store: 1MB, max_file_store: 1MB, domain: hub",
        "accounts { $SYS { users: [ { user: admin, password: x } ] } }",
    ),
)
def service_identity_domain(session: Session) -> Observation:
    """Every answer has the domain of the server; requests can be for one domain only."""
    client = JetStreamClient(session.connect(**login("admin")))
    server = client.request("$SYS.REQ.SERVER.PING.HEALTHZ", {"domain": "hub"})["server"]
    return {key: server.get(key) for key in ("jetstream", "flags", "domain")}


@catalogue.case("js.monitor.service.healthz", setup=ACCOUNTS, own_server=True)
def service_healthz(session: Session) -> Observation:
    """HEALTHZ has the code that the page has in its status line."""
    filled(session, **login("plain"))
    bodies: tuple[Any, ...] = (
        None,
        {"account": "PLAIN", "stream": "DISK"},
        {"account": "PLAIN", "stream": "NOPE", "details": True},
        {"account": "NOPE"},
        {"js-enabled-only": True, "account": "NOPE"},
        {"stream": "DISK"},
    )
    subject = "$SYS.REQ.SERVER.PING.HEALTHZ"
    return {json.dumps(body): ask(session, subject, body) for body in bodies}
