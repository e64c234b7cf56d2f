"""Message TTLs: how they are written, when they are refused, and what they leave behind."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, JetStreamClient
from tests.interop.messages import (
    contents,
    contents_in_time,
    restarted,
    state_in_time,
    stored,
    with_stream,
)
from tests.interop.observation import Observation
from tests.interop.session import Session

SECOND_NS = 1_000_000_000

catalogue = Catalogue(JETSTREAM)


def ttl(value: str) -> dict[str, str]:
    return {"Nats-TTL": value}


@catalogue.case("js.ttl.disabled", text="per-message TTL is disabled")
def disabled(session: Session) -> Observation:
    """A stream that does not allow them refuses TTLs; an empty header is none."""
    js = with_stream(session, "TTLNO")
    return [js.ack_text("TTLNO", "", ttl(value)) for value in ("1", "never", "1h", "")]


@catalogue.case("js.ttl.disabled-and-invalid")
def disabled_and_invalid(session: Session) -> Observation:
    """A TTL that cannot be read is called invalid even where TTLs are not allowed."""
    js = with_stream(session, "TTLNOBAD")
    return [js.ack_text("TTLNOBAD", "", ttl(value)) for value in ("soon", "100ms", "-1", "0")]


@catalogue.case("js.ttl.forms")
def forms(session: Session) -> Observation:
    """A TTL is seconds, a duration, or `never` in any case; the header is stored as it came."""
    js = with_stream(session, "TTLFORMS", allow_msg_ttl=True)
    values = (
        "1000 1000s 1h 1h30m 1.5h 1000000ms 1000000000us 1000000000µs 90000000000000ns 1h1m1s1ms "
        "+1h 1000.5s .5h 007 never NEVER Never"
    )
    acks = [js.ack_text("TTLFORMS", "", ttl(value)) for value in values.split()]
    return [acks, contents(js, "TTLFORMS")]


@catalogue.case("js.ttl.invalid", text="invalid per-message TTL")
def invalid(session: Session) -> Observation:
    """A TTL of another form, or below zero, is refused."""
    js = with_stream(session, "TTLBAD", allow_msg_ttl=True)
    values = ("soon", "-1", "-1h", "1d", "1.5", "1 h", "1h ", "+1", "1000x", "h", "1_000", "0x10")
    return [js.ack_text("TTLBAD", "", ttl(value)) for value in values]


@catalogue.case("js.ttl.too-small")
def too_small(session: Session) -> Observation:
    """A duration under a second is refused; a second is not."""
    js = with_stream(session, "TTLSMALL", allow_msg_ttl=True)
    values = ("999ms", "0s", "1ns", "1s", "1000ms")
    return [js.ack_text("TTLSMALL", "", ttl(value)) for value in values]


@catalogue.case("js.ttl.zero")
def zero(session: Session) -> Observation:
    """`0` is a duration that is too small, `00` is no duration and no seconds: no TTL."""
    js = with_stream(session, "TTLZERO", allow_msg_ttl=True)
    acks = [js.ack_text("TTLZERO", "", ttl(value)) for value in ("0", "", "00")]
    return [acks, contents(js, "TTLZERO")]


@catalogue.case("js.ttl.overflow")
def overflow(session: Session) -> Observation:
    """Durations past what 64 bits of nanoseconds hold are invalid; so many seconds are not."""
    js = with_stream(session, "TTLOVER", allow_msg_ttl=True)
    values = ("2562047h", "2562048h", "9223372036", "9223372037", "99999999999")
    return [js.ack_text("TTLOVER", "", ttl(value)) for value in values]


@catalogue.case("js.ttl.expires")
def expires(session: Session) -> Observation:
    """A message leaves when its TTL is over, others stay, and nothing marks its place."""
    js = with_stream(session, "TTLGO", allow_msg_ttl=True)
    js.fill("TTLGO.a")
    ack = js.ack_text("TTLGO.b", "brief", ttl("1"))
    js.fill("TTLGO.c")
    state = state_in_time(js, "TTLGO", messages=2)
    return [ack, state, contents(js, "TTLGO")]


@catalogue.case("js.ttl.expires-memory")
def expires_memory(session: Session) -> Observation:
    """So does one in memory."""
    js = with_stream(session, "TTLMEM", allow_msg_ttl=True, storage="memory")
    js.ack_text("TTLMEM.a", "brief", ttl("1s"))
    js.ack_text("TTLMEM.b", "long", ttl("1h"))
    return [state_in_time(js, "TTLMEM", messages=1), contents(js, "TTLMEM")]


@catalogue.case("js.ttl.longer-than-age")
def longer_than_age(session: Session) -> Observation:
    """A stream's age ends a message sooner than its own TTL; `never` outlives the age."""
    js = with_stream(session, "TTLAGE", allow_msg_ttl=True, max_age=SECOND_NS)
    js.ack_text("TTLAGE.a", "age", ttl("1h"))
    js.ack_text("TTLAGE.b", "kept", ttl("never"))
    js.fill("TTLAGE.c")
    return [state_in_time(js, "TTLAGE", messages=1)["messages"], contents(js, "TTLAGE")]


@catalogue.case("js.ttl.after-restart", own_server=True)
def after_restart(session: Session) -> Observation:
    """A restart forgets no TTL."""
    js = with_stream(session, "TTLAGAIN", allow_msg_ttl=True)
    js.ack_text("TTLAGAIN.a", "brief", ttl("1"))
    js.ack_text("TTLAGAIN.b", "long", ttl("1h"))
    with restarted(session, JETSTREAM) as later:
        again = JetStreamClient(later.connect())
        state_in_time(again, "TTLAGAIN", messages=1)
        return contents(again, "TTLAGAIN")


@catalogue.case("js.ttl.order")
def order(session: Session) -> Observation:
    """TTLs that are not allowed are refused early, invalid ones after all other checks."""
    js = with_stream(session, "TTLORDER")
    wrong = {"Nats-Expected-Last-Sequence": "9"}
    return [
        js.ack_text("TTLORDER", "", {"Nats-TTL": "1", **wrong}),
        js.ack_text("TTLORDER", "", {"Nats-TTL": "soon", **wrong}),
        js.ack_text("TTLORDER", "", {"Nats-TTL": "soon", "Nats-Rollup": "sub"}),
        js.ack_text("TTLORDER", "", {"Nats-TTL": "1", "Nats-Expected-Stream": "OTHER"}),
    ]


@catalogue.case("js.ttl.marker")
def marker(session: Session) -> Observation:
    """With markers the last message of a subject leaves an empty one with the reason."""
    js = with_stream(
        session,
        "TTLMARK",
        allow_msg_ttl=True,
        subject_delete_marker_ttl=3600 * SECOND_NS,
        max_msgs_per_subject=1,
    )
    js.fill("TTLMARK.a")
    js.ack_text("TTLMARK.b", "brief", ttl("1"))
    return contents_in_time(js, "TTLMARK", last_seq=3)


@catalogue.case("js.ttl.marker-by-age")
def marker_by_age(session: Session) -> Observation:
    """The stream's age leaves the same marker, with its TTL as a duration."""
    js = with_stream(
        session, "TTLMARKAGE", max_age=SECOND_NS, subject_delete_marker_ttl=90 * SECOND_NS
    )
    js.fill("TTLMARKAGE.a", "TTLMARKAGE.a")
    return contents_in_time(js, "TTLMARKAGE", last_seq=3)


@catalogue.case("js.ttl.marker-expires")
def marker_expires(session: Session) -> Observation:
    """A marker leaves in its turn and is not marked itself."""
    js = with_stream(session, "TTLMARKEND", max_age=SECOND_NS, subject_delete_marker_ttl=SECOND_NS)
    js.fill("TTLMARKEND.a")
    marker = contents_in_time(js, "TTLMARKEND", last_seq=2)
    return [marker, state_in_time(js, "TTLMARKEND", messages=0)]


@catalogue.case("js.ttl.marker-only-for-the-last")
def marker_only_for_last(session: Session) -> Observation:
    """A message that leaves while its subject has a newer one leaves no marker."""
    js = with_stream(session, "TTLNEWER", allow_msg_ttl=True, subject_delete_marker_ttl=SECOND_NS)
    js.ack_text("TTLNEWER.a", "brief", ttl("1"))
    js.fill("TTLNEWER.a")
    return [state_in_time(js, "TTLNEWER", messages=1)["last_seq"], contents(js, "TTLNEWER")]


@catalogue.case("js.ttl.marker-not-for-removal")
def marker_not_for_removal(session: Session) -> Observation:
    """Deletes, purges and limits leave no markers."""
    js = with_stream(session, "TTLREMOVE", subject_delete_marker_ttl=SECOND_NS, max_msgs=2)
    js.fill("TTLREMOVE.a", "TTLREMOVE.b", "TTLREMOVE.c")
    js.api("STREAM.MSG.DELETE.TTLREMOVE", {"seq": 2})
    js.api("STREAM.PURGE.TTLREMOVE", {"filter": "TTLREMOVE.c"})
    return [js.ack_text("TTLREMOVE.d"), contents(js, "TTLREMOVE")]


@catalogue.case("js.ttl.raised-to-marker")
def raised_to_marker(session: Session) -> Observation:
    """A TTL shorter than the markers' is raised to it, and its header moves to the end."""
    js = with_stream(
        session, "TTLRAISE", allow_msg_ttl=True, subject_delete_marker_ttl=60 * SECOND_NS
    )
    acks = [
        js.ack_text("TTLRAISE", "", {"A": "1", "Nats-TTL": value, "B": "2"})
        for value in ("1", "59s", "60", "61s", "never", "0")
    ]
    return [acks, contents(js, "TTLRAISE")]


@catalogue.case("js.ttl.not-raised-for-one-per-subject")
def not_raised_for_one(session: Session) -> Observation:
    """A TTL is not raised to the markers' if a subject can have one message only."""
    js = with_stream(
        session,
        "TTLONE",
        allow_msg_ttl=True,
        subject_delete_marker_ttl=60 * SECOND_NS,
        max_msgs_per_subject=1,
    )
    return [js.ack_text("TTLONE", "", ttl("2")), stored(js, "TTLONE", 1)]


@catalogue.case("js.ttl.purge-marker-is-not-marked")
def purge_marker_not_marked(session: Session) -> Observation:
    """The message that a key-value store writes for a purge is a marker and leaves none."""
    js = with_stream(
        session,
        "TTLKV",
        allow_msg_ttl=True,
        subject_delete_marker_ttl=3600 * SECOND_NS,
        allow_rollup_hdrs=True,
        max_msgs_per_subject=1,
    )
    purge = {"KV-Operation": "PURGE", "Nats-Rollup": "sub", "Nats-TTL": "1"}
    delete = {"KV-Operation": "DEL", "Nats-TTL": "1"}
    js.ack_text("TTLKV.a", "", purge)
    js.ack_text("TTLKV.b", "", delete)
    return contents_in_time(js, "TTLKV", last_seq=3, messages=1)


@catalogue.case("js.ttl.marker-after-restart", own_server=True)
def marker_after_restart(session: Session) -> Observation:
    """Age is counted across a restart, and messages that grew too old are marked."""
    js = with_stream(
        session, "TTLAWAY", max_age=SECOND_NS, subject_delete_marker_ttl=3600 * SECOND_NS
    )
    js.fill("TTLAWAY.a", "TTLAWAY.b")
    with restarted(session, JETSTREAM) as later:
        again = JetStreamClient(later.connect())
        return contents_in_time(again, "TTLAWAY", last_seq=4)
