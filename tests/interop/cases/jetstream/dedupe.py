"""Message ids: a second message with the id of a first one is acknowledged and not stored."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, JetStreamClient
from tests.interop.messages import acks_of_one_write, contents, new_stream, restarted, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

MILLISECOND_NS = 1_000_000
WINDOW_NS_MIN = 100 * MILLISECOND_NS

catalogue = Catalogue(JETSTREAM)


def with_id(value: str) -> dict[str, str]:
    return {"Nats-Msg-Id": value}


def ack_when_forgotten(js: JetStreamClient, subject: str, value: str) -> str:
    """The first ack of this id that is no longer a duplicate's."""
    acks: list[str] = []

    def is_forgotten() -> bool:
        acks.append(js.ack_text(subject, "again", with_id(value)))
        return "duplicate" not in acks[-1]

    js.wait_until(is_forgotten)
    return acks[-1]


@catalogue.case("js.dedupe.ack")
def duplicate_ack(session: Session) -> Observation:
    """The ack of a duplicate has the first one's sequence, and a blank before `true`."""
    js = with_stream(session, "DUP")
    acks = [js.ack_text("DUP.a", "one", with_id("x")), js.ack_text("DUP.b", "two", with_id("y"))]
    acks += [js.ack_text("DUP.a", "one", with_id("x")), js.ack_text("DUP.c", "three")]
    return [acks, contents(js, "DUP")]


@catalogue.case("js.dedupe.ids-are-the-stream-s")
def across_subjects(session: Session) -> Observation:
    """An id belongs to the stream: other subject, other payload, other headers, same duplicate."""
    js = with_stream(session, "DUPSTREAM")
    return [
        js.ack_text("DUPSTREAM.a", "one", with_id("x")),
        js.ack_text("DUPSTREAM.b", "two", {"Other": "1", **with_id("x")}),
        js.state("DUPSTREAM")["messages"],
    ]


@catalogue.case("js.dedupe.other-stream")
def other_stream(session: Session) -> Observation:
    """Two streams may see the same id."""
    js = with_stream(session, "DUPONE")
    new_stream(js, "DUPTWO")
    return [js.ack_text(name, "", with_id("x")) for name in ("DUPONE", "DUPTWO", "DUPONE")]


@catalogue.case("js.dedupe.one-write")
def one_write(session: Session) -> Observation:
    """Duplicates are found among publishes of one write too."""
    js = with_stream(session, "DUPWRITE")
    return acks_of_one_write(js, *(("DUPWRITE", "x", with_id(str(n // 2))) for n in range(6)))


@catalogue.case("js.dedupe.what-an-id-is")
def ids(session: Session) -> Observation:
    """An id is any text, its case and its blanks included; an empty one is none."""
    js = with_stream(session, "DUPIDS")
    values = ["x", "X", "x ", " x", "x y", "", "", "0", "i" * 4000, "i" * 4000]
    return [js.ack_text("DUPIDS", "", with_id(value)) for value in values]


@catalogue.case("js.dedupe.window-passes")
def window_passes(session: Session) -> Observation:
    """After the window the id may be used again, and then stands for the new sequence."""
    js = with_stream(session, "DUPWINDOW", duplicate_window=WINDOW_NS_MIN)
    first = js.ack_text("DUPWINDOW", "one", with_id("x"))
    return [first, ack_when_forgotten(js, "DUPWINDOW", "x"), contents(js, "DUPWINDOW")]


@catalogue.case("js.dedupe.window-updated")
def window_updated(session: Session) -> Observation:
    """A window made shorter by an update counts from when the message was stored."""
    js = with_stream(session, "DUPSHORTER")
    first = js.ack_text("DUPSHORTER", "one", with_id("x"))
    js.update("DUPSHORTER", duplicate_window=WINDOW_NS_MIN)
    return [first, ack_when_forgotten(js, "DUPSHORTER", "x")]


@catalogue.case("js.dedupe.after-purge")
def after_purge(session: Session) -> Observation:
    """A purge does not make a stream forget the ids it saw."""
    js = with_stream(session, "DUPPURGE")
    acks = [js.ack_text("DUPPURGE", "one", with_id("x"))]
    js.api("STREAM.PURGE.DUPPURGE")
    return [*acks, js.ack_text("DUPPURGE", "two", with_id("x")), js.state("DUPPURGE")["messages"]]


@catalogue.case("js.dedupe.after-delete")
def after_delete(session: Session) -> Observation:
    """The id of a deleted message is remembered as well."""
    js = with_stream(session, "DUPDELETE")
    acks = [js.ack_text("DUPDELETE", "one", with_id("x"))]
    js.api("STREAM.MSG.DELETE.DUPDELETE", {"seq": 1})
    return [*acks, js.ack_text("DUPDELETE", "two", with_id("x"))]


@catalogue.case("js.dedupe.after-limits")
def after_limits(session: Session) -> Observation:
    """The id of a message that a limit removed is remembered."""
    js = with_stream(session, "DUPLIMIT", max_msgs=1)
    acks = [js.ack_text("DUPLIMIT", "", with_id(value)) for value in ("x", "y", "x")]
    return [acks, js.state("DUPLIMIT")["messages"]]


@catalogue.case("js.dedupe.after-restart", own_server=True)
def after_restart(session: Session) -> Observation:
    """A server that starts again knows the ids of the messages it still has."""
    js = with_stream(session, "DUPRESTART")
    acks = [js.ack_text("DUPRESTART", "one", with_id(value)) for value in ("x", "y")]
    with restarted(session, JETSTREAM) as later:
        again = JetStreamClient(later.connect())
        acks += [again.ack_text("DUPRESTART", "two", with_id(value)) for value in ("x", "z")]
        return [acks, contents(again, "DUPRESTART")]


@catalogue.case("js.dedupe.last-id-after-restart", own_server=True)
def last_id_after_restart(session: Session) -> Observation:
    """The id of the last message is known after a restart too."""
    js = with_stream(session, "DUPLAST")
    acks = [js.ack_text("DUPLAST", "one", with_id(value)) for value in ("x", "y")]
    with restarted(session, JETSTREAM) as later:
        again = JetStreamClient(later.connect())
        acks.append(again.ack_text("DUPLAST", "", {"Nats-Expected-Last-Msg-Id": "x"}))
        acks.append(again.ack_text("DUPLAST", "", {"Nats-Expected-Last-Msg-Id": "y"}))
    return acks


@catalogue.case("js.dedupe.refused-is-forgotten")
def refused_is_forgotten(session: Session) -> Observation:
    """The id of a refused publish is free."""
    js = with_stream(session, "DUPREFUSED")
    refused = {"Nats-Expected-Last-Sequence": "5", **with_id("x")}
    return [
        js.ack_text("DUPREFUSED", "one", refused),
        js.ack_text("DUPREFUSED", "two", with_id("x")),
    ]


@catalogue.case("js.dedupe.discarded-is-forgotten")
def discarded_is_forgotten(session: Session) -> Observation:
    """The id of a message that a full stream refused is free."""
    js = with_stream(session, "DUPFULL", max_msgs=1, discard="new")
    js.fill("DUPFULL")
    acks = [js.ack_text("DUPFULL", "one", with_id("x"))]
    js.api("STREAM.PURGE.DUPFULL")
    return [*acks, js.ack_text("DUPFULL", "two", with_id("x"))]


@catalogue.case("js.dedupe.after-other-checks")
def after_other_checks(session: Session) -> Observation:
    """A duplicate with a wrong expectation is refused for the expectation."""
    js = with_stream(session, "DUPORDER")
    js.ack_text("DUPORDER", "one", with_id("x"))
    return [
        js.ack_text("DUPORDER", "two", {"Nats-Expected-Stream": "OTHER", **with_id("x")}),
        js.ack_text("DUPORDER", "two", {"Nats-Expected-Last-Sequence": "0", **with_id("x")}),
        js.ack_text(
            "DUPORDER", "two", {"Nats-Expected-Last-Subject-Sequence": "0", **with_id("x")}
        ),
    ]


@catalogue.case("js.dedupe.before-other-checks")
def before_other_checks(session: Session) -> Observation:
    """A duplicate is answered before its rollup, its last id and its TTL are checked."""
    js = with_stream(session, "DUPFIRST", allow_msg_ttl=True)
    js.ack_text("DUPFIRST", "one", with_id("x"))
    return [
        js.ack_text("DUPFIRST", "two", {"Nats-Rollup": "sub", **with_id("x")}),
        js.ack_text("DUPFIRST", "two", {"Nats-Expected-Last-Msg-Id": "q", **with_id("x")}),
        js.ack_text("DUPFIRST", "two", {"Nats-TTL": "what", **with_id("x")}),
    ]


@catalogue.case("js.dedupe.duplicate-rollup")
def duplicate_rollup(session: Session) -> Observation:
    """A duplicate rolls nothing up."""
    js = with_stream(session, "DUPROLL", allow_rollup_hdrs=True)
    js.ack_text("DUPROLL", "one", with_id("x"))
    js.fill("DUPROLL", "DUPROLL")
    ack = js.ack_text("DUPROLL", "two", {"Nats-Rollup": "all", **with_id("x")})
    return [ack, js.state("DUPROLL")["messages"]]


@catalogue.case("js.dedupe.memory")
def memory(session: Session) -> Observation:
    """A stream in memory finds duplicates as well."""
    js = with_stream(session, "DUPMEMORY", storage="memory")
    return [js.ack_text("DUPMEMORY", "one", with_id("x")) for _ in range(2)]
