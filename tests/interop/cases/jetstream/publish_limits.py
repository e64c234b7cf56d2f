"""Limits met while publishing: of a message, of a stream, of an account and of the server."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import ACCOUNTS, JETSTREAM, SMALL, jetstream, login
from tests.interop.messages import ack_of_block, acks_of_one_write, contents, stored, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

MAX_PAYLOAD_BYTES = 1024 * 1024
HEADER_BYTES_MAX = 65535
SECOND_NS = 1_000_000_000

catalogue = Catalogue(JETSTREAM)


def header_block(size: int) -> str:
    """A header block of exactly so many bytes."""
    frame = "NATS/1.0\r\nA: \r\n\r\n"
    return f"NATS/1.0\r\nA: {'x' * (size - len(frame))}\r\n\r\n"


@catalogue.case("js.limit.msg-size", text="message size exceeds maximum allowed")
def msg_size(session: Session) -> Observation:
    """A message may have as many bytes as `max_msg_size` says and no more."""
    js = with_stream(session, "SIZE", max_msg_size=10)
    return [js.ack_text("SIZE", "x" * 10), js.ack_text("SIZE", "x" * 11), contents(js, "SIZE")]


@catalogue.case("js.limit.msg-size-headers")
def msg_size_headers(session: Session) -> Observation:
    """Headers count into the size of a message, their first line and their end included."""
    js = with_stream(session, "SIZEHEAD", max_msg_size=30)
    block = header_block(20)
    return [ack_of_block(js, "SIZEHEAD", block, "x" * size) for size in (10, 11)]


@catalogue.case("js.limit.msg-size-zero")
def msg_size_zero(session: Session) -> Observation:
    """A `max_msg_size` of zero is none."""
    js = with_stream(session, "SIZEZERO", max_msg_size=0)
    return js.ack_text("SIZEZERO", "x" * 1000)


@catalogue.case("js.limit.msg-size-before-headers")
def msg_size_before_headers(session: Session) -> Observation:
    """The size is looked at before any header: also a duplicate is refused for it."""
    js = with_stream(session, "SIZEFIRST", max_msg_size=100)
    js.ack_text("SIZEFIRST", "x", {"Nats-Msg-Id": "a"})
    return [
        js.ack_text("SIZEFIRST", "x" * 101, {"Nats-Msg-Id": "a"}),
        js.ack_text("SIZEFIRST", "x" * 101, {"Nats-Expected-Stream": "OTHER"}),
        js.ack_text("SIZEFIRST", "x" * 101, {"Nats-Rollup": "sub"}),
    ]


@catalogue.case("js.limit.header-size", text="header size exceeds maximum allowed of 64k")
def header_size(session: Session) -> Observation:
    """A header block may have 65535 bytes."""
    js = with_stream(session, "HEAD")
    acks = [ack_of_block(js, "HEAD", header_block(HEADER_BYTES_MAX + more)) for more in (0, 1)]
    return [acks, js.state("HEAD")]


@catalogue.case("js.limit.header-size-before-headers")
def header_size_before_headers(session: Session) -> Observation:
    """The size of the headers is checked before their contents."""
    js = with_stream(session, "HEADFIRST")
    large = {"A": "x" * (HEADER_BYTES_MAX + 1), "Nats-Expected-Stream": "OTHER"}
    return js.ack_text("HEADFIRST", "", large)


@catalogue.case("js.limit.max-payload")
def max_payload(session: Session) -> Observation:
    """A message of exactly the server's max_payload is stored whole."""
    js = with_stream(session, "PAYLOAD")
    payload = "0123456789abcdef" * (MAX_PAYLOAD_BYTES // 16)
    return [js.ack_text("PAYLOAD", payload), stored(js, "PAYLOAD", 1), js.state("PAYLOAD")]


@catalogue.case("js.limit.max-payload-exceeded")
def max_payload_exceeded(session: Session) -> Observation:
    """One byte more ends the connection before the stream sees it."""
    js = with_stream(session, "PAYLOADPAST")
    doomed = session.connect()
    frames = doomed.until_closed(f"PUB PAYLOADPAST {MAX_PAYLOAD_BYTES + 1}\r\n")
    return [frames, js.state("PAYLOADPAST")]


@catalogue.case("js.limit.discard-old-msgs")
def discard_old_msgs(session: Session) -> Observation:
    """A full stream lets its oldest messages go."""
    js = with_stream(session, "OLDMSGS", max_msgs=2)
    acks = [js.ack_text(f"OLDMSGS.{n}", str(n)) for n in range(4)]
    return [acks, contents(js, "OLDMSGS"), js.state("OLDMSGS")]


@catalogue.case("js.limit.discard-old-bytes")
def discard_old_bytes(session: Session) -> Observation:
    """A stream of a size lets go as many old messages as the new one needs."""
    js = with_stream(session, "OLDBYTES", max_bytes=300)
    sizes = (50, 50, 50, 150)
    acks = [js.ack_text("OLDBYTES", "x" * size) for size in sizes]
    state = js.state("OLDBYTES")
    return [acks, state["messages"], state["bytes"], state["first_seq"], state["last_seq"]]


@catalogue.case("js.limit.larger-than-the-stream")
def larger_than_stream(session: Session) -> Observation:
    """A message larger than its whole stream is acknowledged, and all is gone."""
    js = with_stream(session, "OLDWHOLE", max_bytes=100)
    acks = [js.ack_text("OLDWHOLE", "x"), js.ack_text("OLDWHOLE", "x" * 200)]
    return [acks, js.state("OLDWHOLE")]


@catalogue.case("js.limit.discard-old-per-subject")
def discard_old_per_subject(session: Session) -> Observation:
    """Each subject keeps its newest messages, others are not touched."""
    js = with_stream(session, "OLDPER", max_msgs_per_subject=1)
    js.fill("OLDPER.a", "OLDPER.b", "OLDPER.a", "OLDPER.c", "OLDPER.a")
    return [contents(js, "OLDPER"), js.state("OLDPER", deleted_details=True)]


@catalogue.case("js.limit.discard-new-msgs", text="maximum messages exceeded")
def discard_new_msgs(session: Session) -> Observation:
    """A full stream that discards new messages refuses them, and no sequence is used."""
    js = with_stream(session, "NEWMSGS", max_msgs=2, discard="new")
    acks = [js.ack_text("NEWMSGS", str(n)) for n in range(3)]
    js.api("STREAM.MSG.DELETE.NEWMSGS", {"seq": 1})
    return [acks, js.ack_text("NEWMSGS", "more"), contents(js, "NEWMSGS")]


@catalogue.case("js.limit.discard-new-bytes", text="maximum bytes exceeded")
def discard_new_bytes(session: Session) -> Observation:
    """A stream with a size takes a message that fits exactly, and refuses one byte more."""
    js = with_stream(session, "NEWBYTES", max_bytes=200, discard="new")
    overhead = 22 + len("NEWBYTES") + 8
    acks = [js.ack_text("NEWBYTES", "x" * (100 - overhead)) for _ in range(2)]
    return [acks, js.ack_text("NEWBYTES"), js.state("NEWBYTES")]


@catalogue.case("js.limit.discard-new-larger-than-the-stream")
def discard_new_larger(session: Session) -> Observation:
    """A message larger than the whole stream is refused if new messages are discarded."""
    js = with_stream(session, "NEWWHOLE", max_bytes=100, discard="new")
    return [js.ack_text("NEWWHOLE", "x" * 200), js.state("NEWWHOLE")]


@catalogue.case("js.limit.discard-new-memory")
def discard_new_memory(session: Session) -> Observation:
    """A stream in memory counts its bytes in its own way when it is full."""
    js = with_stream(session, "NEWMEM", max_bytes=100, discard="new", storage="memory")
    overhead = 16 + len("NEWMEM")
    return [js.ack_text("NEWMEM", "x" * (50 - overhead)) for _ in range(3)]


@catalogue.case("js.limit.discard-new-keeps-old-per-subject")
def discard_new_old_per_subject(session: Session) -> Observation:
    """Without `discard_new_per_subject` a subject lets its oldest go even where new is refused."""
    js = with_stream(session, "NEWMIX", max_msgs_per_subject=1, max_msgs=2, discard="new")
    subjects = ("NEWMIX.a", "NEWMIX.b", "NEWMIX.a", "NEWMIX.c")
    return [[js.ack_text(subject) for subject in subjects], contents(js, "NEWMIX")]


@catalogue.case("js.limit.discard-new-per-subject", text="maximum messages per subject exceeded")
def discard_new_per_subject(session: Session) -> Observation:
    """With it a subject that is full refuses, other subjects go on."""
    js = with_stream(
        session, "NEWPER", max_msgs_per_subject=1, discard="new", discard_new_per_subject=True
    )
    acks = [js.ack_text(subject) for subject in ("NEWPER.a", "NEWPER.b", "NEWPER.a", "NEWPER.c")]
    js.api("STREAM.PURGE.NEWPER", {"filter": "NEWPER.a"})
    return [acks, js.ack_text("NEWPER.a"), contents(js, "NEWPER")]


@catalogue.case("js.limit.discard-new-per-subject-rollup")
def discard_new_per_subject_rollup(session: Session) -> Observation:
    """A subject that is full takes a rollup, which makes its own room."""
    js = with_stream(
        session,
        "NEWROLL",
        max_msgs_per_subject=1,
        discard="new",
        discard_new_per_subject=True,
        allow_rollup_hdrs=True,
    )
    return [
        js.ack_text("NEWROLL.a", "one"),
        js.ack_text("NEWROLL.a", "two", {"Nats-Rollup": "sub"}),
        contents(js, "NEWROLL"),
    ]


@catalogue.case("js.limit.discard-new-one-write")
def discard_new_one_write(session: Session) -> Observation:
    """In one write the limit is met at the message that passes it."""
    js = with_stream(session, "NEWWRITE", max_msgs=3, discard="new")
    return acks_of_one_write(js, *(("NEWWRITE", str(n), ()) for n in range(5)))


@catalogue.case("js.limit.expected-before-discard")
def expected_before_discard(session: Session) -> Observation:
    """A full stream tells of a wrong expectation first, and of a duplicate too."""
    js = with_stream(session, "NEWORDER", max_msgs=1, discard="new")
    js.ack_text("NEWORDER", "", {"Nats-Msg-Id": "a"})
    return [
        js.ack_text("NEWORDER", "", {"Nats-Expected-Last-Sequence": "0"}),
        js.ack_text("NEWORDER", "", {"Nats-Msg-Id": "a"}),
        js.ack_text("NEWORDER", "", {"Nats-Msg-Id": "b"}),
    ]


@catalogue.case("js.limit.max-age")
def max_age(session: Session) -> Observation:
    """Messages that are too old leave by themselves, and the next sequence goes on."""
    js = with_stream(session, "AGE", max_age=SECOND_NS // 10, duplicate_window=SECOND_NS // 10)
    js.fill("AGE", "AGE")
    return [js.state_when("AGE", "messages", 0), js.ack_text("AGE")]


@catalogue.case("js.limit.lowered")
def lowered(session: Session) -> Observation:
    """Limits made lower by an update hold at once for stored messages."""
    js = with_stream(session, "LOWER")
    js.fill("LOWER.a", "LOWER.b", "LOWER.a", "LOWER.b", "LOWER.a")
    js.update("LOWER", max_msgs_per_subject=2)
    per_subject = js.state_when("LOWER", "messages", 4)
    js.update("LOWER", max_msgs_per_subject=2, max_msgs=1)
    return [per_subject, js.state_when("LOWER", "messages", 1), js.ack_text("LOWER.a")]


@catalogue.case("js.limit.sealed", text="invalid operation on sealed stream")
def sealed(session: Session) -> Observation:
    """A sealed stream takes nothing, whatever the headers of a publish are."""
    js = with_stream(session, "SEALED")
    js.fill("SEALED")
    js.update("SEALED", sealed=True)
    return [
        js.ack_text("SEALED", "x"),
        js.ack_text("SEALED", "x", {"Nats-Expected-Stream": "OTHER"}),
        js.state("SEALED"),
    ]


@catalogue.case("js.limit.account", setup=ACCOUNTS, text="resource limits exceeded for account")
def account(session: Session) -> Observation:
    """An account that has used up its storage is refused more, until it removes some."""
    js = jetstream(session, "FULL", **login("small"))
    js.create("FULL")
    acks = [js.ack_text("FULL", "x" * 400) for _ in range(3)]
    js.api("STREAM.PURGE.FULL")
    again = js.ack_text("FULL", "x" * 400)
    js.api("STREAM.DELETE.FULL")
    return [acks, again]


@catalogue.case("js.limit.account-memory", setup=ACCOUNTS)
def account_memory(session: Session) -> Observation:
    """Memory has a limit of its own, met in the same words."""
    js = jetstream(session, "FULLMEM", **login("small"))
    js.create("FULLMEM", storage="memory")
    acks = [js.ack_text("FULLMEM", "x" * 400) for _ in range(3)]
    js.api("STREAM.DELETE.FULLMEM")
    return acks


@catalogue.case("js.limit.server", setup=SMALL, own_server=True, text="insufficient resources")
def server(session: Session) -> Observation:
    """A server that has used up one kind of storage refuses more of it, but not of the other."""
    js = with_stream(session, "BRIM", storage="memory")
    acks = [js.ack_text("BRIM", "x" * 400_000) for _ in range(4)]
    js.create("BRIMFILE")
    return [acks, js.ack_text("BRIMFILE", "x" * 400_000)]
