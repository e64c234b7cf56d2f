"""Publishing into a stream: what is acknowledged, with which bytes, and what is kept."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import DOMAIN, INBOX, JETSTREAM, jetstream
from tests.interop.messages import (
    ack_of_block,
    acks_of_one_write,
    contents,
    stored,
    with_stream,
)
from tests.interop.observation import Observation
from tests.interop.session import Session

EVERY_BYTE = bytes(range(256))

catalogue = Catalogue(JETSTREAM)


@catalogue.case("js.publish.ack")
def ack(session: Session) -> Observation:
    """A publish with a reply is answered with the stream and the sequence, byte for byte."""
    js = with_stream(session, "ACK")
    return [js.ack_text("ACK.a", "one"), js.ack_text("ACK.b", "two")]


@catalogue.case("js.publish.ack-quoted")
def ack_quoted(session: Session) -> Observation:
    """The ack is JSON whatever the stream is called."""
    return with_stream(session, 'ACK"Q', subjects=["ACKQ.>"]).ack_text("ACKQ.a")


@catalogue.case("js.publish.ack-domain", setup=DOMAIN)
def ack_domain(session: Session) -> Observation:
    """In a domain the ack names it, between the stream and the sequence."""
    return with_stream(session, "ACKHUB").ack_text("ACKHUB.a")


@catalogue.case("js.publish.ack-domain-error", setup=DOMAIN)
def ack_domain_error(session: Session) -> Observation:
    """A refusal names the stream only, also in a domain."""
    js = with_stream(session, "NACKHUB")
    return js.ack_text("NACKHUB", headers={"Nats-Expected-Last-Sequence": "7"})


@catalogue.case("js.publish.ack-first-sequence")
def ack_first_sequence(session: Session) -> Observation:
    """Sequences begin at the stream's `first_seq`."""
    js = with_stream(session, "ACKFIRST", first_seq=1000)
    return [js.ack_text("ACKFIRST"), js.ack_text("ACKFIRST"), js.state("ACKFIRST")]


@catalogue.case("js.publish.ack-is-a-plain-message")
def ack_is_plain(session: Session) -> Observation:
    """An ack has no headers, whatever headers the publish had."""
    js = with_stream(session, "ACKPLAIN")
    return js.request_frame("ACKPLAIN", "x", {"A": "b"})


@catalogue.case("js.publish.no-reply")
def no_reply(session: Session) -> Observation:
    """A publish without a reply is stored all the same."""
    js = with_stream(session, "QUIET")
    js.send_only("QUIET.a", "one")
    js.send_only("QUIET.b", "two", {"h": "v"})
    return [js.ack_text("QUIET.c"), contents(js, "QUIET")]


@catalogue.case("js.publish.no-reply-refused")
def no_reply_refused(session: Session) -> Observation:
    """A publish that is refused and has no reply leaves no trace."""
    js = with_stream(session, "QUIETNO")
    js.send_only("QUIETNO.a", "one", {"Nats-Expected-Last-Sequence": "9"})
    return [js.ack_text("QUIETNO.b"), contents(js, "QUIETNO")]


@catalogue.case("js.publish.no-stream")
def no_stream(session: Session) -> Observation:
    """A publish to a subject of no stream has no responders."""
    return jetstream(session).request_frame("nobody.keeps.this", "x")


@catalogue.case("js.publish.reserved-subjects")
def reserved_subjects(session: Session) -> Observation:
    """Subjects of acks, of flow control and of events have no responders by themselves."""
    js = jetstream(session)
    subjects = ("$JS.ACK.S.C.1.1.1.1.0", "$JS.FC.S.C.x", "$JS.EVENT.x", "$JSC.x", "$KV.b.k")
    return [js.request_frame(subject, "+ACK") for subject in subjects]


@catalogue.case("js.publish.stream-deleted")
def stream_deleted(session: Session) -> Observation:
    """After its stream is deleted a subject has no responders again."""
    js = with_stream(session, "GONE")
    return [js.ack_text("GONE"), js.api("STREAM.DELETE.GONE"), js.request_frame("GONE")]


@catalogue.case("js.publish.subjects-updated")
def subjects_updated(session: Session) -> Observation:
    """An update takes subjects away and brings others; stored messages stay."""
    js = with_stream(session, "MOVE", subjects=["MOVE.a"])
    seen = [js.ack_text("MOVE.a", "1")]
    js.update("MOVE", subjects=["MOVE.b"])
    seen += [js.request_frame("MOVE.a"), js.ack_text("MOVE.b", "2")]
    return [seen, contents(js, "MOVE")]


@catalogue.case("js.publish.one-write")
def one_write(session: Session) -> Observation:
    """Publishes that arrive in one write are stored and acknowledged in their order."""
    js = with_stream(session, "WRITE")
    acks = acks_of_one_write(js, *((f"WRITE.{n}", str(n), ()) for n in range(20)))
    return [acks, contents(js, "WRITE")]


@catalogue.case("js.publish.one-write-with-refusals")
def one_write_with_refusals(session: Session) -> Observation:
    """A refusal among publishes of one write takes no sequence and delays no other."""
    js = with_stream(session, "MIXED")
    wrong, right = {"Nats-Expected-Last-Sequence": "9"}, {"Nats-Expected-Last-Sequence": "1"}
    return acks_of_one_write(
        js, ("MIXED", "a", ()), ("MIXED", "b", wrong), ("MIXED", "c", right), ("MIXED", "d", ())
    )


@catalogue.case("js.publish.empty-payload")
def empty_payload(session: Session) -> Observation:
    """A message may be empty; its data is then absent where it is read."""
    js = with_stream(session, "EMPTY")
    return [js.ack_text("EMPTY"), js.api("STREAM.MSG.GET.EMPTY", {"seq": 1}), js.state("EMPTY")]


@catalogue.case("js.publish.binary-payload")
def binary_payload(session: Session) -> Observation:
    """A payload is bytes: all 256 of them come back."""
    js = with_stream(session, "BINARY")
    return [js.ack_text("BINARY", EVERY_BYTE), stored(js, "BINARY", 1)]


@catalogue.case("js.publish.headers-kept")
def headers_kept(session: Session) -> Observation:
    """Headers are kept byte for byte: order, case, blanks, and names that come twice."""
    js = with_stream(session, "HEADERS")
    block = "NATS/1.0\r\nb: 1\r\nA:2\r\nb:  3 \r\nempty:\r\nm\xc3\xbc: \xe2\x82\xac\r\n\r\n"
    return [ack_of_block(js, "HEADERS", block, "data"), stored(js, "HEADERS", 1)]


@catalogue.case("js.publish.headers-without-lines")
def headers_without_lines(session: Session) -> Observation:
    """A header block of its first line only is kept, and counts into the bytes."""
    js = with_stream(session, "BARE")
    ack = ack_of_block(js, "BARE", "NATS/1.0\r\n\r\n", "data")
    return [ack, stored(js, "BARE", 1), js.state("BARE")]


@catalogue.case("js.publish.headers-status-dropped")
def headers_status_dropped(session: Session) -> Observation:
    """A status on the first line of the headers is dropped, the rest is kept."""
    js = with_stream(session, "STATUS")
    acks = [
        ack_of_block(js, "STATUS", "NATS/1.0 503 No Responders\r\na: b\r\n\r\n", "x"),
        ack_of_block(js, "STATUS", "NATS/1.0 100\r\n\r\n", "y"),
    ]
    return [acks, contents(js, "STATUS")]


@catalogue.case("js.publish.headers-malformed")
def headers_malformed(session: Session) -> Observation:
    """Bytes counted as headers are kept even when they are none."""
    js = with_stream(session, "MALFORMED")
    return [ack_of_block(js, "MALFORMED", "hello", "data"), stored(js, "MALFORMED", 1)]


@catalogue.case("js.publish.headers-of-no-bytes")
def headers_of_no_bytes(session: Session) -> Observation:
    """HPUB with a header size of zero stores a message without headers."""
    js = with_stream(session, "NOHEAD")
    return [ack_of_block(js, "NOHEAD", "", "data"), stored(js, "NOHEAD", 1), js.state("NOHEAD")]


@catalogue.case("js.publish.header-names-are-exact")
def header_names_exact(session: Session) -> Observation:
    """The server's own headers are found by their exact case; the first of two counts."""
    js = with_stream(session, "EXACT")
    twice = [("Nats-Expected-Stream", "EXACT"), ("Nats-Expected-Stream", "OTHER")]
    return [
        js.ack_text("EXACT", headers={"nats-expected-stream": "OTHER"}),
        js.ack_text("EXACT", headers={"X-Nats-Expected-Stream": "OTHER"}),
        js.ack_text("EXACT", headers=twice),
        js.ack_text("EXACT", headers={"Nats-Expected-Stream": "  EXACT"}),
        js.ack_text("EXACT", headers={"Nats-Expected-Stream": ""}),
    ]


@catalogue.case("js.publish.header-value-trailing-blank")
def header_value_trailing_blank(session: Session) -> Observation:
    """Blanks before a header's value do not belong to it, those behind it do."""
    js = with_stream(session, "BLANK")
    return js.ack_text("BLANK", headers={"Nats-Expected-Stream": "BLANK "})


@catalogue.case("js.publish.unknown-headers")
def unknown_headers(session: Session) -> Observation:
    """Headers with a reserved prefix that mean nothing are stored as any other."""
    js = with_stream(session, "UNKNOWN")
    headers = {"Nats-Whatever": "1", "Nats-Required-Api-Level": "99", "Nats-Num-Pending": "4"}
    return [js.ack_text("UNKNOWN", "x", headers), stored(js, "UNKNOWN", 1)]


@catalogue.case(
    "js.publish.source-header-refused", text="message stream source header is not allowed"
)
def source_header_refused(session: Session) -> Observation:
    """Only streams say where a message was sourced from; an empty header says nothing."""
    js = with_stream(session, "SOURCED")
    return [
        js.ack_text("SOURCED", headers={"Nats-Stream-Source": "S 1 > > a"}),
        js.ack_text("SOURCED", headers={"Nats-Stream-Source": ""}),
    ]


@catalogue.case("js.publish.no-ack")
def no_ack(session: Session) -> Observation:
    """A stream with `no_ack` stores and says nothing."""
    js = with_stream(session, "NOACK", no_ack=True)
    js.send("NOACK.a", "one")
    return [js.unanswered("NOACK.b", "two"), js.state_when("NOACK", "messages", 2)]


@catalogue.case("js.publish.no-ack-refusal")
def no_ack_refusal(session: Session) -> Observation:
    """A stream with `no_ack` does not say that it refuses either."""
    js = with_stream(session, "NONACK", no_ack=True)
    silent = js.unanswered("NONACK", "one", {"Nats-Expected-Stream": "OTHER"})
    js.send_only("NONACK", "two")
    js.state_when("NONACK", "messages", 1)
    return [silent, contents(js, "NONACK")]


@catalogue.case("js.publish.ack-into-the-stream")
def ack_into_stream(session: Session) -> Observation:
    """A reply subject of the stream itself stores the ack there, which is not acked again."""
    js = with_stream(session, "LOOP")
    js.wire.send("PUB LOOP.in LOOP.ack 3\r\none\r\n")
    js.state_when("LOOP", "messages", 2)
    return contents(js, "LOOP")


@catalogue.case("js.publish.ack-beside-subscribers")
def ack_beside_subscribers(session: Session) -> Observation:
    """Plain subscribers get stored messages, too; the publisher gets the stream's ack."""
    js = with_stream(session, "BESIDE")
    watch = js.watch(session, "BESIDE.>")
    return [js.ack_text("BESIDE.a", "hi"), watch.take(1)]


@catalogue.case("js.publish.memory")
def memory(session: Session) -> Observation:
    """A stream in memory acknowledges as one in files does; it counts bytes differently."""
    js = with_stream(session, "MEMORY", storage="memory")
    acks = [js.ack_text("MEMORY.a", "12345"), js.ack_text("MEMORY.b", "1", {"h": "v"})]
    return [acks, contents(js, "MEMORY"), js.state("MEMORY")]


@catalogue.case("js.publish.file-bytes")
def file_bytes(session: Session) -> Observation:
    """A stream in files counts the record of each message, headers with four bytes more."""
    js = with_stream(session, "BYTES")
    seen: list[Observation] = [js.ack_text("BYTES.a", "12345"), js.state("BYTES")]
    return [*seen, js.ack_text("BYTES.b", "1", {"h": "v"}), js.state("BYTES")]


@catalogue.case("js.publish.async")
def persist_async(session: Session) -> Observation:
    """A stream that persists later acknowledges in the same words, and shows acked messages."""
    js = with_stream(session, "LATER", persist_mode="async")
    return [js.ack_text("LATER.a", "one"), contents(js, "LATER"), js.state("LATER")]


@catalogue.case("js.publish.interest-without-consumers")
def interest_without_consumers(session: Session) -> Observation:
    """An interest stream without consumers acks with the next sequence and stores nothing."""
    js = with_stream(session, "INTEREST", retention="interest")
    acks = [js.ack_text("INTEREST.a", "one"), js.ack_text("INTEREST.b", "two")]
    return [acks, js.state("INTEREST")]


@catalogue.case("js.publish.interest-checks-headers")
def interest_checks_headers(session: Session) -> Observation:
    """An interest stream checks the messages it does not store, too, and remembers their ids."""
    js = with_stream(session, "CURIOUS", retention="interest")
    return [
        js.ack_text("CURIOUS", headers={"Nats-Msg-Id": "a"}),
        js.ack_text("CURIOUS", headers={"Nats-Msg-Id": "a"}),
        js.ack_text("CURIOUS", headers={"Nats-Expected-Last-Sequence": "0"}),
        js.ack_text("CURIOUS", headers={"Nats-Expected-Last-Msg-Id": "a"}),
        js.state("CURIOUS"),
    ]


@catalogue.case("js.publish.work-queue-without-consumers")
def work_queue_without_consumers(session: Session) -> Observation:
    """A work queue without consumers keeps published messages."""
    js = with_stream(session, "WORK", retention="workqueue")
    return [js.ack_text("WORK.a", "one"), contents(js, "WORK")]


@catalogue.case("js.publish.empty-token")
def empty_token(session: Session) -> Observation:
    """A subject with an empty token reaches no stream."""
    js = with_stream(session, "TOKENS")
    return [js.request_frame("TOKENS..a"), js.request_frame("TOKENS."), js.state("TOKENS")]


@catalogue.case("js.publish.wildcard-subject")
def wildcard_subject(session: Session) -> Observation:
    """A published subject is literal: a token like a wildcard is stored as it stands."""
    js = with_stream(session, "WILD")
    return [js.ack_text("WILD.*", "x"), js.ack_text("WILD.>", "y"), contents(js, "WILD")]


@catalogue.case("js.publish.wildcard-reply")
def wildcard_reply(session: Session) -> Observation:
    """An ack goes to the reply subject as it stands, wildcard or not."""
    js = with_stream(session, "WILDREPLY")
    js.wire.send(f"PUB WILDREPLY {INBOX}* 1\r\na\r\n")
    return js.wire.frame()


@catalogue.case("js.publish.api-without-reply")
def api_without_reply(session: Session) -> Observation:
    """A call of the API without a reply subject is carried out or not, and never answered."""
    js = with_stream(session, "APIQUIET")
    js.fill("APIQUIET")
    js.send_only("$JS.API.STREAM.INFO.APIQUIET")
    js.send_only("$JS.API.STREAM.PURGE.APIQUIET")
    js.wire.send("PING\r\n")
    return [js.wire.until("PONG\r\n"), js.state_when("APIQUIET", "messages", 0)]


@catalogue.case("js.publish.api-stream")
def api_stream(session: Session) -> Observation:
    """A stream over subjects of the API keeps the requests, which are answered as well."""
    js = with_stream(session, "APILOG", subjects=["$JS.API.STREAM.INFO.LOGGED"], no_ack=True)
    answer = js.info("LOGGED", offset=3)
    js.state_when("APILOG", "messages", 1)
    return [answer, contents(js, "APILOG")]


@catalogue.case("js.publish.everything", own_server=True)
def everything(session: Session) -> Observation:
    """A stream over all subjects, which must not ack, keeps what its account publishes."""
    js = jetstream(session)
    made = js.create("ALL", subjects=[">"], no_ack=True)
    js.send_only("some.where", "x")
    js.wait_until(lambda: "subjects" in js.state("ALL", subjects_filter="some.where"))
    return [made["config"], js.state("ALL", subjects_filter="some.where")["subjects"]]
