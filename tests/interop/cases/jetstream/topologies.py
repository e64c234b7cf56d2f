"""Topologies of key-value buckets: mirrors to read from, and aggregates of one or several buckets.

The streams are made as plain configurations; buckets are then used by nats-py as it is.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from nats.js.client import JetStreamContext
from nats.js.errors import KeyNotFoundError
from nats.js.kv import KeyValue

from tests.interop.case import Catalogue
from tests.interop.cases.nats_py import ANSWER_S_MAX, connect, refusal, run
from tests.interop.copies import (
    Config,
    copied,
    new_aggregate,
    new_mirror,
    sources_of,
    told,
)
from tests.interop.jetstream import JETSTREAM, JetStreamClient, jetstream
from tests.interop.messages import new_stream, state_in_time
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

Program = Callable[[JetStreamContext], Awaitable[Observation]]


def bucket_settings(**others: object) -> dict[str, object]:
    """The settings that clients give to the streams of their buckets."""
    return {
        "max_msgs_per_subject": 1,
        "discard": "new",
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_direct": True,
        **others,
    }


def read_only(**others: object) -> dict[str, object]:
    """The settings of a bucket that nobody writes to."""
    return bucket_settings(allow_rollup_hdrs=False, deny_purge=True, **others)


def new_bucket(js: JetStreamClient, name: str, **values: str) -> None:
    """A bucket with these values."""
    new_stream(js, f"KV_{name}", **bucket_settings(subjects=[f"$KV.{name}.>"]))
    for key, value in values.items():
        js.fill(f"$KV.{name}.{key}", payload=value)


def origin_bucket(name: str, target: str, keys: str = ">", stream: str = "") -> Config:
    """A bucket as a source of another one: its keys come under the other's name."""
    transform = {"src": f"$KV.{name}.{keys}", "dest": f"$KV.{target}.{keys}"}
    return {"name": stream or f"KV_{name}", "subject_transforms": [transform]}


def with_client(session: Session, program: Program) -> Observation:
    """The observations of a program of nats-py."""

    async def script() -> Observation:
        client = await connect(session, [])
        try:
            return await program(client.jetstream())
        finally:
            await client.close()

    return run(script)


async def values_of(bucket: KeyValue) -> dict[str, Any]:
    """The keys of a bucket with their values and revisions."""
    found = {}
    for key in sorted(await bucket.keys()):
        entry = await bucket.get(key)
        found[key] = [(entry.value or b"").decode(), entry.bucket, entry.operation]
    return found


@catalogue.case("js.topology.aggregate")
def aggregate(session: Session) -> Observation:
    """A read-only aggregate of one bucket is read under its own name by any client."""
    js = jetstream(session)
    new_bucket(js, "topone", a="1", b="2")
    made = new_aggregate(js, "KV_toponeagg", origin_bucket("topone", "toponeagg"), **read_only())
    state_in_time(js, "KV_toponeagg", messages=2)

    async def program(js: JetStreamContext) -> Observation:
        return await values_of(await js.key_value("toponeagg"))

    return [made, with_client(session, program), copied(js, "KV_toponeagg")]


@catalogue.case("js.topology.aggregate-refuses")
def aggregate_refuses(session: Session) -> Observation:
    """A read-only aggregate takes no put, no delete and no purge of a client."""
    js = jetstream(session)
    new_bucket(js, "topro", a="1")
    new_aggregate(js, "KV_toproagg", origin_bucket("topro", "toproagg"), **read_only())
    state_in_time(js, "KV_toproagg", messages=1)

    async def program(js: JetStreamContext) -> Observation:
        bucket = await js.key_value("toproagg")
        return [
            await refusal(bucket.put("b", b"2")),
            await refusal(bucket.delete("a")),
            await refusal(bucket.purge("a")),
        ]

    seen = with_client(session, program)
    return [seen, js.api("STREAM.PURGE.KV_toproagg")]


@catalogue.case("js.topology.aggregate-of-several")
def aggregate_of_several(session: Session) -> Observation:
    """An aggregate joins the keys of several buckets."""
    js = jetstream(session)
    new_bucket(js, "topeast", e="1", f="2")
    new_bucket(js, "topwest", w="3")
    origins = [origin_bucket(name, "topall") for name in ("topeast", "topwest")]
    new_aggregate(js, "KV_topall", *origins, **read_only())
    state_in_time(js, "KV_topall", messages=3)

    async def program(js: JetStreamContext) -> Observation:
        return await values_of(await js.key_value("topall"))

    return with_client(session, program)


@catalogue.case("js.topology.aggregate-of-keys")
def aggregate_of_keys(session: Session) -> Observation:
    """An aggregate may have a part of the keys of a bucket."""
    js = jetstream(session)
    new_bucket(js, "topkeys", **{"NEW.1": "1", "OLD.2": "2", "NEW.3": "3"})
    new_aggregate(js, "KV_topnew", origin_bucket("topkeys", "topnew", "NEW.>"), **read_only())
    state_in_time(js, "KV_topnew", messages=2)

    async def program(js: JetStreamContext) -> Observation:
        bucket = await js.key_value("topnew")
        return [await values_of(bucket), await refusal(bucket.get("OLD.2"))]

    return with_client(session, program)


@catalogue.case("js.topology.aggregate-writable")
def aggregate_writable(session: Session) -> Observation:
    """Values put into a writable aggregate are in it alone; the origin's next one replaces them."""
    js = jetstream(session)
    new_bucket(js, "toprw", a="1", b="2")
    settings = bucket_settings(subjects=["$KV.toprwagg.>"])
    new_aggregate(js, "KV_toprwagg", origin_bucket("toprw", "toprwagg"), **settings)
    state_in_time(js, "KV_toprwagg", messages=2)

    async def program(js: JetStreamContext) -> Observation:
        copy, origin = await js.key_value("toprwagg"), await js.key_value("toprw")
        revision = await copy.put("a", b"own")
        return [revision, await values_of(copy), await values_of(origin)]

    seen = with_client(session, program)
    js.fill("$KV.toprw.a", payload="again")
    return [seen, copied(js, "KV_toprwagg", last_seq=4)]


@catalogue.case("js.topology.aggregate-deletes")
def aggregate_deletes(session: Session) -> Observation:
    """Deletes and purges of keys reach the aggregate as marks."""
    js = jetstream(session)
    new_bucket(js, "topdel", a="1", b="2", c="3")
    new_aggregate(js, "KV_topdelagg", origin_bucket("topdel", "topdelagg"), **read_only())
    state_in_time(js, "KV_topdelagg", messages=3)

    async def delete(js: JetStreamContext) -> Observation:
        bucket = await js.key_value("topdel")
        return [await bucket.delete("a"), await bucket.purge("b")]

    async def program(js: JetStreamContext) -> Observation:
        return await values_of(await js.key_value("topdelagg"))

    deleted = with_client(session, delete)
    seen = copied(js, "KV_topdelagg", last_seq=5)
    return [deleted, seen, with_client(session, program)]


@catalogue.case("js.topology.aggregate-watch")
def aggregate_watch(session: Session) -> Observation:
    """A watcher of an aggregate sees what is put into the origin."""
    js = jetstream(session)
    new_bucket(js, "topwatch", a="1")
    new_aggregate(js, "KV_topwatchagg", origin_bucket("topwatch", "topwatchagg"), **read_only())
    state_in_time(js, "KV_topwatchagg", messages=1)

    async def program(js: JetStreamContext) -> Observation:
        watcher: Any = await (await js.key_value("topwatchagg")).watchall()
        seen: list[Observation] = []
        for value in (b"2", b"3"):
            await (await js.key_value("topwatch")).put("b", value)
        while len(seen) < 4:
            entry = await watcher.updates(timeout=ANSWER_S_MAX)
            seen.append(entry and [entry.key, entry.value.decode(), entry.operation])
        await watcher.stop()
        return [each for each in seen if each is not None]

    return with_client(session, program)


@catalogue.case("js.topology.aggregate-origin-added")
def aggregate_origin_added(session: Session) -> Observation:
    """An origin that is added at run time is read by clients that were there before."""
    js = jetstream(session)
    new_bucket(js, "topfirst", a="1")
    new_bucket(js, "topsecond", b="2")
    first, second = (origin_bucket(name, "topgrow") for name in ("topfirst", "topsecond"))
    new_aggregate(js, "KV_topgrow", first, **read_only())
    state_in_time(js, "KV_topgrow", messages=1)

    async def program(context: JetStreamContext) -> Observation:
        bucket = await context.key_value("topgrow")
        before = await values_of(bucket)
        updated = js.update(
            "KV_topgrow", **read_only(subjects=[], sources=sources_of(first, second))
        )
        state_in_time(js, "KV_topgrow", messages=2)
        return [before, updated.get("error"), await values_of(bucket)]

    return with_client(session, program)


@catalogue.case("js.topology.aggregate-of-mirror")
def aggregate_of_mirror(session: Session) -> Observation:
    """An aggregate of a mirror renames by the bucket's name, which the mirror's subjects keep."""
    js = jetstream(session)
    new_bucket(js, "topvia", a="1")
    new_mirror(js, "TOPVIA-M", "KV_topvia", **read_only(discard="old"))
    origin = origin_bucket("topvia", "topviaagg", stream="TOPVIA-M")
    new_aggregate(js, "KV_topviaagg", origin, **read_only())
    return copied(js, "KV_topviaagg", messages=1)


@catalogue.case("js.topology.mirror")
def mirror(session: Session) -> Observation:
    """A mirror of a bucket holds its keys; clients go on reading and writing the bucket."""
    js = jetstream(session)
    new_bucket(js, "topmir", a="1", b="2")
    made = new_mirror(js, "MIRROR_topmir", "KV_topmir", **read_only())
    state_in_time(js, "MIRROR_topmir", messages=2)

    async def program(js: JetStreamContext) -> Observation:
        bucket = await js.key_value("topmir")
        return [await values_of(bucket), await bucket.put("c", b"3")]

    seen = with_client(session, program)
    return [made, seen, copied(js, "MIRROR_topmir", last_seq=3)]


@catalogue.case("js.topology.mirror-read")
def mirror_read(session: Session) -> Observation:
    """The bucket and its mirror both answer reads of a key, and the header tells which did."""
    js = jetstream(session)
    new_bucket(js, "topalt", a="1")
    new_mirror(js, "MIRROR_topalt", "KV_topalt", **read_only())
    state_in_time(js, "MIRROR_topalt", messages=1)
    answered: set[str] = set()

    def has_answered() -> bool:
        headers = js.direct("KV_topalt.$KV.topalt.a")["headers"]
        answered.update(value for name, value in headers if name == "Nats-Stream")
        return len(answered) > 1

    js.wait_until(has_answered)
    return sorted(answered)


@catalogue.case("js.topology.mirror-of-keys")
def mirror_of_keys(session: Session) -> Observation:
    """A mirror may have a part of the keys, under the revisions of the bucket."""
    js = jetstream(session)
    new_bucket(js, "toppart", **{"NYC.1": "1", "LON.2": "2", "NYC.3": "3"})
    keys = {"filter_subject": "$KV.toppart.NYC.>"}
    new_mirror(js, "MIRROR_toppart", "KV_toppart", keys, **read_only())
    return copied(js, "MIRROR_toppart", messages=2)


@catalogue.case("js.topology.mirror-removed")
def mirror_removed(session: Session) -> Observation:
    """Mirrors come and go while a client reads, and it notices nothing."""
    js = jetstream(session)
    new_bucket(js, "toprun", a="1")

    async def program(context: JetStreamContext) -> Observation:
        bucket = await context.key_value("toprun")
        seen = [await values_of(bucket)]
        new_mirror(js, "MIRROR_toprun", "KV_toprun", **read_only())
        state_in_time(js, "MIRROR_toprun", messages=1)
        seen.append(await values_of(bucket))
        js.api("STREAM.DELETE.MIRROR_toprun")
        seen.append(await values_of(bucket))
        return seen

    return with_client(session, program)


@catalogue.case("js.topology.mirror-as-bucket")
def mirror_as_bucket(session: Session) -> Observation:
    """A mirror with the name of a bucket is opened as one; the keys are the origin's."""
    js = jetstream(session)
    new_bucket(js, "topdom", a="1")
    new_mirror(js, "KV_topdomcopy", "KV_topdom", **read_only())
    state_in_time(js, "KV_topdomcopy", messages=1)

    async def program(js: JetStreamContext) -> Observation:
        bucket = await js.key_value("topdomcopy")
        status = await bucket.status()
        return [status.values, await refusal(bucket.get("a")), await refusal(bucket.put("a", b""))]

    return with_client(session, program)


@catalogue.case("js.topology.promotion")
def promotion(session: Session) -> Observation:
    """A mirror takes the place of a bucket that is lost: clients find values and revisions."""
    js = jetstream(session)
    new_bucket(js, "toplost", a="1", b="2")
    new_mirror(js, "MIRROR_toplost", "KV_toplost", **bucket_settings())
    state_in_time(js, "MIRROR_toplost", messages=2)
    js.api("STREAM.DELETE.KV_toplost")
    updated = told(js.update("MIRROR_toplost", **bucket_settings(subjects=["$KV.toplost.>"])))
    acks = [js.ack_text("$KV.toplost.c", "3"), js.ack_text("$KV.toplost.a", "4")]
    found = copied(js, "MIRROR_toplost", messages=3)
    js.api("STREAM.DELETE.MIRROR_toplost")
    return [updated, acks, found]


@catalogue.case("js.topology.contradiction")
def contradiction(session: Session) -> Observation:
    """A bucket that denies purges allows no roll-ups: clients' settings are to be changed."""
    js = jetstream(session)
    new_bucket(js, "topcon")
    source = origin_bucket("topcon", "topconagg")
    made = new_aggregate(js, "KV_topconagg", source, **bucket_settings(deny_purge=True))
    return [made.get("error")]


@catalogue.case("js.topology.two-levels")
def two_levels(session: Session) -> Observation:
    """An aggregate of aggregates has the keys of all, each with its nearest origin."""
    js = jetstream(session)
    new_bucket(js, "topleaf", a="1")
    new_aggregate(js, "KV_topmid", origin_bucket("topleaf", "topmid"), **read_only())
    new_aggregate(js, "KV_toproot", origin_bucket("topmid", "toproot"), **read_only())
    return copied(js, "KV_toproot", messages=1)


@catalogue.case("js.topology.missing-key")
def missing_key(session: Session) -> Observation:
    """A key that no origin has is not found in an aggregate, as in any bucket."""
    js = jetstream(session)
    new_bucket(js, "topmiss", a="1")
    new_aggregate(js, "KV_topmissagg", origin_bucket("topmiss", "topmissagg"), **read_only())
    state_in_time(js, "KV_topmissagg", messages=1)

    async def program(js: JetStreamContext) -> Observation:
        bucket = await js.key_value("topmissagg")
        try:
            await bucket.get("none")
        except KeyNotFoundError as error:
            return str(error)
        return "found"

    return with_client(session, program)
