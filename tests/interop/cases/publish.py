"""PUB and HPUB: the forms that are accepted, and how each kind of bad one ends."""

from tests.interop.case import Catalogue
from tests.interop.observation import Observation
from tests.interop.session import Session
from tests.kit.wire_client import WireClient

catalogue = Catalogue()

MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_CONTROL_LINE_BYTES = 4096


def subscriber(session: Session) -> WireClient:
    """A client that has subscribed to everything as sid 1."""
    client = session.connect()
    client.exchange("SUB > 1\r\n")
    return client


@catalogue.case("core.pub.empty-payload")
def empty_payload(session: Session) -> Observation:
    """A message may be empty; its line and its payload still have a CRLF each."""
    return subscriber(session).exchange("PUB foo 0\r\n\r\n")


@catalogue.case("core.pub.payload-is-opaque")
def opaque_payload(session: Session) -> Observation:
    """The payload is counted, not searched: line ends, NULs and operations inside it are data."""
    payload = "a\r\nPUB x 1\r\n\0\xff"
    return subscriber(session).exchange(f"PUB foo {len(payload)}\r\n{payload}\r\n")


@catalogue.case("core.pub.reply")
def reply(session: Session) -> Observation:
    """A reply subject is handed on between sid and size."""
    return subscriber(session).exchange("PUB foo answer.here 2\r\nhi\r\n")


@catalogue.case("core.pub.reply-is-not-checked")
def reply_not_checked(session: Session) -> Observation:
    """Any word will do as a reply subject, also one nobody could publish to."""
    return subscriber(session).exchange("PUB foo ..> 2\r\nhi\r\n")


@catalogue.case("core.pub.word-case")
def word_case(session: Session) -> Observation:
    """Operations may be written in any case."""
    return subscriber(session).exchange("pub foo 1\r\na\r\npUb foo 1\r\nb\r\n")


@catalogue.case("core.pub.tabs-and-spaces")
def tabs_and_spaces(session: Session) -> Observation:
    """Arguments are separated by any run of spaces and tabs, also before the line end."""
    return subscriber(session).exchange("PUB \t foo\t \tback  2 \t \r\nhi\r\n")


@catalogue.case("core.pub.line-feed-only")
def line_feed_only(session: Session) -> Observation:
    """A control line may end in LF alone."""
    return subscriber(session).exchange("PUB foo 2\nhi\r\n")


@catalogue.case("core.pub.payload-line-feed-only")
def payload_line_feed_only(session: Session) -> Observation:
    """A payload may not: it has to be followed by CR and LF."""
    return subscriber(session).until_closed("PUB foo 2\r\nhi\n")


@catalogue.case("core.pub.leading-zeros")
def leading_zeros(session: Session) -> Observation:
    """A size may have leading zeros, and is passed on as it was written."""
    return subscriber(session).exchange("PUB foo 002\r\nhi\r\n")


@catalogue.case("core.pub.one-byte-at-a-time")
def one_byte_at_a_time(session: Session) -> Observation:
    """The division of the bytes into packets does not matter."""
    client = subscriber(session)
    for byte in "PUB foo back 5\r\nhe\r\no\r\n":
        client.send(byte)
    return client.exchange()


@catalogue.case("core.pub.many-in-one-packet")
def many_in_one_packet(session: Session) -> Observation:
    """Messages of one publisher arrive in the order they were sent."""
    client = subscriber(session)
    return client.exchange("".join(f"PUB n.{n} 3\r\n{n:03}\r\n" for n in range(200)))


@catalogue.case("core.pub.size-missing")
def size_missing(session: Session) -> Observation:
    """PUB with a subject alone ends the connection, unexplained."""
    return session.connect().until_closed("PUB foo\r\n")


@catalogue.case("core.pub.no-arguments")
def no_arguments(session: Session) -> Observation:
    """PUB without a space after it is no operation."""
    return session.connect().until_closed("PUB\r\n")


@catalogue.case("core.pub.blank-arguments")
def blank_arguments(session: Session) -> Observation:
    """PUB followed by blanks alone has no subject and ends the connection."""
    return session.connect().until_closed("PUB  \r\n")


@catalogue.case("core.pub.too-many-arguments")
def too_many_arguments(session: Session) -> Observation:
    """PUB takes subject, reply and size; a fourth word ends the connection."""
    return session.connect().until_closed("PUB foo back 2 2\r\nhi\r\n")


@catalogue.case("core.pub.size-negative")
def size_negative(session: Session) -> Observation:
    """A negative size ends the connection."""
    return session.connect().until_closed("PUB foo -1\r\n\r\n")


@catalogue.case("core.pub.size-signed")
def size_signed(session: Session) -> Observation:
    """A size is digits only: a plus sign ends the connection."""
    return session.connect().until_closed("PUB foo +2\r\nhi\r\n")


@catalogue.case("core.pub.size-not-a-number")
def size_not_a_number(session: Session) -> Observation:
    """A size that is not decimal ends the connection."""
    return session.connect().until_closed("PUB foo 0x2\r\nhi\r\n")


@catalogue.case("core.pub.second-carriage-return")
def second_carriage_return(session: Session) -> Observation:
    """One carriage return ends a line; a second one belongs to the size and spoils it."""
    return session.connect().until_closed("PUB foo 2\r\r\nhi\r\n")


@catalogue.case("core.pub.size-overflows")
def size_overflows(session: Session) -> Observation:
    """A size past 64 bits is a bad size, not a large one: no payload violation is reported."""
    return session.connect().until_closed("PUB foo 99999999999999999999999\r\n")


@catalogue.case("core.pub.size-of-nine-digits")
def size_of_nine_digits(session: Session) -> Observation:
    """The largest size of nine digits is a number, only too large."""
    return session.connect().until_closed("PUB foo 999999999\r\n")


@catalogue.case("core.pub.size-of-ten-digits")
def size_of_ten_digits(session: Session) -> Observation:
    """A size of ten digits is a bad size whatever its value, also with leading zeros."""
    return session.connect().until_closed("PUB foo 0000000002\r\n")


@catalogue.case("core.pub.payload-longer-than-size", text="Unknown Protocol Operation")
def payload_too_long(session: Session) -> Observation:
    """A payload longer than its size is found out where the CRLF should be, and is fatal."""
    return subscriber(session).until_closed("PUB foo 2\r\nhello\r\n")


@catalogue.case("core.pub.payload-at-limit")
def payload_at_limit(session: Session) -> Observation:
    """A payload of exactly max_payload is delivered."""
    client = subscriber(session)
    return client.exchange(f"PUB foo {MAX_PAYLOAD_BYTES}\r\n{'x' * MAX_PAYLOAD_BYTES}\r\n")


@catalogue.case("core.pub.payload-past-limit", text="Maximum Payload Violation")
def payload_past_limit(session: Session) -> Observation:
    """One byte more is refused as soon as the control line is read, and the connection closed."""
    return session.connect().until_closed(f"PUB foo {MAX_PAYLOAD_BYTES + 1}\r\n")


@catalogue.case("core.pub.control-line-at-limit")
def control_line_at_limit(session: Session) -> Observation:
    """The arguments of a control line may have max_control_line bytes."""
    subject = "s" * (MAX_CONTROL_LINE_BYTES - len(" 2"))
    return subscriber(session).exchange(f"PUB {subject} 2\r\nhi\r\n")


@catalogue.case("core.pub.control-line-past-limit", text="maximum control line exceeded")
def control_line_past_limit(session: Session) -> Observation:
    """One byte more than max_control_line, and the connection is closed with an error."""
    subject = "s" * (MAX_CONTROL_LINE_BYTES - len(" 2") + 1)
    return subscriber(session).until_closed(f"PUB {subject} 2\r\n")


@catalogue.case("core.pub.control-line-endless")
def control_line_endless(session: Session) -> Observation:
    """A control line without end is refused once it has passed the limit, not kept waiting for."""
    return session.connect().until_closed("PUB " + "s" * (2 * MAX_CONTROL_LINE_BYTES))


@catalogue.case("core.pub.subject-empty-token")
def subject_with_empty_token(session: Session) -> Observation:
    """A subject with an empty token is accepted silently, and matches no subscription."""
    client = subscriber(session)
    client.exchange("SUB foo..bar 2\r\nSUB foo.*.bar 3\r\n")
    return client.exchange("PUB foo..bar 2\r\nhi\r\nPUB .foo 1\r\na\r\nPUB foo. 1\r\nb\r\n")


@catalogue.case("core.pub.subject-bytes")
def subject_bytes(session: Session) -> Observation:
    """A subject is bytes without blanks; letters of any alphabet pass unchanged."""
    return subscriber(session).exchange("PUB gr\xc3\xbc\xc3\x9fe.\xe2\x82\xac 2\r\nhi\r\n")


@catalogue.case("core.pub.subject-case")
def subject_case(session: Session) -> Observation:
    """Subjects are matched exactly, case included."""
    return session.connect().exchange("SUB foo 1\r\nPUB FOO 2\r\nhi\r\n")


@catalogue.case("core.pub.reserved-prefix", text='Permissions Violation for Publish to "$NRG.x"')
def reserved_prefix(session: Session) -> Observation:
    """Subjects of the servers' own consensus are forbidden to publish to; `$SYS` is not."""
    return subscriber(session).exchange("PUB $NRG.x 1\r\na\r\nPUB $SYS.x 1\r\nb\r\n")


@catalogue.case("core.hpub.delivery")
def hpub_delivery(session: Session) -> Observation:
    """HPUB is delivered as HMSG with the size of the headers and the whole."""
    return subscriber(session).exchange("HPUB foo 19 21\r\nNATS/1.0\r\na: bc\r\n\r\nhi\r\n")


@catalogue.case("core.hpub.reply")
def hpub_reply(session: Session) -> Observation:
    """HPUB takes a reply subject before its two sizes."""
    return subscriber(session).exchange("hpub foo back 12 12\r\nNATS/1.0\r\n\r\n\r\n")


@catalogue.case("core.hpub.headers-are-not-read")
def headers_not_read(session: Session) -> Observation:
    """The bytes counted as headers are handed on as they are, well formed or not."""
    return subscriber(session).exchange("HPUB foo 5 7\r\nhello??\r\n")


@catalogue.case("core.hpub.no-header-bytes")
def no_header_bytes(session: Session) -> Observation:
    """A header size of zero is accepted, and the message delivered as a plain MSG."""
    return subscriber(session).exchange("HPUB foo 0 2\r\nhi\r\n")


@catalogue.case("core.hpub.sizes-missing")
def hpub_sizes_missing(session: Session) -> Observation:
    """HPUB with one size only ends the connection."""
    return session.connect().until_closed("HPUB foo 12\r\n")


@catalogue.case("core.hpub.too-many-arguments")
def hpub_too_many_arguments(session: Session) -> Observation:
    """HPUB takes four words; a fifth ends the connection."""
    return session.connect().until_closed("HPUB foo back 12 12 12\r\n")


@catalogue.case("core.hpub.header-size-bad")
def hpub_header_size_bad(session: Session) -> Observation:
    """A header size that is not a number ends the connection."""
    return session.connect().until_closed("HPUB foo x 12\r\n")


@catalogue.case("core.hpub.header-size-negative")
def hpub_header_size_negative(session: Session) -> Observation:
    """A negative header size ends the connection."""
    return session.connect().until_closed("HPUB foo -1 12\r\n")


@catalogue.case("core.hpub.total-size-bad")
def hpub_total_size_bad(session: Session) -> Observation:
    """A total size that is not a number ends the connection."""
    return session.connect().until_closed("HPUB foo 12 x\r\n")


@catalogue.case("core.hpub.second-carriage-return")
def hpub_second_carriage_return(session: Session) -> Observation:
    """A second carriage return belongs to the total size and spoils it."""
    return session.connect().until_closed("HPUB foo 12 12\r\r\nNATS/1.0\r\n\r\n\r\n")


@catalogue.case("core.hpub.header-larger-than-total")
def hpub_header_larger(session: Session) -> Observation:
    """Headers larger than the whole end the connection."""
    return session.connect().until_closed("HPUB foo 13 12\r\n")


@catalogue.case("core.hpub.payload-past-limit")
def hpub_past_limit(session: Session) -> Observation:
    """max_payload counts headers and payload together."""
    return session.connect().until_closed(f"HPUB foo 12 {MAX_PAYLOAD_BYTES + 1}\r\n")


@catalogue.case("core.hpub.no-space")
def hpub_no_space(session: Session) -> Observation:
    """HPUB without a space after it is no operation."""
    return session.connect().until_closed("HPUB\r\n")
