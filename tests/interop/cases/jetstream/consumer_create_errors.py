"""CONSUMER.CREATE refused: by limits of servers, accounts and streams, and by an API level.

Rules about one request and its answer are lines of the recorded table; see `configurations`.
"""

from tests.interop.case import Catalogue
from tests.interop.consumers import (
    create_consumer,
)
from tests.interop.jetstream import (
    ACCOUNTS,
    JETSTREAM,
    LAX,
    RESOURCES,
    JetStreamClient,
    jetstream,
    login,
    with_jetstream,
)
from tests.interop.messages import with_stream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

LEVEL = "Nats-Required-Api-Level"
PUSH: dict[str, object] = {"deliver_subject": "refused.out"}
LIMITS = "max_ack_pending: 50, max_request_batch: 20, default_max_consumers: 2"
LIMITED_SERVER = with_jetstream(f"{RESOURCES}, limits {{ {LIMITS} }}")


def told(js: JetStreamClient, stream: str, **config: object) -> Observation:
    """The error of a create, None if there is none; the consumer does not stay."""
    error: Observation = create_consumer(js, stream, "TOLD", None, **config).get("error")
    js.api(f"CONSUMER.DELETE.{stream}.TOLD")
    return error


@catalogue.case("js.consumer.lax.unknown-field", setup=LAX)
def unknown_field_lax(session: Session) -> Observation:
    """A server that is not strict passes fields by that it does not know."""
    js = with_stream(session, "LAX-FIELD")
    body = {"stream_name": "LAX-FIELD", "colour": "red", "config": {"name": "C", "colour": "red"}}
    reply = js.api("CONSUMER.CREATE.LAX-FIELD.C", body)
    return {"config": reply.get("config")}


@catalogue.case("js.consumer.error.api-level")
def api_level(session: Session) -> Observation:
    """A level the server does not have is told after bad JSON and before all the rest."""
    js = with_stream(session, "CONSUMER-LEVEL")
    call = "CONSUMER.CREATE.CONSUMER-LEVEL.C"
    good = {"stream_name": "CONSUMER-LEVEL", "config": {"name": "C"}}
    return {
        "garbage": js.api(call, "garbage", {LEVEL: "99"}),
        "other stream": js.api(call, {"stream_name": "OTHER"}, {LEVEL: "99"}),
        "bad config": js.api(call, {**good, "config": {"ack_wait": -1}}, {LEVEL: "x"}),
        "had": js.api(call, good, {LEVEL: "1"}),
    }


@catalogue.case("js.consumer.error.no-account", setup=ACCOUNTS)
def no_account(session: Session) -> Observation:
    """An account without JetStream has no consumers."""
    js = jetstream(session, **login("without"))
    body = {"stream_name": "S", "config": {"name": "C"}}
    return js.api("CONSUMER.CREATE.S.C", body)


@catalogue.case("js.consumer.error.account-limits", setup=ACCOUNTS)
def account_limits(session: Session) -> Observation:
    """An account limits the acks pending of a consumer and the consumers of a stream."""
    js = jetstream(session, "TIGHT-ONE", **login("tight"))
    made = js.create("TIGHT-ONE", max_bytes=1000)
    assert "error" not in made, made
    return {
        "acks": create_consumer(js, "TIGHT-ONE", "A", ack_policy="explicit", max_ack_pending=11),
        "default": create_consumer(js, "TIGHT-ONE", "B", ack_policy="explicit"),
        "second": create_consumer(js, "TIGHT-ONE", "C", ack_policy="explicit"),
        "first again": create_consumer(js, "TIGHT-ONE", "B", ack_policy="explicit"),
    }


@catalogue.case("js.consumer.error.stream-limit")
def stream_limit(session: Session) -> Observation:
    """A stream limits its consumers; one that is deleted makes room, a direct one takes none."""
    js = with_stream(session, "STREAM-LIMIT", max_consumers=1)
    direct = {"direct": True, "deliver_subject": "stream-limit.out"}
    js.api("CONSUMER.CREATE.STREAM-LIMIT.D", {"stream_name": "STREAM-LIMIT", "config": direct})
    first = create_consumer(js, "STREAM-LIMIT", "A").get("error")
    second = create_consumer(js, "STREAM-LIMIT", "B")
    js.api("CONSUMER.DELETE.STREAM-LIMIT.A")
    third = create_consumer(js, "STREAM-LIMIT", "B").get("error")
    return {"first": first, "second": second, "third": third}


@catalogue.case("js.consumer.error.server-limit", setup=LIMITED_SERVER)
def server_limit(session: Session) -> Observation:
    """The server's limit of consumers per stream is for streams that have none of their own."""
    js = with_stream(session, "SERVER-LIMIT")
    js.api("STREAM.DELETE.OWN-LIMIT")
    js.create("OWN-LIMIT", max_consumers=3)
    return {
        stream: [create_consumer(js, stream, name).get("error") for name in "ABCD"]
        for stream in ("SERVER-LIMIT", "OWN-LIMIT")
    }
