"""The account: what `$JS.API.INFO` tells of usage and calls, and the limits streams run into."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import (
    ACCOUNTS,
    JETSTREAM,
    SMALL,
    JetStreamClient,
    jetstream,
    login,
)
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

KILOBYTE = 1000


@catalogue.case("js.account.fresh", own_server=True)
def fresh(session: Session) -> Observation:
    """An account that was never used has no usage, no limits, and no calls to the API."""
    return jetstream(session).api("INFO")


@catalogue.case("js.account.counts-itself-later", own_server=True)
def counts_itself_later(session: Session) -> Observation:
    """A call is counted after its reply is written: the next reply shows it."""
    js = jetstream(session)
    return [js.api("INFO")["api"] for _ in range(3)]


@catalogue.case("js.account.calls-counted", own_server=True)
def calls_counted(session: Session) -> Observation:
    """Which calls count, and which of them as errors: gets that succeed and acks do not."""
    js = jetstream(session)
    calls = (
        lambda: js.create("COUNTED", allow_direct=True),
        lambda: js.create("COUNTED", max_msgs=1),
        lambda: js.publish("COUNTED", "x"),
        lambda: js.api("STREAM.MSG.GET.COUNTED", {"seq": 1}),
        lambda: js.api("STREAM.MSG.GET.COUNTED", {"seq": 9}),
        lambda: js.direct("COUNTED", {"seq": 1}),
        lambda: js.direct("COUNTED", {"seq": 9}),
        lambda: js.api("STREAM.MSG.DELETE.COUNTED", {"seq": 9}),
        lambda: js.api("STREAM.MSG.DELETE.COUNTED", {"seq": 1}),
        lambda: js.api("STREAM.PURGE.COUNTED"),
        lambda: js.api("STREAM.PURGE.COUNTED", {"seq": 1, "keep": 1}),
        lambda: js.api("STREAM.NAMES"),
        lambda: js.api("STREAM.LIST", "{"),
        lambda: js.info("NONE"),
        lambda: js.update("COUNTED"),
        lambda: js.api("STREAM.DELETE.NONE"),
        lambda: js.api("STREAM.DELETE.COUNTED"),
        lambda: js.unanswered("$JS.API.UNKNOWN"),
        lambda: js.publish("nobody", "x"),
    )
    counted = []
    for call in calls:
        call()
        counted.append(js.api("INFO")["api"])
    return counted


@catalogue.case("js.account.usage", own_server=True)
def usage(session: Session) -> Observation:
    """Usage is the size of the streams, by storage; reserved is the sum of their `max_bytes`."""
    js = jetstream(session)
    js.create("ON-DISK", max_bytes=1000)
    js.create("ON-DISK-2")
    js.create("IN-MEMORY", storage="memory", max_bytes=2000)
    js.fill("ON-DISK", "ON-DISK-2", "IN-MEMORY")
    full = js.api("INFO")
    js.update("ON-DISK", max_bytes=700)
    updated = js.api("INFO")
    js.api("STREAM.DELETE.IN-MEMORY")
    js.api("STREAM.DELETE.ON-DISK")
    return {"full": full, "updated": updated, "deleted": js.api("INFO")}


def tight(session: Session, *streams: str) -> JetStreamClient:
    """A client of the account with every limit. Its servers are its own: limits are counted."""
    return jetstream(session, *streams, **login("tight"))


@catalogue.case("js.account.limits-shown", setup=ACCOUNTS, own_server=True)
def limits_shown(session: Session) -> Observation:
    """The limits of an account are shown."""
    return tight(session).api("INFO")


@catalogue.case("js.account.limits-of-others", setup=ACCOUNTS, own_server=True)
def limits_of_others(session: Session) -> Observation:
    """An account enabled without limits has none, and the usage of others is not its own."""
    plain = jetstream(session, **login("plain"))
    plain.create("MINE")
    plain.fill("MINE")
    other = jetstream(session, **login("other"))
    return {
        "plain": plain.api("INFO"),
        "other": other.api("INFO"),
        "names": other.api("STREAM.NAMES"),
        "get": other.api("STREAM.MSG.GET.MINE", {"seq": 1}),
        "publish": other.publish("MINE", "x"),
        "same name": other.create("MINE", max_msgs=3),
    }


@catalogue.case(
    "js.account.max-streams",
    setup=ACCOUNTS,
    own_server=True,
    text="maximum number of streams reached",
)
def max_streams(session: Session) -> Observation:
    """The stream past `max_streams` is refused; one that is there may be created again."""
    js = tight(session)
    for name in ("S1", "S2"):
        js.create(name, max_bytes=KILOBYTE)
    refused = js.create("S3", max_bytes=KILOBYTE)
    again = js.create("S2", max_bytes=KILOBYTE)
    js.api("STREAM.DELETE.S1")
    return {"refused": refused, "again": again, "room": js.create("S3", max_bytes=KILOBYTE)}


@catalogue.case(
    "js.account.max-bytes-required",
    setup=ACCOUNTS,
    own_server=True,
    text="account requires a stream config to have max bytes set",
)
def max_bytes_required(session: Session) -> Observation:
    """An account may require `max_bytes`, of a create and of an update."""
    js = tight(session)
    none, zero = js.create("UNBOUNDED"), js.create("UNBOUNDED", max_bytes=0)
    js.create("BOUNDED", max_bytes=KILOBYTE)
    return {"none": none, "zero": zero, "update": js.update("BOUNDED")}


@catalogue.case(
    "js.account.max-stream-bytes",
    setup=ACCOUNTS,
    own_server=True,
    text="stream max bytes exceeds account limit max stream bytes",
)
def max_stream_bytes(session: Session) -> Observation:
    """A stream has at most the bytes its account gives one stream of its storage."""
    js = tight(session)
    return {
        "file": js.create("MOST", max_bytes=800_000),
        "file past": js.create("PAST", max_bytes=800_001),
        "memory past": js.create("PAST", max_bytes=400_001, storage="memory"),
        "memory": js.create("MOST-MEMORY", max_bytes=400_000, storage="memory"),
        "update": js.update("MOST", max_bytes=800_001),
    }


@catalogue.case(
    "js.account.storage-reserved",
    setup=ACCOUNTS,
    own_server=True,
    text="insufficient storage resources available",
)
def storage_reserved(session: Session) -> Observation:
    """The bytes that streams reserve on disk stay within the account's limit."""
    js = jetstream(session, **login("small"))
    return {
        "past": js.create("PAST", max_bytes=1001),
        "fits": js.create("FITS", max_bytes=600),
        "sum past": js.create("SECOND", max_bytes=401),
        "sum fits": js.create("SECOND", max_bytes=400),
        "update past": js.update("FITS", max_bytes=601),
        "none left": js.create("THIRD"),
    }


@catalogue.case(
    "js.account.memory-reserved",
    setup=ACCOUNTS,
    own_server=True,
    text="insufficient memory resources available",
)
def memory_reserved(session: Session) -> Observation:
    """The bytes that streams reserve in memory stay within the account's limit."""
    js = jetstream(session, **login("small"))
    return {
        "past": js.create("PAST", max_bytes=1001, storage="memory"),
        "fits": js.create("FITS", max_bytes=1000, storage="memory"),
        "none left": js.create("SECOND", storage="memory"),
    }


@catalogue.case(
    "js.account.max-consumers",
    setup=ACCOUNTS,
    own_server=True,
    text="maximum consumers limit reached",
)
def max_consumers(session: Session) -> Observation:
    """A stream cannot allow more consumers than its account may have."""
    js = tight(session)
    return {
        "past": js.create("CONSUMED", max_bytes=KILOBYTE, max_consumers=2),
        "fits": js.create("CONSUMED", max_bytes=KILOBYTE, max_consumers=1),
    }


@catalogue.case("js.account.server-reserved", setup=SMALL, own_server=True)
def server_reserved(session: Session) -> Observation:
    """The reservations of streams stay within the server's limits, whatever the account's are."""
    js = jetstream(session)
    return {
        "file past": js.create("PAST", max_bytes=3 * 1024 * 1024),
        "file": js.create("FILE", max_bytes=2 * 1024 * 1024),
        "file none left": js.create("SECOND"),
        "memory past": js.create("PAST", max_bytes=1024 * 1024 + 1, storage="memory"),
        "memory": js.create("MEMORY", max_bytes=1024 * 1024, storage="memory"),
        "update": js.update("FILE", max_bytes=2 * 1024 * 1024 + 1),
        "info": js.api("INFO"),
    }


@catalogue.case("js.account.not-enabled", setup=ACCOUNTS, text="JetStream not enabled for account")
def not_enabled(session: Session) -> Observation:
    """Every call of the API by an account without JetStream has that error."""
    js = jetstream(session, **login("without"))
    calls = (
        "INFO",
        "STREAM.CREATE.NOT-ENABLED",
        "STREAM.UPDATE.NOT-ENABLED",
        "STREAM.NAMES",
        "STREAM.LIST",
        "STREAM.INFO.NOT-ENABLED",
        "STREAM.DELETE.NOT-ENABLED",
        "STREAM.PURGE.NOT-ENABLED",
        "STREAM.MSG.GET.NOT-ENABLED",
        "STREAM.MSG.DELETE.NOT-ENABLED",
        "STREAM.SNAPSHOT.NOT-ENABLED",
        "STREAM.RESTORE.NOT-ENABLED",
    )
    return {call: js.api(call) for call in calls}


@catalogue.case("js.account.system", setup=ACCOUNTS)
def system_account(session: Session) -> Observation:
    """The system account has no streams; its calls are answered by another type of response."""
    js = jetstream(session, **login("admin"))
    calls = ("INFO", "STREAM.CREATE.SYSTEM", "STREAM.NAMES", "STREAM.INFO.SYSTEM")
    return {call: js.api(call) for call in calls}


@catalogue.case("js.account.system-any", setup=ACCOUNTS)
def system_account_any(session: Session) -> Observation:
    """In the system account whatever is under the prefix of the API is answered."""
    js = jetstream(session, **login("admin"))
    calls = ("FOO", "INFO.X", "META.FOO", "DIRECT.GET.S", "CONSUMER.MSG.NEXT.S.C", "STREAM.CREATE")
    return {call: js.api(call) for call in calls}


@catalogue.case("js.account.system-leader", setup=ACCOUNTS)
def system_account_leader(session: Session) -> Observation:
    """Only the calls for the leader of a cluster are met with silence there."""
    js = jetstream(session, **login("admin"))
    calls = (
        "META.LEADER.STEPDOWN",
        "SERVER.REMOVE",
        "SERVER.EVACUATE",
        "META.RESCUE",
        "ACCOUNT.STREAM.MOVE.A.S",
        "ACCOUNT.STREAM.CANCEL_MOVE.A.S",
    )
    return {call: js.unanswered(f"$JS.API.{call}", "{}") for call in calls}


@catalogue.case("js.account.purge", setup=ACCOUNTS, own_server=True)
def purge_account(session: Session) -> Observation:
    """The system account may remove all streams of an account, at once and for good."""
    plain = jetstream(session, **login("plain"))
    other = jetstream(session, **login("other"))
    for name in ("ONE", "TWO"):
        plain.create(name)
        other.create(name)
    admin = jetstream(session, **login("admin"))
    return {
        "purged": admin.api("ACCOUNT.PURGE.PLAIN"),
        "left": plain.api("STREAM.NAMES"),
        "of another": other.api("STREAM.NAMES"),
        "unknown": admin.api("ACCOUNT.PURGE.NOBODY"),
        "path": admin.api("ACCOUNT.PURGE.a/b"),
    }


@catalogue.case("js.account.reserved-first", setup=ACCOUNTS, own_server=True)
def reserved_first(session: Session) -> Observation:
    """The room left in an account is checked after the configuration and before other streams."""
    js = jetstream(session, **login("small"))
    js.create("HELD", max_bytes=600)
    return {
        "configuration": js.create("NEW", max_bytes=401, max_age=1),
        "overlap": js.create("NEW", subjects=["HELD"], max_bytes=401),
        "overlap that fits": js.create("NEW", subjects=["HELD"], max_bytes=400),
        "name in use": js.create("HELD", max_bytes=1001),
        "update": js.update("HELD", max_bytes=1001, storage="memory"),
        "limits of the last": js.create("NEW", max_bytes=400),
        "update to overlap": js.update("NEW", subjects=["HELD"], max_bytes=401),
    }


@catalogue.case("js.account.reserved-again", setup=SMALL, own_server=True)
def reserved_again(session: Session) -> Observation:
    """Creating a stream again reserves nothing more, however little is left."""
    js = jetstream(session)
    js.create("HALF", max_bytes=1024 * 1024)
    again = js.create("HALF", max_bytes=1024 * 1024)
    js.update("HALF", max_bytes=1024 * 1024 + 1)
    return {"half": again, "more": js.create("HALF", max_bytes=1024 * 1024 + 1)}


@catalogue.case("js.account.info-line", setup=ACCOUNTS)
def info_line(session: Session) -> Observation:
    """The INFO of a server with JetStream says so, to every connection alike."""
    return {"first": session.dial().frame()}
