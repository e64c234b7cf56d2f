"""SUB and UNSUB: accepted and refused forms, sids, and unsubscribing after a number of messages."""

from tests.interop.case import Catalogue
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue()


def publish(subject: str, *payloads: str) -> str:
    return "".join(f"PUB {subject} {len(payload)}\r\n{payload}\r\n" for payload in payloads)


@catalogue.case("core.sub.same-subject-two-sids")
def same_subject_two_sids(session: Session) -> Observation:
    """Two subscriptions of one client to one subject each get their copy."""
    frames = session.connect().exchange("SUB foo 1\r\nSUB foo 2\r\n" + publish("foo", "hi"))
    return sorted(str(frame) for frame in frames)


@catalogue.case("core.sub.same-sid-twice")
def same_sid_twice(session: Session) -> Observation:
    """A sid in use keeps its first subject; the second SUB changes nothing and is no error."""
    client = session.connect()
    return client.exchange("SUB foo 1\r\nSUB bar 1\r\n" + publish("foo", "a") + publish("bar", "b"))


@catalogue.case("core.sub.sid-is-any-word")
def sid_is_any_word(session: Session) -> Observation:
    """A sid is a word, not a number, and is handed back as it was given."""
    return session.connect().exchange("SUB foo my-sid_0\xe9\r\n" + publish("foo", "hi"))


@catalogue.case("core.sub.sid-missing")
def sid_missing(session: Session) -> Observation:
    """SUB with a subject alone ends the connection, unexplained."""
    return session.connect().until_closed("SUB foo\r\n")


@catalogue.case("core.sub.no-arguments")
def no_arguments(session: Session) -> Observation:
    """SUB without a space after it is no operation."""
    return session.connect().until_closed("SUB\r\n")


@catalogue.case("core.sub.too-many-arguments")
def too_many_arguments(session: Session) -> Observation:
    """SUB takes subject, queue and sid; a fourth word ends the connection."""
    return session.connect().until_closed("SUB foo bar q 1\r\n")


@catalogue.case("core.sub.invalid-subject", text="Invalid Subject")
def invalid_subject(session: Session) -> Observation:
    """A malformed subject is refused with an error; the connection and the sid live on.

    Malformed: an empty token, or `>` before the end.
    """
    client = session.connect()
    subjects = ("foo..bar", ".foo", "foo.", ".", "foo.>.bar", ">.foo")
    refused = {subject: client.exchange(f"SUB {subject} 1\r\n") for subject in subjects}
    return {"refused": refused, "sid is free": client.exchange("SUB ok 1\r\n" + publish("ok", "a"))}


@catalogue.case("core.sub.invalid-subject-verbose")
def invalid_subject_verbose(session: Session) -> Observation:
    """With `verbose` a refused SUB gets the error in place of the +OK."""
    client = session.dial()
    client.frame()
    return client.exchange("SUB foo.>.bar 1\r\n")


@catalogue.case("core.sub.invalid-subject-pedantic")
def invalid_subject_pedantic(session: Session) -> Observation:
    """`pedantic` makes no difference to SUB."""
    return session.connect(pedantic=True).exchange("SUB foo* 1\r\nSUB a..b 2\r\n")


@catalogue.case("core.sub.wildcard-inside-token")
def wildcard_inside_token(session: Session) -> Observation:
    """A star or `>` that is only part of a token is an ordinary letter."""
    client = session.connect()
    client.exchange("SUB foo* 1\r\nSUB a.>b 2\r\nSUB a.*b.c 3\r\n")
    subjects = ("foo*", "foobar", "a.>b", "a.xb", "a.*b.c", "a.xb.c")
    return {subject: client.exchange(publish(subject, "x")) for subject in subjects}


@catalogue.case("core.sub.word-case-and-tabs")
def word_case_and_tabs(session: Session) -> Observation:
    """SUB and UNSUB in any case, with any blanks between the words."""
    client = session.connect()
    first = client.exchange("sub \t foo \t 1 \r\n" + publish("foo", "a"))
    return {"sub": first, "unsub": client.exchange("unSub \t 1\t\r\n" + publish("foo", "b"))}


@catalogue.case("core.sub.line-feed-only")
def line_feed_only(session: Session) -> Observation:
    """SUB and UNSUB may end in LF alone."""
    client = session.connect()
    return client.exchange(
        "SUB foo 1\nSUB bar 2\nUNSUB 1\n" + publish("foo", "a") + publish("bar", "b")
    )


@catalogue.case("core.sub.control-line-past-limit")
def control_line_past_limit(session: Session) -> Observation:
    """max_control_line holds for SUB as for PUB."""
    return session.connect().until_closed(f"SUB {'s' * 4095} 1\r\n")


@catalogue.case("core.sub.many-tokens")
def many_tokens(session: Session) -> Observation:
    """A subject may have any number of tokens that fits the line."""
    subject = ".".join("t" * 500)
    pattern = ".".join("*" * 500)
    client = session.connect()
    frames = client.exchange(f"SUB {subject} 1\r\nSUB {pattern} 2\r\n" + publish(subject, "x"))
    return sorted(str(frame) for frame in frames)


@catalogue.case("core.unsub.stops-delivery")
def unsub(session: Session) -> Observation:
    """UNSUB ends the subscription; messages before it in the stream were delivered."""
    client = session.connect()
    return client.exchange(
        "SUB foo 1\r\n" + publish("foo", "a") + "UNSUB 1\r\n" + publish("foo", "b")
    )


@catalogue.case("core.unsub.unknown-sid")
def unknown_sid(session: Session) -> Observation:
    """UNSUB of a sid not in use is ignored."""
    return session.connect().exchange("UNSUB 77\r\n")


@catalogue.case("core.unsub.other-clients-sid")
def other_clients_sid(session: Session) -> Observation:
    """Sids belong to a connection: UNSUB never ends another client's subscription."""
    one, other = session.connect(), session.connect()
    one.exchange("SUB foo 1\r\n")
    other.exchange("UNSUB 1\r\n" + publish("foo", "hi"))
    return one.exchange()


@catalogue.case("core.unsub.sid-can-be-used-again")
def sid_used_again(session: Session) -> Observation:
    """After UNSUB the sid is free for another subject."""
    client = session.connect()
    client.exchange("SUB foo 1\r\nUNSUB 1\r\nSUB bar 1\r\n")
    return client.exchange(publish("foo", "a") + publish("bar", "b"))


@catalogue.case("core.unsub.no-arguments")
def unsub_no_arguments(session: Session) -> Observation:
    """UNSUB without a space after it is no operation."""
    return session.connect().until_closed("UNSUB\r\n")


@catalogue.case("core.unsub.blank-arguments")
def unsub_blank_arguments(session: Session) -> Observation:
    """UNSUB followed by blanks alone ends the connection, unexplained."""
    return session.connect().until_closed("UNSUB  \r\n")


@catalogue.case("core.unsub.too-many-arguments")
def unsub_too_many_arguments(session: Session) -> Observation:
    """UNSUB takes sid and number; a third word ends the connection."""
    return session.connect().until_closed("UNSUB 1 2 3\r\n")


@catalogue.case("core.unsub.max.after-delivery")
def max_after_delivery(session: Session) -> Observation:
    """UNSUB with a number ends the subscription after that many messages."""
    client = session.connect()
    return client.exchange("SUB foo 1\r\nUNSUB 1 2\r\n" + publish("foo", "a", "b", "c"))


@catalogue.case("core.unsub.max.counts-past-deliveries")
def max_counts_past_deliveries(session: Session) -> Observation:
    """The number counts from the SUB: messages delivered before the UNSUB are included."""
    client = session.connect()
    first = client.exchange("SUB foo 1\r\n" + publish("foo", "a", "b"))
    return {"before": first, "after": client.exchange("UNSUB 1 3\r\n" + publish("foo", "c", "d"))}


@catalogue.case("core.unsub.max.already-reached")
def max_already_reached(session: Session) -> Observation:
    """A number already reached or passed ends the subscription at once."""
    client = session.connect()
    client.exchange("SUB foo 1\r\n" + publish("foo", "a", "b"))
    return client.exchange("UNSUB 1 2\r\n" + publish("foo", "c"))


@catalogue.case("core.unsub.max.zero")
def max_zero(session: Session) -> Observation:
    """A number of zero is as good as none: the subscription ends at once."""
    return session.connect().exchange("SUB foo 1\r\nUNSUB 1 0\r\n" + publish("foo", "a"))


@catalogue.case("core.unsub.max.not-a-number")
def max_not_a_number(session: Session) -> Observation:
    """A malformed number is taken as minus one: the subscription ends at once."""
    return session.connect().exchange("SUB foo 1\r\nUNSUB 1 x\r\n" + publish("foo", "a"))


@catalogue.case("core.unsub.max.negative")
def max_negative(session: Session) -> Observation:
    """A negative number ends the subscription at once."""
    return session.connect().exchange("SUB foo 1\r\nUNSUB 1 -5\r\n" + publish("foo", "a"))


@catalogue.case("core.unsub.max.raised")
def max_raised(session: Session) -> Observation:
    """A later UNSUB replaces the number of an earlier one."""
    client = session.connect()
    client.exchange("SUB foo 1\r\nUNSUB 1 1\r\nUNSUB 1 3\r\n")
    return client.exchange(publish("foo", "a", "b", "c", "d"))


@catalogue.case("core.unsub.max.cancelled-by-plain-unsub")
def max_then_plain(session: Session) -> Observation:
    """A plain UNSUB ends a subscription that was waiting for its number."""
    client = session.connect()
    return client.exchange("SUB foo 1\r\nUNSUB 1 5\r\nUNSUB 1\r\n" + publish("foo", "a"))


@catalogue.case("core.unsub.max.sid-free-after-last")
def max_then_sid_free(session: Session) -> Observation:
    """When the number is reached the sid is free: a SUB with it counts from zero."""
    client = session.connect()
    client.exchange("SUB foo 1\r\nUNSUB 1 1\r\n" + publish("foo", "a"))
    return client.exchange("SUB bar 1\r\n" + publish("bar", "b", "c") + publish("foo", "d"))


@catalogue.case("core.unsub.max.sub-again-while-waiting")
def max_sub_again_while_waiting(session: Session) -> Observation:
    """A SUB with a sid that still waits for its number does not lift the number."""
    client = session.connect()
    return client.exchange("SUB foo 1\r\nUNSUB 1 1\r\nSUB foo 1\r\n" + publish("foo", "a", "b"))


@catalogue.case("core.unsub.max.other-publisher")
def max_other_publisher(session: Session) -> Observation:
    """The number counts messages from all publishers."""
    one, other = session.connect(), session.connect()
    one.exchange("SUB foo 1\r\nUNSUB 1 3\r\n" + publish("foo", "a"))
    other.exchange(publish("foo", "b", "c", "d"))
    return one.exchange(publish("foo", "e"))


@catalogue.case("core.sub.before-publish-in-order")
def sub_then_publish_of_other(session: Session) -> Observation:
    """A SUB that was confirmed by a PONG gets every message published after it."""
    one, other = session.connect(), session.connect()
    one.exchange("SUB foo.* 9\r\n")
    other.exchange("".join(publish(f"foo.{n}", str(n)) for n in range(50)))
    return one.exchange()


@catalogue.case("core.sub.gone-with-connection")
def gone_with_connection(session: Session) -> Observation:
    """The subscriptions of a connection end with it: a request then has no responders."""
    responder = session.connect()
    responder.exchange("SUB svc.gone 1\r\n")
    responder.until_closed("nope\r\n")
    session.wait_until_gone(responder)
    client = session.connect(no_responders=True)
    return client.exchange("SUB inbox 1\r\nPUB svc.gone inbox 0\r\n\r\n")
