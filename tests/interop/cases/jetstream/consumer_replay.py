"""The start of a consumer, and the pace at which it replays the stored messages.

Each start is shown twice: by the state of the new consumer, before anybody listens, and by its
deliveries.
"""

import time

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.consumer_push import (
    HEARTBEAT_NS,
    Listener,
    listener,
    messages,
    pass_time,
    progress,
    progress_of,
    target,
    until_idle,
)
from tests.interop.consumers import (
    consumer_info_when,
    create_consumer,
    new_durable,
    seen,
)
from tests.interop.jetstream import JETSTREAM, JetStreamClient
from tests.interop.messages import with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)


def filled(session: Session, stream: str, *names: str, **stream_config: object) -> JetStreamClient:
    """A new stream with a message for each of the names, which stand behind the stream's."""
    js = with_stream(session, stream, **stream_config)
    js.fill(*(f"{stream}.{name}" for name in names))
    return js


def started(
    session: Session, js: JetStreamClient, stream: str, **config: object
) -> tuple[Observation, Listener]:
    """The progress of a new consumer before it sends, and the listener it then sends to."""
    chosen = {"idle_heartbeat": HEARTBEAT_NS, "deliver_subject": target(stream), **config}
    made = new_durable(js, stream, "C", **chosen)
    return progress(made), listener(session, target(stream))


def played(session: Session, js: JetStreamClient, stream: str, **config: object) -> Observation:
    """The progress of a new consumer before it sends, and all its deliveries."""
    before, inbox = started(session, js, stream, **config)
    return [before, seen(until_idle(inbox))]


# --- all, last, new -----------------------------------------------------------------------------


@catalogue.case("js.start.all")
def start_all(session: Session) -> Observation:
    """All begins with the first message that is still there."""
    js = filled(session, "STARTALL", *"abcde")
    js.api("STREAM.PURGE.STARTALL", {"seq": 3})
    return played(session, js, "STARTALL", deliver_policy="all")


@catalogue.case("js.start.last")
def start_last(session: Session) -> Observation:
    """Last begins with the last message, and goes on with those that come."""
    js = filled(session, "STARTLAST", *"abc")
    before, inbox = started(session, js, "STARTLAST", deliver_policy="last")
    first = messages(inbox, 1)
    js.fill("STARTLAST.d")
    return [before, seen([*first, *messages(inbox, 1)])]


@catalogue.case("js.start.last-filtered")
def start_last_filtered(session: Session) -> Observation:
    """With a filter, last is the last that matches."""
    js = filled(session, "STARTLASTF", *"abcb", "c")
    return played(session, js, "STARTLASTF", deliver_policy="last", filter_subject="STARTLASTF.b")


@catalogue.case("js.start.last-filters")
def start_last_filters(session: Session) -> Observation:
    """With several filters, last is the last that matches any; only that one is sent."""
    js = filled(session, "STARTLASTS", *"abcdb", "e")
    filters = ["STARTLASTS.a", "STARTLASTS.b", "STARTLASTS.d"]
    return played(session, js, "STARTLASTS", deliver_policy="last", filter_subjects=filters)


@catalogue.case("js.start.last-unmatched")
def start_last_unmatched(session: Session) -> Observation:
    """Without a matching message, last begins with the first one that comes."""
    js = filled(session, "STARTLASTU", *"abc")
    filter_subject = "STARTLASTU.z"
    before, inbox = started(
        session, js, "STARTLASTU", deliver_policy="last", filter_subject=filter_subject
    )
    js.fill(filter_subject)
    return [before, seen(messages(inbox, 1))]


@catalogue.case("js.start.last-deleted")
def start_last_deleted(session: Session) -> Observation:
    """If the last message was deleted, last waits for the next one."""
    js = filled(session, "STARTLASTD", *"abc")
    js.api("STREAM.MSG.DELETE.STARTLASTD", {"seq": 3})
    before, inbox = started(session, js, "STARTLASTD", deliver_policy="last")
    silent = seen(until_idle(inbox))
    js.fill("STARTLASTD.d")
    return [before, silent, seen(messages(inbox, 1))]


@catalogue.case("js.start.new")
def start_new(session: Session) -> Observation:
    """New begins with the next message that comes."""
    js = filled(session, "STARTNEW", *"abc")
    before, inbox = started(session, js, "STARTNEW", deliver_policy="new")
    silent = seen(until_idle(inbox))
    js.fill("STARTNEW.d")
    return [before, silent, seen(messages(inbox, 1))]


@catalogue.case("js.start.new-unheard")
def start_new_unheard(session: Session) -> Observation:
    """New messages are those since the consumer was made, not since it has a listener."""
    js = filled(session, "STARTNEWU", *"ab")
    new_durable(js, "STARTNEWU", "C", deliver_policy="new", deliver_subject=target("STARTNEWU"))
    js.fill("STARTNEWU.c")
    consumer_info_when(js, "STARTNEWU", "C", num_pending=1)
    return listener(session, target("STARTNEWU")).next().seen


@catalogue.case("js.start.empty")
def start_empty(session: Session) -> Observation:
    """On an empty stream every policy begins with the first message."""
    made: dict[str, Observation] = {}
    for policy in ("all", "last", "new", "last_per_subject"):
        js = with_stream(session, "STARTEMPTY")
        config = {"deliver_policy": policy, "filter_subject": "STARTEMPTY.>"}
        made[policy] = progress(new_durable(js, "STARTEMPTY", "C", **config))
    return made


@catalogue.case("js.start.emptied")
def start_emptied(session: Session) -> Observation:
    """On a stream that was emptied every policy begins behind the old messages."""
    made: dict[str, Observation] = {}
    for policy in ("all", "last", "new", "last_per_subject"):
        js = filled(session, "STARTOUT", *"abc")
        js.api("STREAM.PURGE.STARTOUT")
        config = {"deliver_policy": policy, "filter_subject": "STARTOUT.>"}
        made[policy] = progress(new_durable(js, "STARTOUT", "C", **config))
    return made


# --- last per subject ---------------------------------------------------------------------------


@catalogue.case("js.start.per-subject")
def per_subject(session: Session) -> Observation:
    """The last of each subject in the order of the stream, then the messages that come."""
    js = filled(session, "STARTPER", *"abacab")
    before, inbox = started(
        session, js, "STARTPER", deliver_policy="last_per_subject", filter_subject="STARTPER.>"
    )
    first = until_idle(inbox)
    js.fill("STARTPER.a")
    return [before, seen([*first, *messages(inbox, 1)]), progress_of(js, "STARTPER")]


@catalogue.case("js.start.per-subject-filters")
def per_subject_filters(session: Session) -> Observation:
    """Several filters: the last of each subject that matches any."""
    js = filled(session, "STARTPERS", "a.1", "b.1", "a.2", "c.1", "b.1", "a.1", "d")
    return played(
        session,
        js,
        "STARTPERS",
        deliver_policy="last_per_subject",
        filter_subjects=["STARTPERS.a.*", "STARTPERS.b.1"],
    )


@catalogue.case("js.start.per-subject-limited")
def per_subject_limited(session: Session) -> Observation:
    """Of a stream that keeps one message per subject, all messages are sent."""
    js = filled(session, "STARTPERL", *"abacab", max_msgs_per_subject=1)
    return played(
        session, js, "STARTPERL", deliver_policy="last_per_subject", filter_subject="STARTPERL.*"
    )


@catalogue.case("js.start.per-subject-replaced")
def per_subject_replaced(session: Session) -> Observation:
    """A message replaced before it was sent is sent all the same, and then its replacement."""
    js = filled(session, "STARTPERR", *"ab")
    config = {"deliver_policy": "last_per_subject", "filter_subject": "STARTPERR.*"}
    new_durable(js, "STARTPERR", "C", deliver_subject=target("STARTPERR"), **config)
    js.fill("STARTPERR.a")
    consumer_info_when(js, "STARTPERR", "C", num_pending=3)
    return seen(listener(session, target("STARTPERR")).take(3))


# --- by sequence and time -----------------------------------------------------------------------


@catalogue.case("js.start.sequence")
def by_sequence(session: Session) -> Observation:
    """By sequence it begins there, or with the next that exists and matches."""
    js = filled(session, "STARTSEQ", *"ababab")
    js.api("STREAM.MSG.DELETE.STARTSEQ", {"seq": 3})
    config = {"deliver_policy": "by_start_sequence", "opt_start_seq": 2}
    return played(session, js, "STARTSEQ", filter_subject="STARTSEQ.a", **config)


@catalogue.case("js.start.sequence-below")
def by_sequence_below(session: Session) -> Observation:
    """A sequence below the first is the first."""
    js = filled(session, "STARTSEQB", *"abcd")
    js.api("STREAM.PURGE.STARTSEQB", {"seq": 3})
    config = {"deliver_policy": "by_start_sequence", "opt_start_seq": 1}
    return played(session, js, "STARTSEQB", **config)


@catalogue.case("js.start.sequence-ahead")
def by_sequence_ahead(session: Session) -> Observation:
    """A sequence that has not come yet is waited for.

    The number of messages that follow is left out: the oracle includes those before the start.
    """
    js = filled(session, "STARTSEQA", *"ab")
    config = {"deliver_policy": "by_start_sequence", "opt_start_seq": 5}
    before, inbox = started(session, js, "STARTSEQA", **config)
    js.fill("STARTSEQA.c", "STARTSEQA.d", "STARTSEQA.e")
    received = [[each.subject, each.reply.split(".")[4:7]] for each in until_idle(inbox)]
    return [before, received, progress_of(js, "STARTSEQA")]


def stored_at(js: JetStreamClient, stream: str, seq: int) -> str:
    """When a message was stored, as the stream tells it."""
    moment: str = js.api(f"STREAM.MSG.GET.{stream}", {"seq": seq})["message"]["time"]["moment"]
    return moment


@catalogue.case("js.start.time")
def by_time(session: Session) -> Observation:
    """By time it begins with the first message that is not older."""
    js = filled(session, "STARTTIME", *"abcd")
    config = {"deliver_policy": "by_start_time", "opt_start_time": stored_at(js, "STARTTIME", 3)}
    return played(session, js, "STARTTIME", **config)


@catalogue.case("js.start.time-bounds")
def by_time_bounds(session: Session) -> Observation:
    """A time before the first message is all; one after the last is what comes."""
    js = filled(session, "STARTTIMES", *"abc")
    made: dict[str, Observation] = {}
    for when in ("2001-02-03T04:05:06Z", "2125-01-01T00:00:00Z"):
        config = {"deliver_policy": "by_start_time", "opt_start_time": when}
        made[when] = progress(create_consumer(js, "STARTTIMES", when[:4], **config))
    return made


@catalogue.case("js.start.time-filtered")
def by_time_filtered(session: Session) -> Observation:
    """By time and with a filter it begins with the first that matches from then on."""
    js = filled(session, "STARTTIMEF", *"abcabc")
    when = stored_at(js, "STARTTIMEF", 3)
    config = {"deliver_policy": "by_start_time", "opt_start_time": when}
    return played(session, js, "STARTTIMEF", filter_subject="STARTTIMEF.b", **config)


# --- pace ---------------------------------------------------------------------------------------


@catalogue.case("js.replay.original")
def original(session: Session) -> Observation:
    """At the original pace a message waits as long as it did behind the one before."""
    js = filled(session, "REPLAY", "a")
    pass_time(session, beats=4)
    js.fill("REPLAY.b")
    inbox = listener(session, target("REPLAY"))
    config = {"deliver_subject": target("REPLAY"), "replay_policy": "original"}
    new_durable(js, "REPLAY", "C", **config)
    first = inbox.next()
    since = time.monotonic()
    second = inbox.next()
    return [seen([first, second]), time.monotonic() - since > 0.4]


@catalogue.case("js.replay.filtered")
def original_filtered(session: Session) -> Observation:
    """The pace is that of the messages that match."""
    js = filled(session, "REPLAYFILTER", "a")
    pass_time(session, beats=4)
    js.fill("REPLAYFILTER.b", "REPLAYFILTER.b")
    inbox = listener(session, target("REPLAYFILTER"))
    config = {"deliver_subject": target("REPLAYFILTER"), "replay_policy": "original"}
    since = time.monotonic()
    new_durable(js, "REPLAYFILTER", "C", filter_subject="REPLAYFILTER.b", **config)
    received = seen(inbox.take(2))
    return [received, time.monotonic() - since > 0.4]


@catalogue.case("js.replay.caught-up")
def caught_up(session: Session) -> Observation:
    """After a replay has caught up, new messages are sent when they come."""
    js = filled(session, "REPLAYNEW", "a")
    inbox = listener(session, target("REPLAYNEW"))
    config = {"deliver_subject": target("REPLAYNEW"), "replay_policy": "original"}
    new_durable(js, "REPLAYNEW", "C", **config)
    first = inbox.next()
    pass_time(session, beats=4)
    since = time.monotonic()
    js.fill("REPLAYNEW.b")
    return [seen([first, inbox.next()]), time.monotonic() - since > 0.4]
