"""Topologies of key-value buckets that change, or whose origin is named by a domain.

Buckets are used by nats-py as it is; a bucket object that was made before a change is used behind
it. A stream is made of plain configurations.
"""

from nats.js.client import JetStreamContext

from tests.interop.case import Catalogue
from tests.interop.cases.jetstream.topologies import (
    bucket_settings,
    new_bucket,
    origin_bucket,
    read_only,
    values_of,
    with_client,
)
from tests.interop.cases.nats_py import refusal
from tests.interop.copies import copied, new_aggregate, new_mirror, sources_of, told
from tests.interop.jetstream import DOMAIN, JETSTREAM, jetstream
from tests.interop.messages import state_in_time
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

HUB = {"api": "$JS.hub.API"}


@catalogue.case("js.topology.aggregate-of-mirror-read")
def aggregate_of_mirror_read(session: Session) -> Observation:
    """A client reads an aggregate of a mirror, and sees what is put into the first bucket."""
    js = jetstream(session)
    new_bucket(js, "tcvia", a="1")
    new_mirror(js, "TCVIA-M", "KV_tcvia", **read_only(discard="old"))
    origin = origin_bucket("tcvia", "tcviaagg", stream="TCVIA-M")
    new_aggregate(js, "KV_tcviaagg", origin, **read_only())
    state_in_time(js, "KV_tcviaagg", messages=1)

    async def program(context: JetStreamContext) -> Observation:
        bucket = await context.key_value("tcviaagg")
        before = await values_of(bucket)
        await (await context.key_value("tcvia")).put("b", b"2")
        state_in_time(js, "KV_tcviaagg", messages=2)
        return [before, await values_of(bucket)]

    return with_client(session, program)


@catalogue.case("js.topology.aggregate-origin-removed")
def aggregate_origin_removed(session: Session) -> Observation:
    """Values of an origin that is removed stay, and nothing more comes from it."""
    js = jetstream(session)
    new_bucket(js, "tcone", a="1")
    new_bucket(js, "tctwo", b="2")
    one, two = (origin_bucket(name, "tcless") for name in ("tcone", "tctwo"))
    new_aggregate(js, "KV_tcless", one, two, **read_only())
    state_in_time(js, "KV_tcless", messages=2)

    async def program(context: JetStreamContext) -> Observation:
        bucket = await context.key_value("tcless")
        updated = js.update("KV_tcless", **read_only(subjects=[], sources=sources_of(one)))
        js.fill("$KV.tctwo.c", payload="3")
        js.fill("$KV.tcone.d", payload="4")
        state_in_time(js, "KV_tcless", messages=3)
        return [updated.get("error"), await values_of(bucket)]

    return with_client(session, program)


@catalogue.case("js.topology.aggregate-of-keys-writable")
def aggregate_of_keys_writable(session: Session) -> Observation:
    """A writable aggregate of some keys takes any key of a client's own."""
    js = jetstream(session)
    new_bucket(js, "tcsome", **{"NEW.1": "1", "OLD.2": "2"})
    settings = bucket_settings(subjects=["$KV.tcsomeagg.>"])
    new_aggregate(js, "KV_tcsomeagg", origin_bucket("tcsome", "tcsomeagg", "NEW.>"), **settings)
    state_in_time(js, "KV_tcsomeagg", messages=1)

    async def program(context: JetStreamContext) -> Observation:
        bucket = await context.key_value("tcsomeagg")
        put = [await bucket.put("OLD.2", b"own"), await bucket.create("x", b"new")]
        return [put, await refusal(bucket.create("NEW.1", b"")), await values_of(bucket)]

    return with_client(session, program)


@catalogue.case("js.topology.promotion-of-a-copy")
def promotion_of_a_copy(session: Session) -> Observation:
    """A bucket that is lost comes back from its mirror: a bucket object of before finds the values
    under their revisions, and writes behind them."""
    js = jetstream(session)
    new_bucket(js, "tclost", a="1", b="2")
    new_mirror(js, "MIRROR_tclost", "KV_tclost", **bucket_settings())
    state_in_time(js, "MIRROR_tclost", messages=2)

    async def program(context: JetStreamContext) -> Observation:
        bucket = await context.key_value("tclost")
        before = (await bucket.get("b")).revision
        js.api("STREAM.DELETE.KV_tclost")
        lost = await refusal(bucket.put("c", b""))
        # A stream that mirrors the lost bucket cannot be mirrored under its name.
        js.update("MIRROR_tclost", **bucket_settings(subjects=["tclost.none"]))
        new_mirror(js, "KV_tclost", "MIRROR_tclost", **bucket_settings())
        state_in_time(js, "KV_tclost", messages=2)
        updated = told(js.update("KV_tclost", **bucket_settings(subjects=["$KV.tclost.>"])))
        put = [await bucket.put("c", b"3"), await bucket.update("b", b"4", before)]
        return [lost, updated.get("error"), put, await values_of(bucket)]

    seen = with_client(session, program)
    found = copied(js, "KV_tclost", messages=3)
    js.api("STREAM.DELETE.MIRROR_tclost")
    return [seen, found]


@catalogue.case("js.topology.domain-bucket", setup=DOMAIN)
def domain_bucket(session: Session) -> Observation:
    """In a domain a bucket is used through the prefix of the domain as through the plain one."""
    js = jetstream(session)
    new_bucket(js, "tchub", a="1")
    return [
        js.ack_text("$JS.hub.API.$KV.tchub.b", "2"),
        js.request("$JS.hub.API.DIRECT.GET.KV_tchub.$KV.tchub.b"),
        js.unanswered("$JS.other.API.$KV.tchub.c"),
        js.unanswered("$JS.other.API.STREAM.INFO.KV_tchub"),
        js.request("$JS.hub.API.INFO").get("domain"),
    ]


@catalogue.case("js.topology.domain-mirror", setup=DOMAIN)
def domain_mirror(session: Session) -> Observation:
    """Mirrors and sources that name a domain, as older clients make them, keep its prefix; those of
    a domain that is not there hear nothing and tell no error."""
    js = jetstream(session)
    new_bucket(js, "tcdom", a="1")
    own = new_mirror(js, "TCDOM-OWN", "KV_tcdom", {"external": HUB}, **read_only())
    far = {"external": {"api": "$JS.other.API", "deliver": "tcdom.deliver"}}
    other = new_mirror(js, "TCDOM-FAR", "KV_tcdom", far, **read_only())
    source = {**origin_bucket("tcdom", "tcdomagg"), "external": HUB}
    made = new_aggregate(js, "KV_tcdomagg", source, **read_only())
    plain = new_mirror(js, "TCDOM-API", "KV_tcdom", {"external": {"api": "$JS.API"}})
    found = js.api("STREAM.INFO.TCDOM-FAR")["state"]["messages"]
    for name in ("TCDOM-OWN", "TCDOM-FAR", "KV_tcdomagg"):
        js.api(f"STREAM.DELETE.{name}")
    return [own, other, made, plain, found]
