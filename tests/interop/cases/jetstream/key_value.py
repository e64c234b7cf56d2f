"""Key-value buckets: a stream per bucket and a subject per key, as clients use them.

The first cases send what clients send; the later ones are whole programs of nats-py. Watching and
history through consumers are left to the cases of consumers.
"""

import contextlib

from nats.aio.client import Client
from nats.js.api import KeyValueConfig, StorageType
from nats.js.errors import NotFoundError
from nats.js.kv import KeyValue

from tests.interop.case import Catalogue
from tests.interop.cases.nats_py import connect, refusal, run
from tests.interop.jetstream import DOMAIN, JETSTREAM, JetStreamClient
from tests.interop.messages import contents, contents_in_time, direct_batch, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

SECOND_NS = 1_000_000_000
EXPECT = "Nats-Expected-Last-Subject-Sequence"
DELETED = {"KV-Operation": "DEL"}
PURGED = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}

catalogue = Catalogue(JETSTREAM)


def bucket(session: Session, name: str, **config: object) -> JetStreamClient:
    """A client and a bucket with the settings clients give to theirs."""
    settings: dict[str, object] = {
        "subjects": [f"$KV.{name}.>"],
        "max_msgs_per_subject": 1,
        "discard": "new",
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_direct": True,
    }
    return with_stream(session, f"KV_{name}", **{**settings, **config})


async def fresh_bucket(client: Client, **config: object) -> KeyValue:
    """A new bucket through nats-py, whatever an earlier run left."""
    js = client.jetstream()
    with contextlib.suppress(NotFoundError):
        await js.delete_key_value(str(config["bucket"]))
    return await js.create_key_value(KeyValueConfig(**config))  # type: ignore[arg-type]


@catalogue.case("js.kv.put-get")
def put_get(session: Session) -> Observation:
    """A value is put by a publish to its key's subject and read by that subject."""
    js = bucket(session, "put")
    acks = [js.ack_text("$KV.put.name", value) for value in ("one", "two")]
    return [acks, js.direct("KV_put.$KV.put.name"), js.direct("KV_put.$KV.put.none")]


@catalogue.case("js.kv.keys")
def keys(session: Session) -> Observation:
    """Keys may be deep and odd."""
    js = bucket(session, "keys")
    names = ("a.b.c", "a/b", "k=v", "-_", "UPPER", "gr\u00fc\u00df")
    acks = [js.ack_text(f"$KV.keys.{name}", name) for name in names]
    return [acks, [js.direct(f"KV_keys.$KV.keys.{name}") for name in names]]


@catalogue.case("js.kv.create")
def create(session: Session) -> Observation:
    """A key is created only if it does not exist."""
    js = bucket(session, "create")
    return [js.ack_text("$KV.create.k", "v", {EXPECT: "0"}) for _ in range(2)]


@catalogue.case("js.kv.update")
def update(session: Session) -> Observation:
    """A key is updated from the revision that was seen."""
    js = bucket(session, "update")
    js.fill("$KV.update.k", "$KV.update.other")
    return [js.ack_text("$KV.update.k", "v", {EXPECT: seq}) for seq in ("2", "1", "1", "3")]


@catalogue.case("js.kv.delete")
def delete(session: Session) -> Observation:
    """A deleted key leaves a tombstone, from which it may be created again."""
    js = bucket(session, "delete")
    js.fill("$KV.delete.k")
    ack = js.ack_text("$KV.delete.k", "", DELETED)
    seen: list[Observation] = [ack, js.direct("KV_delete.$KV.delete.k")]
    acks = [js.ack_text("$KV.delete.k", "again", {EXPECT: seq}) for seq in ("0", "2")]
    return [seen, acks, js.direct("KV_delete.$KV.delete.k")]


@catalogue.case("js.kv.history")
def history(session: Session) -> Observation:
    """A bucket with history keeps so many values per key, deletes among them."""
    js = bucket(session, "history", max_msgs_per_subject=3)
    for value in range(4):
        js.fill("$KV.history.k", payload=str(value))
    js.ack_text("$KV.history.k", "", DELETED)
    request = {"next_by_subj": "$KV.history.k", "batch": 10}
    return direct_batch(js, "KV_history", request)


@catalogue.case("js.kv.purge")
def purge(session: Session) -> Observation:
    """A purge takes the history of a key away and leaves its mark."""
    js = bucket(session, "purge", max_msgs_per_subject=5)
    js.fill("$KV.purge.k", "$KV.purge.k", "$KV.purge.other", "$KV.purge.k")
    return [js.ack_text("$KV.purge.k", "", PURGED), contents(js, "KV_purge")]


@catalogue.case("js.kv.revision")
def revision(session: Session) -> Observation:
    """A value may be read by its revision as long as it is kept."""
    js = bucket(session, "revision", max_msgs_per_subject=2)
    for value in "abc":
        js.fill("$KV.revision.k", payload=value)
    return [js.direct("KV_revision", {"seq": seq}) for seq in (1, 2, 3)]


@catalogue.case("js.kv.many-keys")
def many_keys(session: Session) -> Observation:
    """All keys and values are read with one request."""
    js = bucket(session, "many")
    js.fill("$KV.many.a", "$KV.many.b", "$KV.many.a", "$KV.many.c")
    js.ack_text("$KV.many.b", "", DELETED)
    return direct_batch(js, "KV_many", {"multi_last": ["$KV.many.>"]})


@catalogue.case("js.kv.keys-by-info")
def keys_by_info(session: Session) -> Observation:
    """Keys are counted by the subjects of the stream."""
    js = bucket(session, "info", max_msgs_per_subject=2)
    js.fill("$KV.info.a", "$KV.info.b", "$KV.info.a")
    return js.state("KV_info", subjects_filter="$KV.info.>")


@catalogue.case("js.kv.message-delete-denied")
def message_delete_denied(session: Session) -> Observation:
    """Single messages of a bucket cannot be deleted."""
    js = bucket(session, "deny")
    js.fill("$KV.deny.a")
    return js.api("STREAM.MSG.DELETE.KV_deny", {"seq": 1})


@catalogue.case("js.kv.full")
def full(session: Session) -> Observation:
    """A full bucket refuses new keys; a key that is there takes new values."""
    js = bucket(session, "full", max_bytes=100)
    return [js.ack_text(f"$KV.full.{key}", "x" * 20) for key in "aaab"]


@catalogue.case("js.kv.ttl")
def ttl(session: Session) -> Observation:
    """A key created with a TTL ends in a marker that says why."""
    js = bucket(session, "ttl", allow_msg_ttl=True, subject_delete_marker_ttl=3600 * SECOND_NS)
    ack = js.ack_text("$KV.ttl.k", "v", {EXPECT: "0", "Nats-TTL": "1"})
    return [ack, contents_in_time(js, "KV_ttl", last_seq=2)]


@catalogue.case("js.kv.purge-ttl")
def purge_ttl(session: Session) -> Observation:
    """The mark of a purge with a TTL leaves in time."""
    js = bucket(session, "purgettl", allow_msg_ttl=True, max_msgs_per_subject=5)
    js.fill("$KV.purgettl.k", "$KV.purgettl.k", "$KV.purgettl.other")
    js.ack_text("$KV.purgettl.k", "", {**PURGED, "Nats-TTL": "1s"})
    return contents_in_time(js, "KV_purgettl", messages=1)


@catalogue.case("js.kv.domain", setup=DOMAIN)
def domain(session: Session) -> Observation:
    """Through the prefix of a domain keys are put and read."""
    js = bucket(session, "hub")
    return [
        js.ack_text("$JS.hub.API.$KV.hub.k", "v"),
        js.request("$JS.hub.API.DIRECT.GET.KV_hub.$KV.hub.k"),
    ]


@catalogue.case("js.kv.client-values")
def client_values(session: Session) -> Observation:
    """nats-py puts, gets, and gets by revision."""

    async def script() -> Observation:
        client = await connect(session, [])
        kv = await fresh_bucket(client, bucket="pyvalues", history=5)
        revisions = [await kv.put("a", b"one"), await kv.put("b", b""), await kv.put("a", b"two")]
        entries = [await kv.get("a"), await kv.get("b"), await kv.get("a", revision=1)]
        missing = [
            await refusal(kv.get("none")),
            await refusal(kv.get("a", revision=2)),
            await refusal(kv.get("a", revision=9)),
        ]
        await client.close()
        seen = [[e.bucket, e.key, (e.value or b"").decode(), e.revision] for e in entries]
        return [revisions, seen, missing]

    return run(script)


@catalogue.case("js.kv.client-revisions")
def client_revisions(session: Session) -> Observation:
    """nats-py creates and updates, and tells which revision was in the way."""

    async def script() -> Observation:
        client = await connect(session, [])
        kv = await fresh_bucket(client, bucket="pyrevisions")
        seen: list[Observation] = [await kv.create("a", b"one")]
        seen.append(await refusal(kv.create("a", b"again")))
        seen.append(await kv.update("a", b"two", last=1))
        seen.append(await refusal(kv.update("a", b"three", last=1)))
        await kv.delete("a")
        seen.append(await refusal(kv.get("a")))
        seen.append(await kv.create("a", b"after"))
        seen.append(await refusal(kv.delete("a", last=1)))
        await client.close()
        return seen

    return run(script)


@catalogue.case("js.kv.client-purge")
def client_purge(session: Session) -> Observation:
    """nats-py purges a key; only its mark is left."""

    async def script() -> Observation:
        client = await connect(session, [])
        kv = await fresh_bucket(client, bucket="pypurge", history=10)
        for value in (b"1", b"2", b"3"):
            await kv.put("k", value)
        before = (await kv.status()).values
        await kv.purge("k")
        after = await kv.status()
        error = await refusal(kv.get("k"))
        await client.close()
        return [before, after.values, error]

    return run(script)


@catalogue.case("js.kv.client-status")
def client_status(session: Session) -> Observation:
    """nats-py reports the status of a bucket."""

    async def script() -> Observation:
        client = await connect(session, [])
        kv = await fresh_bucket(
            client, bucket="pystatus", history=7, ttl=60, storage=StorageType.MEMORY
        )
        await kv.put("a", b"1")
        status = await kv.status()
        config = status.stream_info.config
        await client.close()
        return {
            "values": status.values,
            "history": status.history,
            "ttl": status.ttl,
            "bucket": status.bucket,
            "duplicate_window": config.duplicate_window,
            "storage": str(config.storage),
            "subjects": config.subjects,
        }

    return run(script)


@catalogue.case("js.kv.client-buckets")
def client_buckets(session: Session) -> Observation:
    """nats-py finds no bucket before it is made, and none after it is deleted."""

    async def script() -> Observation:
        client = await connect(session, [])
        js = client.jetstream()
        await fresh_bucket(client, bucket="pybucket")
        again = await js.key_value("pybucket")
        await again.put("a", b"1")
        deleted = await js.delete_key_value("pybucket")
        errors = [
            await refusal(js.key_value("pybucket")),
            await refusal(js.delete_key_value("pybucket")),
            await refusal(again.get("a")),
        ]
        await client.close()
        return [deleted, errors]

    return run(script)


@catalogue.case("js.kv.client-ttl")
def client_ttl(session: Session) -> Observation:
    """nats-py creates a key with a TTL, and the bucket tells of its markers."""

    async def script() -> Observation:
        client = await connect(session, [])
        kv = await fresh_bucket(client, bucket="pyttl", limit_marker_ttl=120)
        revision = await kv.create("a", b"1", msg_ttl=3600)
        message = await client.jetstream().get_msg("KV_pyttl", 1)
        status = await kv.status()
        await client.close()
        return [revision, dict(message.headers or {}), status.marker_ttl]

    return run(script)
