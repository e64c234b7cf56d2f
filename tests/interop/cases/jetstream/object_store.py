"""Object stores: chunks and their descriptions in one stream, as clients use them.

The first cases send what clients send; the later ones are whole programs of nats-py. Reading whole
objects goes through consumers and is left to their cases.
"""

import base64
import contextlib
import hashlib
import json

from nats.aio.client import Client
from nats.js.api import ObjectMeta, ObjectMetaOptions
from nats.js.errors import NotFoundError
from nats.js.object_store import ObjectStore

from tests.interop.case import Catalogue
from tests.interop.cases.nats_py import connect, refusal, run
from tests.interop.jetstream import JETSTREAM, JetStreamClient
from tests.interop.messages import contents, direct_batch, with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

CHUNK_BYTES = 128 * 1024

catalogue = Catalogue(JETSTREAM)


def store(session: Session, name: str) -> JetStreamClient:
    """A client and a store with the settings clients give to theirs."""
    return with_stream(
        session,
        f"OBJ_{name}",
        subjects=[f"$O.{name}.C.>", f"$O.{name}.M.>"],
        discard="new",
        allow_rollup_hdrs=True,
        allow_direct=True,
    )


def meta_subject(name: str, key: str) -> str:
    return f"$O.{name}.M.{base64.urlsafe_b64encode(key.encode()).decode()}"


async def fresh_store(client: Client, name: str) -> ObjectStore:
    """A new store through nats-py, whatever an earlier run left."""
    js = client.jetstream()
    with contextlib.suppress(NotFoundError):
        await js.delete_object_store(name)
    return await js.create_object_store(name)


@catalogue.case("js.object.chunks")
def chunks(session: Session) -> Observation:
    """Chunks are messages to a subject of their object, and are read back in a batch."""
    js = store(session, "chunks")
    whole = bytes(range(256)) * 1024
    pieces = [whole[at : at + CHUNK_BYTES] for at in range(0, len(whole), CHUNK_BYTES)]
    acks = [js.ack_text("$O.chunks.C.nuid", piece) for piece in pieces]
    read = direct_batch(js, "OBJ_chunks", {"next_by_subj": "$O.chunks.C.nuid", "batch": 100})
    data = "".join(str(message["data"]) for message in read).encode("latin-1")
    digests = [hashlib.sha256(each).hexdigest() for each in (whole, data)]
    return [acks, [message["headers"] for message in read], digests]


@catalogue.case("js.object.meta")
def meta(session: Session) -> Observation:
    """The description of an object takes the place of the one before."""
    js = store(session, "meta")
    subject = meta_subject("meta", "file.txt")
    rollup = {"Nats-Rollup": "sub"}
    acks = [
        js.ack_text(subject, json.dumps({"name": "file.txt", "size": size}), rollup)
        for size in (1, 2)
    ]
    return [acks, contents(js, "OBJ_meta"), js.direct(f"OBJ_meta.{subject}")]


@catalogue.case("js.object.purge-chunks")
def purge_chunks(session: Session) -> Observation:
    """The chunks of one object are purged by their subject."""
    js = store(session, "purge")
    js.fill("$O.purge.C.old", "$O.purge.C.new", "$O.purge.C.old", "$O.purge.M.meta")
    return [js.api("STREAM.PURGE.OBJ_purge", {"filter": "$O.purge.C.old"}), js.state("OBJ_purge")]


@catalogue.case("js.object.descriptions")
def descriptions(session: Session) -> Observation:
    """All descriptions are read with one request."""
    js = store(session, "list")
    js.fill("$O.list.C.x", "$O.list.M.a", "$O.list.M.b")
    return direct_batch(js, "OBJ_list", {"multi_last": ["$O.list.M.>"]})


@catalogue.case("js.object.seal")
def seal(session: Session) -> Observation:
    """A sealed store takes no chunks, and cannot be purged."""
    js = store(session, "seal")
    js.fill("$O.seal.C.x")
    js.update("OBJ_seal", subjects=["$O.seal.C.>", "$O.seal.M.>"], discard="new", sealed=True)
    return [
        js.ack_text("$O.seal.C.x", "more"),
        js.api("STREAM.PURGE.OBJ_seal", {"filter": "$O.seal.C.x"}),
    ]


@catalogue.case("js.object.client-put")
def client_put(session: Session) -> Observation:
    """nats-py puts an object and finds its description, chunks and digest."""

    async def script() -> Observation:
        client = await connect(session, [])
        objects = await fresh_store(client, "pyput")
        meta = ObjectMeta(description="a file", options=ObjectMetaOptions(max_chunk_size=1000))
        await objects.put("file", b"x" * 2500, meta=meta)
        await objects.put("empty", b"")
        found = [await objects.get_info("file"), await objects.get_info("empty")]
        error = await refusal(objects.get_info("none"))
        size = (await objects.status()).size
        await client.close()
        seen = [[o.name, o.description, o.size, o.chunks, o.digest, o.deleted] for o in found]
        return [seen, error, size > 0]

    return run(script)


@catalogue.case("js.object.client-overwrite")
def client_overwrite(session: Session) -> Observation:
    """nats-py puts an object again: the old chunks are gone."""

    async def script() -> Observation:
        client = await connect(session, [])
        objects = await fresh_store(client, "pyagain")
        await objects.put("file", b"old" * 100)
        await objects.put("file", b"new")
        state = (await client.jetstream().stream_info("OBJ_pyagain")).state
        await client.close()
        return [state.messages, state.last_seq]

    return run(script)


@catalogue.case("js.object.client-delete")
def client_delete(session: Session) -> Observation:
    """nats-py deletes an object: its description says so, its chunks are gone."""

    async def script() -> Observation:
        client = await connect(session, [])
        objects = await fresh_store(client, "pydelete")
        await objects.put("file", b"data")
        await objects.delete("file")
        left = await objects.get_info("file", show_deleted=True)
        errors = [await refusal(objects.get_info("file")), await refusal(objects.delete("none"))]
        messages = (await client.jetstream().stream_info("OBJ_pydelete")).state.messages
        await client.close()
        return [[left.name, left.size, left.chunks, left.deleted], errors, messages]

    return run(script)


@catalogue.case("js.object.client-update")
def client_update(session: Session) -> Observation:
    """nats-py changes the description of an object, but not of one that is missing."""

    async def script() -> Observation:
        client = await connect(session, [])
        objects = await fresh_store(client, "pyupdate")
        await objects.put("one", b"1")
        await objects.update_meta("one", ObjectMeta(name="one", description="new"))
        found = await objects.get_info("one")
        missing = await refusal(objects.update_meta("two", ObjectMeta(name="two")))
        state = (await client.jetstream().stream_info("OBJ_pyupdate")).state
        await client.close()
        return [[found.name, found.description, found.size], missing, state.messages]

    return run(script)


@catalogue.case("js.object.client-seal")
def client_seal(session: Session) -> Observation:
    """nats-py seals a store, after which it takes nothing."""

    async def script() -> Observation:
        client = await connect(session, [])
        objects = await fresh_store(client, "pyseal")
        await objects.put("file", b"data")
        await objects.seal()  # type: ignore[no-untyped-call]
        sealed = (await objects.status()).sealed
        error = await refusal(objects.put("more", b"data"))
        await client.close()
        return [sealed, error]

    return run(script)
