"""Message schedules: messages that say when, and to which subject, they are published again."""

import datetime

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, JetStreamClient
from tests.interop.masks import is_timestamp
from tests.interop.messages import (
    contents,
    contents_in_time,
    new_stream,
    restarted,
    state_in_time,
    stored,
    with_stream,
)
from tests.interop.observation import Mask, Observation
from tests.interop.session import Session

PAST = "@at 2000-01-01T00:00:00Z"
BLANKS = (" ", "\t", "\r", "\n", "\f", "a b", "a\nb")
FUTURE = "@at 2100-01-01T00:00:00Z"

catalogue = Catalogue(JETSTREAM)


def scheduling(session: Session, name: str, **config: object) -> JetStreamClient:
    return with_stream(session, name, allow_msg_schedules=True, **config)


def schedule(pattern: str, target: str, **other: str) -> dict[str, str]:
    """The headers of a schedule; in names of others `_` stands for `-`."""
    named = {name.replace("_", "-"): value for name, value in other.items()}
    return {"Nats-Schedule": pattern, "Nats-Schedule-Target": target, **named}


def acks_of_patterns(js: JetStreamClient, stream: str, patterns: tuple[str, ...]) -> list[str]:
    return [
        js.ack_text(f"{stream}.s", "", schedule(pattern, f"{stream}.t")) for pattern in patterns
    ]


@catalogue.case("js.schedule.disabled", text="message schedules is disabled")
def disabled(session: Session) -> Observation:
    """A stream that does not allow schedules refuses them, good ones and bad ones alike."""
    js = with_stream(session, "PLANNO")
    acks = acks_of_patterns(js, "PLANNO", (FUTURE, "nonsense", "@every 1ms"))
    return [*acks, js.ack_text("PLANNO.s", "", schedule("", "PLANNO.t"))]


@catalogue.case("js.schedule.stored")
def stored_schedule(session: Session) -> Observation:
    """A schedule is a message; a rollup of its subject is added to its headers."""
    js = scheduling(session, "PLAN")
    headers = schedule(FUTURE, "PLAN.t", X_Other="kept")
    return [js.ack_text("PLAN.s", "text", headers), contents(js, "PLAN")]


@catalogue.case("js.schedule.replaced")
def replaced(session: Session) -> Observation:
    """A subject has one schedule: a later one takes the place of the earlier."""
    js = scheduling(session, "PLANTWICE")
    acks = [
        js.ack_text("PLANTWICE.s", text, schedule(FUTURE, "PLANTWICE.t")) for text in ("1", "2")
    ]
    return [acks, contents(js, "PLANTWICE")]


@catalogue.case("js.schedule.at")
def at(session: Session) -> Observation:
    """When its time has come the message goes to its target, and the schedule is gone."""
    js = scheduling(session, "PLANAT")
    headers = schedule(PAST, "PLANAT.t", X_Other="kept")
    ack = js.ack_text("PLANAT.s", "text", headers)
    return [ack, contents_in_time(js, "PLANAT", last_seq=2, messages=1)]


@catalogue.case("js.schedule.at-memory")
def at_memory(session: Session) -> Observation:
    """So it does in memory."""
    js = scheduling(session, "PLANMEM", storage="memory")
    js.ack_text("PLANMEM.s", "text", schedule(PAST, "PLANMEM.t"))
    return contents_in_time(js, "PLANMEM", last_seq=2, messages=1)


@catalogue.case("js.schedule.at-forms")
def at_forms(session: Session) -> Observation:
    """A moment may have a fraction and an offset."""
    times = (
        "2100-01-01T00:00:00Z",
        "2100-01-01T00:00:00.123456789Z",
        "2100-01-01T00:00:00+02:00",
        "2100-01-01T00:00:00.5-11:30",
    )
    js = scheduling(session, "PLANFORMS")
    return acks_of_patterns(js, "PLANFORMS", tuple(f"@at {time}" for time in times))


@catalogue.case("js.schedule.at-invalid", text="message schedules pattern is invalid")
def at_invalid(session: Session) -> Observation:
    """Anything else is no moment."""
    times = (
        "",
        "now",
        "2100-01-01",
        "2100-01-01T00:00:00",
        "2100-01-01 00:00:00Z",
        "2100-01-01T00:00Z",
        "2100-13-01T00:00:00Z",
        "2100-02-30T00:00:00Z",
        "2100-01-01T24:00:00Z",
        "2100-01-01T00:00:00z",
        "2100-01-01T00:00:00+0200",
        "4102444800",
    )
    js = scheduling(session, "PLANTIMES")
    patterns = (*(f"@at {time}" for time in times), "@at", "@AT 2100-01-01T00:00:00Z")
    return acks_of_patterns(js, "PLANTIMES", patterns)


@catalogue.case("js.schedule.every-forms")
def every_forms(session: Session) -> Observation:
    """An interval is a duration of a second or more."""
    good = ("1000s", "1h", "1h30m", "1.5h", "1000000ms", "+1h")
    bad = ("999ms", "0s", "-1h", "1000", "h", "1d", "", "1 h")
    js = scheduling(session, "PLANEVERY")
    acks = acks_of_patterns(js, "PLANEVERY", tuple(f"@every {each}" for each in good + bad))
    js.api("STREAM.DELETE.PLANEVERY")
    return acks


@catalogue.case(
    "js.schedule.every",
    masks=(Mask("**.next", is_timestamp, "the server's own clock"),),
)
def every(session: Session) -> Observation:
    """An interval publishes again and again, and tells the next time in a header."""
    js = scheduling(session, "PLANAGAIN")
    js.ack_text("PLANAGAIN.s", "text", schedule("@every 1s", "PLANAGAIN.t"))
    state_in_time(js, "PLANAGAIN", last_seq=3)
    messages = [stored(js, "PLANAGAIN", seq) for seq in (1, 2, 3)]
    js.api("STREAM.DELETE.PLANAGAIN")
    for message in messages[1:]:
        before, _, rest = message["headers"].partition("Nats-Schedule-Next: ")
        message["headers"], message["next"] = before, rest.removesuffix("\r\n\r\n")
    return messages


@catalogue.case("js.schedule.cron-forms")
def cron_forms(session: Session) -> Observation:
    """A cron pattern has six fields, with lists, ranges, steps and names."""
    patterns = (
        "0 0 0 1 1 *",
        "59 59 23 31 12 ?",
        "0 0 0 29 2 *",
        "0,30 0 0 1 jan *",
        "0 0 0 1 JAN mon",
        "0 0 0 ? 1 MON-FRI",
        "*/5 10-20/2 5/3 1-7 1,2 *",
        "0  0\t0 1 1 0",
        "@yearly",
        "@annually",
        "@monthly",
    )
    js = scheduling(session, "PLANCRON")
    acks = acks_of_patterns(js, "PLANCRON", patterns)
    js.api("STREAM.DELETE.PLANCRON")
    return acks


@catalogue.case("js.schedule.cron-invalid")
def cron_invalid(session: Session) -> Observation:
    """A malformed cron pattern, or one that never comes true, is refused."""
    patterns = (
        "* * * * *",
        "* * * * * * *",
        "60 * * * * *",
        "* 60 * * * *",
        "* * 24 * * *",
        "* * * 0 * *",
        "* * * 32 * *",
        "* * * * 13 *",
        "* * * * * 7",
        "-1 * * * * *",
        "x * * * * *",
        "* * * * foo *",
        "5-1 * * * * *",
        "1-2-3 * * * * *",
        "1/2/3 * * * * *",
        "*/0 * * * * *",
        "*/x * * * * *",
        "1- * * * * *",
        "0 0 0 30 2 *",
        "@fortnightly",
        "@Hourly",
        "@every",
        "nonsense",
    )
    return acks_of_patterns(scheduling(session, "PLANBAD"), "PLANBAD", patterns)


@catalogue.case(
    "js.schedule.cron",
    masks=(Mask("**.next", is_timestamp, "the server's own clock"),),
)
def cron(session: Session) -> Observation:
    """A cron pattern publishes when it comes true."""
    js = scheduling(session, "PLANTICK")
    js.ack_text("PLANTICK.s", "text", schedule("* * * * * *", "PLANTICK.t"))
    state_in_time(js, "PLANTICK", last_seq=2)
    message = stored(js, "PLANTICK", 2)
    js.api("STREAM.DELETE.PLANTICK")
    before, _, rest = message["headers"].partition("Nats-Schedule-Next: ")
    return {**message, "headers": before, "next": rest.removesuffix("\r\n\r\n")}


@catalogue.case("js.schedule.time-zone", text="message schedules time zone is invalid")
def time_zone(session: Session) -> Observation:
    """A cron pattern may have a time zone, by its name; other patterns may not."""
    js = scheduling(session, "PLANZONE")
    zone = "Nats_Schedule_Time_Zone"
    zones = ("UTC", "Europe/Amsterdam", "America/New_York", "Mars/Olympus", "", "utc+1")
    acks = [
        js.ack_text("PLANZONE.s", "", schedule("@yearly", "PLANZONE.t", **{zone: name}))
        for name in zones
    ]
    for pattern in (FUTURE, "@every 1h"):
        headers = schedule(pattern, "PLANZONE.t", **{zone: "UTC"})
        acks.append(js.ack_text("PLANZONE.s", "", headers))
    js.api("STREAM.DELETE.PLANZONE")
    return acks


@catalogue.case("js.schedule.time-zone-alone")
def time_zone_alone(session: Session) -> Observation:
    """A zone is looked at even where nothing is scheduled."""
    js = scheduling(session, "PLANZONES")
    new_stream(js, "PLANZONEX")
    return [
        js.ack_text(name, "", {"Nats-Schedule-Time-Zone": zone})
        for name in ("PLANZONES", "PLANZONEX")
        for zone in ("UTC", "Mars/Olympus")
    ]


@catalogue.case("js.schedule.target", text="message schedules target is invalid")
def target(session: Session) -> Observation:
    """The target is another literal subject of the stream."""
    js = scheduling(session, "PLANTO")
    targets = ("PLANTO.t", "", "PLANTO.s", "PLANTO.*", "PLANTO.>", "PLANTO..t", "else", "PLANTO")
    blanks = [f"PLANTO.{each}.t" for each in BLANKS]
    acks = [js.ack_text("PLANTO.s", "", schedule(FUTURE, name)) for name in (*targets, *blanks)]
    return [*acks, js.ack_text("PLANTO.s", "", {"Nats-Schedule": FUTURE})]


@catalogue.case("js.schedule.source", text="message schedules source is invalid")
def source(session: Session) -> Observation:
    """A source is a third literal subject of the stream."""
    js = scheduling(session, "PLANFROM")
    sources = ("PLANFROM.x", "", "PLANFROM.s", "PLANFROM.t", "PLANFROM.*", "else", "PLANFROM..x")
    blanks = [f"PLANFROM.{each}.x" for each in BLANKS]
    return [
        js.ack_text("PLANFROM.s", "", schedule(FUTURE, "PLANFROM.t", Nats_Schedule_Source=name))
        for name in (*sources, *blanks)
    ]


@catalogue.case("js.schedule.source-content")
def source_content(session: Session) -> Observation:
    """A schedule with a source publishes the last message of the source, with its headers."""
    js = scheduling(session, "PLANCOPY")
    js.ack_text("PLANCOPY.x", "old")
    js.ack_text("PLANCOPY.x", "new", {"From": "source", "Nats-Msg-Id": "a"})
    headers = schedule(PAST, "PLANCOPY.t", Nats_Schedule_Source="PLANCOPY.x", From="schedule")
    js.ack_text("PLANCOPY.s", "own", headers)
    return contents_in_time(js, "PLANCOPY", last_seq=4, messages=3)


@catalogue.case("js.schedule.source-empty")
def source_empty(session: Session) -> Observation:
    """A source without messages leaves the schedule's own content."""
    js = scheduling(session, "PLANOWN")
    headers = schedule(PAST, "PLANOWN.t", Nats_Schedule_Source="PLANOWN.x", From="schedule")
    js.ack_text("PLANOWN.s", "own", headers)
    return contents_in_time(js, "PLANOWN", last_seq=2, messages=1)


@catalogue.case("js.schedule.ttl", text="message schedules invalid per-message TTL")
def ttl(session: Session) -> Observation:
    """A schedule's TTL for its messages has the forms of any TTL; the stream has to allow TTLs."""
    js = scheduling(session, "PLANTTL")
    values = ("1h", "never", "soon", "100ms", "0", "")

    def acks() -> list[str]:
        return [
            js.ack_text("PLANTTL.s", "", schedule(FUTURE, "PLANTTL.t", Nats_Schedule_TTL=value))
            for value in values
        ]

    before = acks()
    js.update("PLANTTL", allow_msg_schedules=True, allow_msg_ttl=True)
    return [before, acks()]


@catalogue.case("js.schedule.ttl-published")
def ttl_published(session: Session) -> Observation:
    """A TTL for messages becomes that of the message; the TTL of the schedule itself does not."""
    js = scheduling(session, "PLANLIFE", allow_msg_ttl=True)
    headers = schedule(PAST, "PLANLIFE.t", Nats_Schedule_TTL="1h", Nats_TTL="2h")
    js.ack_text("PLANLIFE.s", "text", headers)
    return contents_in_time(js, "PLANLIFE", last_seq=2, messages=1)


@catalogue.case("js.schedule.rollup", text="message schedules invalid rollup")
def rollup(session: Session) -> Observation:
    """A rollup by a schedule, or by its messages, can only be of the subject."""
    js = scheduling(session, "PLANROLL")
    acks = [
        js.ack_text("PLANROLL.s", "", schedule(FUTURE, "PLANROLL.t", Nats_Schedule_Rollup=value))
        for value in ("sub", "SUB", "all", "x", "")
    ]
    acks += [
        js.ack_text("PLANROLL.s", "", schedule(FUTURE, "PLANROLL.t", Nats_Rollup=value))
        for value in ("sub", "SUB", "all", "x", "")
    ]
    return [acks, contents(js, "PLANROLL")]


@catalogue.case("js.schedule.rollup-published")
def rollup_published(session: Session) -> Observation:
    """The message of a schedule with a roll-up takes the place of the target's messages."""
    js = scheduling(session, "PLANSUM")
    js.fill("PLANSUM.t", "PLANSUM.t")
    js.ack_text("PLANSUM.s", "sum", schedule(PAST, "PLANSUM.t", Nats_Schedule_Rollup="sub"))
    return contents_in_time(js, "PLANSUM", last_seq=4, messages=1)


@catalogue.case("js.schedule.headers-left-out")
def headers_left_out(session: Session) -> Observation:
    """Ids, expectations, and the headers of the schedule itself are not published."""
    js = scheduling(session, "PLANLESS")
    headers = schedule(
        PAST,
        "PLANLESS.t",
        A="1",
        Nats_Msg_Id="id",
        Nats_Expected_Stream="PLANLESS",
        Nats_Expected_Last_Sequence="0",
        Nats_Scheduled="no header of ours",
        B="2",
    )
    ack = js.ack_text("PLANLESS.s", "text", headers)
    return [ack, contents_in_time(js, "PLANLESS", last_seq=2, messages=1)]


@catalogue.case("js.schedule.deleted")
def deleted(session: Session) -> Observation:
    """A schedule that is deleted or purged before its time does not publish."""
    js = scheduling(session, "PLANDROP")
    js.ack_text("PLANDROP.a", "a", schedule(PAST, "PLANDROP.t"))
    js.api("STREAM.MSG.DELETE.PLANDROP", {"seq": 1})
    js.ack_text("PLANDROP.b", "b", schedule(PAST, "PLANDROP.t"))
    js.api("STREAM.PURGE.PLANDROP", {"filter": "PLANDROP.b"})
    js.ack_text("PLANDROP.c", "c", schedule(PAST, "PLANDROP.t"))
    return contents_in_time(js, "PLANDROP", last_seq=4, messages=1)


@catalogue.case("js.schedule.overwritten")
def overwritten(session: Session) -> Observation:
    """A plain message to its subject stops a schedule, which stays where it is."""
    js = scheduling(session, "PLANOVER")
    js.ack_text("PLANOVER.s", "schedule", schedule(PAST, "PLANOVER.t"))
    js.ack_text("PLANOVER.s", "plain")
    js.ack_text("PLANOVER.z", "other", schedule(PAST, "PLANOVER.t"))
    return contents_in_time(js, "PLANOVER", last_seq=4, messages=3)


@catalogue.case("js.schedule.purged-by-message")
def purged_by_message(session: Session) -> Observation:
    """A message may end a schedule by naming it; it may also name one that is not there."""
    js = scheduling(session, "PLANEND")
    js.ack_text("PLANEND.s", "schedule", schedule(FUTURE, "PLANEND.t"))
    end = {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "PLANEND.s"}
    acks = [js.ack_text("PLANEND.t", "instead", end), js.ack_text("PLANEND.t", "again", end)]
    return [acks, contents(js, "PLANEND")]


@catalogue.case("js.schedule.scheduler", text="message schedules invalid scheduler")
def scheduler(session: Session) -> Observation:
    """A message that ends a schedule says `purge` and names another subject with a schedule."""
    js = scheduling(session, "PLANWHO")
    js.fill("PLANWHO.plain")
    headers = (
        {"Nats-Schedule-Next": "purge"},
        {"Nats-Schedule-Next": "now", "Nats-Scheduler": "PLANWHO.s"},
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": ""},
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "PLANWHO.t"},
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "PLANWHO.*"},
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "PLANWHO. .a"},
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "PLANWHO.\n.a"},
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "PLANWHO.plain"},
        {"Nats-Scheduler": "PLANWHO.s"},
        {"Nats-Schedule-Next": ""},
        {"Nats-Scheduler": ""},
    )
    return [js.ack_text("PLANWHO.t", "", each) for each in headers]


@catalogue.case("js.schedule.scheduler-disabled")
def scheduler_disabled(session: Session) -> Observation:
    """A stream without schedules says so only to messages whose headers are right otherwise."""
    js = with_stream(session, "PLANNONE")
    headers = (
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "PLANNONE.s"},
        {"Nats-Schedule-Next": "now", "Nats-Scheduler": "PLANNONE.s"},
        {"Nats-Scheduler": "PLANNONE.s"},
    )
    return [js.ack_text("PLANNONE.t", "", each) for each in headers]


@catalogue.case("js.schedule.order")
def order(session: Session) -> Observation:
    """Several errors: zone, pattern, TTL, rollup, target and source are reported in this order."""
    js = scheduling(session, "PLANORDER")
    wrong = {
        "Nats-Schedule-Source": "else",
        "Nats-Schedule-Target": "elsewhere",
        "Nats-Schedule-Rollup": "x",
        "Nats-Schedule-TTL": "x",
        "Nats-Schedule": "x",
        "Nats-Schedule-Time-Zone": "Mars/Olympus",
    }
    right = schedule(FUTURE, "PLANORDER.t")
    acks = []
    while wrong:
        acks.append(js.ack_text("PLANORDER.s", "", {**right, **wrong}))
        wrong.popitem()
    return acks


@catalogue.case("js.schedule.in-a-batch")
def in_a_batch(session: Session) -> Observation:
    """Schedules may come in a batch."""
    js = scheduling(session, "PLANBATCH", allow_atomic=True)
    batch = {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"}
    ack = js.ack_text("PLANBATCH.s", "text", {**batch, **schedule(PAST, "PLANBATCH.t")})
    return [ack, contents_in_time(js, "PLANBATCH", last_seq=2, messages=1)]


@catalogue.case("js.schedule.after-restart", own_server=True)
def after_restart(session: Session) -> Observation:
    """A schedule outlives a restart, and is carried out if its time has come meanwhile."""
    js = scheduling(session, "PLANSTART")
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(milliseconds=500)
    pattern = f"@at {soon.isoformat().replace('+00:00', 'Z')}"
    js.ack_text("PLANSTART.s", "text", schedule(pattern, "PLANSTART.t"))
    with restarted(session, JETSTREAM) as later:
        again = JetStreamClient(later.connect())
        return contents_in_time(again, "PLANSTART", last_seq=2, messages=1)
