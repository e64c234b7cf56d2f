"""STREAM.SNAPSHOT and STREAM.RESTORE: a stream leaves as bytes and comes back from them.

The format of the bytes is a server's own affair; that they bring the stream back is not.
"""

from tests.interop.case import Catalogue
from tests.interop.consumers import (
    SECOND_NS,
    ack,
    ack_quietly,
    consumer_info,
    create_consumer,
    fetch,
    new_durable,
    seen,
)
from tests.interop.jetstream import (
    EVENTS,
    JETSTREAM,
    JetStreamClient,
    Reply,
    jetstream,
    opened,
    subject_of,
)
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

DELIVER = "snapshot-chunks"
CHUNK_BYTES = 64 * 1024


def backup(js: JetStreamClient, name: str, **request: object) -> tuple[Reply, bytes, str]:
    """The reply to a snapshot, the data of all its chunks, and the frame that ends them."""
    js.wire.exchange(f"SUB {DELIVER} 9\r\n")
    inbox = js.send(f"$JS.API.STREAM.SNAPSHOT.{name}", {"deliver_subject": DELIVER, **request})
    reply: Reply = {}
    data, last = b"", ""
    while not reply or not last:
        frame = str(js.wire.awaited_frame())
        if subject_of(frame) == inbox:
            reply = opened(frame)
        elif subject_of(frame) == DELIVER:
            line, rest = frame.split("\r\n", 1)
            chunk = rest.removesuffix("\r\n").encode("latin-1")
            if line.startswith("HMSG") or not chunk:
                last = frame
            else:
                data += chunk
                acknowledge(js, line)
    js.wire.exchange("UNSUB 9\r\n")
    return reply, data, last


def acknowledge(js: JetStreamClient, line: str) -> None:
    """A chunk with a reply subject wants to be acknowledged before many more are sent."""
    fields = line.split(" ")
    if len(fields) == len(("MSG", "subject", "sid", "reply", "size")):
        js.send_only(fields[3])


def restore(js: JetStreamClient, name: str, config: object, data: bytes) -> list[Reply]:
    """The reply to a restore, and that to its end."""
    first = js.api(f"STREAM.RESTORE.{name}", {"config": config, "state": {}})
    if "error" in first:
        return [first]
    subject = first["deliver_subject"]
    first["deliver_subject"] = subject.rsplit(".", 1)[0]
    for start in range(0, len(data), CHUNK_BYTES):
        js.request_frame(subject, data[start : start + CHUNK_BYTES])
    return [first, js.request(subject)]


@catalogue.case("js.snapshot.reply")
def reply(session: Session) -> Observation:
    """A snapshot is answered with the configuration as it is stored and the state it takes."""
    js = jetstream(session, "SNAP")
    js.create("SNAP", metadata={"k": "v"})
    js.fill("SNAP.a", "SNAP.b", "SNAP.a")
    js.api("STREAM.MSG.DELETE.SNAP", {"seq": 2})
    answer, data, last = backup(js, "SNAP")
    return {"answer": answer, "has data": bool(data), "last": last}


@catalogue.case("js.snapshot.chunks")
def chunks(session: Session) -> Observation:
    """A backup larger than a chunk ends with a status; its chunks are acknowledged."""
    js = jetstream(session, "SNAP-CHUNKS")
    js.create("SNAP-CHUNKS")
    for index in range(40):
        noise = bytes((index * 7 + 31 * step * step) % 251 for step in range(1000))
        js.publish("SNAP-CHUNKS", noise)
    _, data, last = backup(js, "SNAP-CHUNKS", chunk_size=1024)
    return {"several": len(data) > 2 * 1024, "last": last}


@catalogue.case("js.snapshot.errors")
def snapshot_errors(session: Session) -> Observation:
    """A snapshot needs a stream and a literal subject to send to."""
    js = jetstream(session, "SNAP-ERRORS")
    js.create("SNAP-ERRORS")
    call = "STREAM.SNAPSHOT.SNAP-ERRORS"
    return {
        "empty": js.api(call),
        "empty object": js.api(call, "{}"),
        "no subject": js.api(call, {"no_consumers": True}),
        "wildcard": js.api(call, {"deliver_subject": "a.*"}),
        "invalid": js.api(call, {"deliver_subject": "a..b"}),
        "unknown field": js.api(call, {"deliver": "a"}),
        "garbage": js.api(call, "garbage"),
        "wrong type": js.api(call, {"deliver_subject": "a", "chunk_size": "1"}),
        "no stream": js.api("STREAM.SNAPSHOT.SNAP-MISSING", {"deliver_subject": "a"}),
        "no stream, garbage": js.api("STREAM.SNAPSHOT.SNAP-MISSING", "garbage"),
    }


@catalogue.case("js.restore.errors", text="stream name already in use, cannot restore")
def restore_errors(session: Session) -> Observation:
    """A restore needs a free name and a valid configuration."""
    js = jetstream(session, "RESTORE-TAKEN", "RESTORE-FREE")
    js.create("RESTORE-TAKEN")
    call = "STREAM.RESTORE.RESTORE-FREE"
    return {
        "empty": js.api(call),
        "empty object": js.api(call, "{}"),
        "garbage": js.api(call, "garbage"),
        "unknown field": js.api(call, {"configuration": {}}),
        "other name": js.api(call, {"config": {"name": "OTHER"}}),
        "invalid": js.api(call, {"config": {"name": "RESTORE-FREE", "max_age": 1}}),
        "replicas": js.api(call, {"config": {"name": "RESTORE-FREE", "num_replicas": 9}}),
        "taken": js.api("STREAM.RESTORE.RESTORE-TAKEN", {"config": {"name": "RESTORE-TAKEN"}}),
        "slash": js.api("STREAM.RESTORE.A/B", {"config": {"name": "A/B"}}),
    }


@catalogue.case("js.restore.round-trip")
def round_trip(session: Session) -> Observation:
    """A backup brings back messages, headers, gaps, sequences and times."""
    js = jetstream(session, "ROUND")
    js.create("ROUND", metadata={"k": "v"}, max_msgs=10, first_seq=5)
    js.publish("ROUND.a", "one")
    js.publish("ROUND.b", "two", {"H": "1"})
    js.publish("ROUND.a", "three", {"Nats-Msg-Id": "m"})
    js.api("STREAM.MSG.DELETE.ROUND", {"seq": 6})
    before = js.state("ROUND", deleted_details=True, subjects_filter=">")
    third = js.api("STREAM.MSG.GET.ROUND", {"seq": 7})
    answer, data, _ = backup(js, "ROUND")
    js.api("STREAM.DELETE.ROUND")
    replies = restore(js, "ROUND", answer["config"], data)
    after = js.state("ROUND", deleted_details=True, subjects_filter=">")
    return {
        "replies": replies,
        "same state": before == after,
        "same message": third == js.api("STREAM.MSG.GET.ROUND", {"seq": 7}),
        "duplicate": js.ack_text("ROUND.a", "three", {"Nats-Msg-Id": "m"}),
        "next": js.ack_text("ROUND.a", "four"),
    }


@catalogue.case("js.restore.other-config")
def other_config(session: Session) -> Observation:
    """A backup may come back with other limits, which then hold."""
    js = jetstream(session, "RESHAPED")
    js.create("RESHAPED")
    js.fill(*("RESHAPED",) * 4)
    answer, data, _ = backup(js, "RESHAPED")
    js.api("STREAM.DELETE.RESHAPED")
    replies = restore(js, "RESHAPED", {**answer["config"], "max_msgs": 2}, data)
    return {"replies": replies, "state": js.state("RESHAPED")}


@catalogue.case("js.restore.garbage", text="restore failed")
def restore_garbage(session: Session) -> Observation:
    """Data that are no backup are refused at their end, and no stream is left behind."""
    js = jetstream(session, "NO-BACKUP")
    replies = restore(js, "NO-BACKUP", {"name": "NO-BACKUP"}, b"this is no backup at all")
    refused = replies[-1]["error"]
    return {
        "begin": replies[0],
        "code": [refused["code"], refused["err_code"]],
        "text": refused["description"].split(":")[0],
        "after": js.info("NO-BACKUP"),
    }


@catalogue.case("js.restore.empty-stream")
def empty_stream(session: Session) -> Observation:
    """The backup of an empty stream brings its sequences back."""
    js = jetstream(session, "EMPTIED")
    js.create("EMPTIED")
    js.fill("EMPTIED", "EMPTIED")
    js.api("STREAM.PURGE.EMPTIED")
    answer, data, _ = backup(js, "EMPTIED")
    js.api("STREAM.DELETE.EMPTIED")
    restore(js, "EMPTIED", answer["config"], data)
    return {"state": js.state("EMPTIED"), "ack": js.ack_text("EMPTIED", "x")}


@catalogue.case("js.restore.json", text="of type server.StreamState")
def restore_json(session: Session) -> Observation:
    """The state in a request is not used, and has to be one all the same."""
    js = jetstream(session, "RESTORE-JSON")
    call, config = "STREAM.RESTORE.RESTORE-JSON", {"name": "RESTORE-JSON"}
    states = {
        "array": [],
        "text": {"messages": "a"},
        "negative": {"bytes": -1},
        "fraction": {"num_subjects": 1.5},
        "time": {"first_ts": "x"},
        "lost": {"lost": {"msgs": ["a"]}},
        "unknown": {"unknown": 1},
    }
    return {
        name: js.api(call, {"config": config, "state": state}) for name, state in states.items()
    }


@catalogue.case("js.restore.memory")
def memory(session: Session) -> Observation:
    """Streams in memory are backed up and restored like others."""
    js = jetstream(session, "IN-MEMORY")
    js.create("IN-MEMORY", storage="memory")
    js.fill("IN-MEMORY.a", "IN-MEMORY.b", "IN-MEMORY.c")
    js.api("STREAM.MSG.DELETE.IN-MEMORY", {"seq": 2})
    answer, data, _ = backup(js, "IN-MEMORY")
    js.api("STREAM.DELETE.IN-MEMORY")
    replies = restore(js, "IN-MEMORY", answer["config"], data)
    third = js.api("STREAM.MSG.GET.IN-MEMORY", {"seq": 3})
    return {"replies": replies, "third": third, "ack": js.ack_text("IN-MEMORY.a", "x")}


@catalogue.case("js.restore.overlap", text="error adding stream")
def overlap(session: Session) -> Observation:
    """Subjects that another stream has taken meanwhile are noticed when the backup is there."""
    js = jetstream(session, "OVERLAPPED", "OVERLAPPING")
    js.create("OVERLAPPED")
    js.fill("OVERLAPPED.a")
    answer, data, _ = backup(js, "OVERLAPPED")
    js.api("STREAM.DELETE.OVERLAPPED")
    js.create("OVERLAPPING", subjects=["OVERLAPPED.a"])
    replies = restore(js, "OVERLAPPED", answer["config"], data)
    return {"replies": replies, "after": js.info("OVERLAPPED")}


@catalogue.case("js.restore.name-taken-meanwhile")
def name_taken_meanwhile(session: Session) -> Observation:
    """A stream of that name may be made until the backup comes; it is not replaced."""
    js = jetstream(session, "MEANWHILE")
    js.create("MEANWHILE")
    answer, data, _ = backup(js, "MEANWHILE")
    js.api("STREAM.DELETE.MEANWHILE")
    begin = js.api("STREAM.RESTORE.MEANWHILE", {"config": answer["config"], "state": {}})
    js.create("MEANWHILE")
    js.fill("MEANWHILE.a")
    chunk = js.request_frame(begin["deliver_subject"], data)
    return {
        "is chunk answered": bool(chunk),
        "end": js.request(begin["deliver_subject"]),
        "messages": js.state("MEANWHILE")["messages"],
    }


# --- consumers ------------------------------------------------------------------------------------

DAY_NS = 24 * 3600 * SECOND_NS


def moved(js: JetStreamClient, name: str, **request: object) -> list[Reply]:
    """Replace a stream by the restore of its backup. Returns the replies on the way."""
    answer, data, _ = backup(js, name, **request)
    js.api(f"STREAM.DELETE.{name}")
    return [answer, *restore(js, name, answer["config"], data)]


@catalogue.case("js.snapshot.consumers")
def snapshot_consumers(session: Session) -> Observation:
    """The state tells of all consumers, also where they are left out."""
    js = jetstream(session, "SNAP-CONSUMERS")
    js.create("SNAP-CONSUMERS")
    new_durable(js, "SNAP-CONSUMERS", "A")
    new_durable(js, "SNAP-CONSUMERS", "B", mem_storage=True)
    with_them, _, _ = backup(js, "SNAP-CONSUMERS")
    without, _, _ = backup(js, "SNAP-CONSUMERS", no_consumers=True)
    return {"with": with_them, "without": without}


@catalogue.case("js.restore.consumers")
def restore_consumers(session: Session) -> Observation:
    """Consumers come back as they are configured, and as far as they were."""
    js = jetstream(session, "CONSUMED")
    js.create("CONSUMED")
    js.fill(*(f"CONSUMED.{number % 3}" for number in range(9)))
    kinds: dict[str, dict[str, object]] = {
        "IDLE": {},
        "NEW": {"deliver_policy": "new"},
        "LAST": {"deliver_policy": "last_per_subject", "filter_subject": "CONSUMED.>"},
        "LATER": {"deliver_policy": "by_start_sequence", "opt_start_seq": 100},
        "SOME": {"filter_subjects": ["CONSUMED.0", "CONSUMED.2"], "metadata": {"k": "v"}},
        "NONE": {"ack_policy": "none"},
        "ALL": {"ack_policy": "all", "backoff": [DAY_NS, 2 * DAY_NS], "max_deliver": 3},
        "MEMORY": {"mem_storage": True},
        "PUSH": {"deliver_subject": "CONSUMED-elsewhere", "idle_heartbeat": SECOND_NS},
        "PRIORITY": {"priority_policy": "overflow", "priority_groups": ["g"]},
    }
    for name, config in kinds.items():
        new_durable(js, "CONSUMED", name, **config)
    create_consumer(js, "CONSUMED", "PASSING", ack_policy="explicit", inactive_threshold=DAY_NS)
    for name in ("LAST", "SOME", "NONE", "ALL", "MEMORY", "PASSING"):
        messages = fetch(js, "CONSUMED", name, 3)
        if name == "ALL":
            ack(js, messages[1])
        if name == "SOME":
            ack(js, messages[0], messages[2])
    replies = moved(js, "CONSUMED")
    names = [*kinds, "PASSING"]
    return {
        "replies": replies,
        "after": {name: consumer_info(js, "CONSUMED", name) for name in names},
        "names": js.api("CONSUMER.NAMES.CONSUMED"),
    }


@catalogue.case("js.restore.consumers-go-on")
def restored_consumers_go_on(session: Session) -> Observation:
    """A message delivered before a restore can be acked after it, or is delivered once more."""
    js = jetstream(session, "GOING-ON")
    js.create("GOING-ON")
    js.fill(*(f"GOING-ON.{number}" for number in range(6)))
    new_durable(js, "GOING-ON", "C", max_ack_pending=3)
    first, second, third = fetch(js, "GOING-ON", "C", 3)
    ack_quietly(js, second, "-NAK")
    again = fetch(js, "GOING-ON", "C", 1, expires=5 * SECOND_NS)
    ack(js, first)
    moved(js, "GOING-ON")
    before = consumer_info(js, "GOING-ON", "C")
    ack(js, third)
    between = consumer_info(js, "GOING-ON", "C")
    ack_quietly(js, again[0], "-NAK")
    fourth, fifth = fetch(js, "GOING-ON", "C", 2, expires=5 * SECOND_NS)
    once_more = fetch(js, "GOING-ON", "C", 1, expires=5 * SECOND_NS)
    deliveries = sorted(
        (each.reply.split(".")[4:7] for each in (fourth, fifth, *once_more)),
        key=lambda tokens: int(tokens[1]),
    )
    ack(js, fourth, fifth, *once_more)
    return {
        "again": seen(again),
        "before": before,
        "between": between,
        "deliveries": [[count, sequence] for count, sequence, _ in deliveries],
        "after": consumer_info(js, "GOING-ON", "C"),
    }


@catalogue.case("js.restore.without-consumers")
def restore_without_consumers(session: Session) -> Observation:
    """A backup without consumers makes a stream that has none."""
    js = jetstream(session, "LEFT-OUT")
    js.create("LEFT-OUT")
    js.fill("LEFT-OUT")
    new_durable(js, "LEFT-OUT", "C")
    return {
        "replies": moved(js, "LEFT-OUT", no_consumers=True),
        "names": js.api("CONSUMER.NAMES.LEFT-OUT"),
    }


@catalogue.case("js.restore.work-queue")
def restore_work_queue(session: Session) -> Observation:
    """A work queue comes back with its unacknowledged messages, which go with their acks."""
    js = jetstream(session, "QUEUE-BACK")
    js.create("QUEUE-BACK", retention="workqueue")
    js.fill(*("QUEUE-BACK",) * 4)
    new_durable(js, "QUEUE-BACK", "C")
    first, second, third = fetch(js, "QUEUE-BACK", "C", 3)
    ack(js, first, third)
    replies = moved(js, "QUEUE-BACK")
    before = consumer_info(js, "QUEUE-BACK", "C")
    ack(js, second)
    after = js.state_when("QUEUE-BACK", "messages", 1)
    return {
        "replies": replies,
        "before": before,
        "state": after,
        "after": consumer_info(js, "QUEUE-BACK", "C"),
    }


@catalogue.case("js.restore.interest")
def restore_interest(session: Session) -> Observation:
    """Messages that no consumer needs any more do not come back."""
    js = jetstream(session, "INTEREST-BACK")
    js.create("INTEREST-BACK", retention="interest")
    new_durable(js, "INTEREST-BACK", "A")
    new_durable(js, "INTEREST-BACK", "B", filter_subject="INTEREST-BACK.b")
    js.fill("INTEREST-BACK.a", "INTEREST-BACK.b", "INTEREST-BACK.b", "INTEREST-BACK.a")
    ack(js, *fetch(js, "INTEREST-BACK", "A", 2))
    js.state_when("INTEREST-BACK", "messages", 3)
    replies = moved(js, "INTEREST-BACK")
    ack(js, *fetch(js, "INTEREST-BACK", "B", 1))
    return {
        "replies": replies,
        "state": js.state_when("INTEREST-BACK", "messages", 2),
        "A": consumer_info(js, "INTEREST-BACK", "A"),
        "B": consumer_info(js, "INTEREST-BACK", "B"),
    }


@catalogue.case("js.restore.consumer-refused", text="failed to add consumer")
def restore_consumer_refused(session: Session) -> Observation:
    """A stream that may not have its consumers is not restored."""
    js = jetstream(session, "TOO-MANY")
    js.create("TOO-MANY")
    new_durable(js, "TOO-MANY", "A", max_ack_pending=7)
    answer, data, _ = backup(js, "TOO-MANY")
    refusals = []
    for change in (
        {"retention": "workqueue", "consumer_limits": {"max_ack_pending": 5}},
        {"consumer_limits": {"inactive_threshold": SECOND_NS, "max_ack_pending": 5}},
    ):
        # The remains of a refused restore are not compared.
        js.api("STREAM.DELETE.TOO-MANY")
        refusals.append(restore(js, "TOO-MANY", {**answer["config"], **change}, data))
    return refusals


@catalogue.case("js.restore.consumer-advisories", own_server=True)
def restore_consumer_advisories(session: Session) -> Observation:
    """Consumers that come back with their stream cause no advisories."""
    js = jetstream(session)
    js.create("QUIETLY")
    new_durable(js, "QUIETLY", "C")
    new_durable(js, "QUIETLY", "PAUSED", pause_until="2100-01-01T00:00:00Z")
    answer, data, _ = backup(js, "QUIETLY")
    js.api("STREAM.DELETE.QUIETLY")
    watch = js.watch(session, f"{EVENTS}CONSUMER.>")
    restore(js, "QUIETLY", answer["config"], data)
    new_durable(js, "QUIETLY", "LAST")
    return watch.next()
