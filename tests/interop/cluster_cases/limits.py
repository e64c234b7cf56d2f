"""Limits of accounts across the servers, and the usage that is told.

The account TIGHT has 300,000 bytes of files, 100,000 of memory, three streams, two consumers each.
"""

from typing import Any

from tests.interop.cluster_case import ClusterCatalogue
from tests.interop.masks import is_count
from tests.interop.observation import Mask, Observation
from tests.interop.stage import REPLICAS, Client, Stage

catalogue = ClusterCatalogue()

TIGHT = "tight"
API_COUNTS = (
    Mask("**.api.total", is_count, "counts the requests of all cases"),
    Mask("**.api.errors", is_count, "counts the requests of all cases"),
)


def emptied(stage: Stage, number: int = 0) -> Client:
    """A client of the account, which has no streams, and whose usage is told as none."""
    client = stage.client(number, TIGHT)
    for name in client.api("STREAM.NAMES")["streams"] or ():
        client.api(f"STREAM.DELETE.{name}")
    usage_when(client, storage=0, memory=0, streams=0)
    return client


def usage_when(client: Client, **awaited: int) -> dict[str, Any]:
    """INFO of the account once it has these values, which servers tell each other in time."""
    seen: dict[str, Any] = {}

    def holds() -> bool:
        seen["info"] = client.api("INFO")
        return all(seen["info"].get(key) == value for key, value in awaited.items())

    client.wait_until(holds)
    found: dict[str, Any] = seen["info"]
    return found


@catalogue.case(masks=API_COUNTS)
def limits_are_told_by_every_server(stage: Stage) -> Observation:
    """INFO of an account has its limits, whichever server is asked."""
    emptied(stage)
    return [client.api("INFO") for client in stage.everywhere(TIGHT)]


@catalogue.case(masks=API_COUNTS)
def usage_counts_every_replica(stage: Stage) -> Observation:
    """The bytes of a message count once for each replica."""
    client = emptied(stage)
    client.create("USED", num_replicas=3, max_bytes=10_000)
    client.create("USED-ONE", num_replicas=1, max_bytes=10_000)
    one = client.publish("USED-ONE.a", "x" * 100)
    client.publish("USED.a", "x" * 100)
    bytes_once = client.state("USED")["bytes"]
    bytes_one = client.state("USED-ONE")["bytes"]
    info = usage_when(client, storage=bytes_once * REPLICAS + bytes_one)
    return [one, bytes_once, bytes_one, info]


@catalogue.case()
def reservations_count_every_replica(stage: Stage) -> Observation:
    """`max_bytes` of a stream is reserved once for each replica."""
    client = emptied(stage)
    replies = [
        client.create("RESERVED", num_replicas=3, max_bytes=100_001),
        client.create("RESERVED", num_replicas=3, max_bytes=100_000),
        client.create("RESERVED-MORE", num_replicas=1, max_bytes=1),
    ]
    return [reply.get("error", "made") for reply in replies]


@catalogue.case()
def reservations_in_memory(stage: Stage) -> Observation:
    """Memory is reserved once for each replica too."""
    client = emptied(stage, 1)
    replies = [
        client.create("RESERVED-M", num_replicas=3, max_bytes=33_334, storage="memory"),
        client.create("RESERVED-M", num_replicas=3, max_bytes=33_333, storage="memory"),
        client.create("RESERVED-M2", num_replicas=1, max_bytes=2, storage="memory"),
    ]
    return [reply.get("error", "made") for reply in replies]


@catalogue.case()
def a_scale_up_needs_room(stage: Stage) -> Observation:
    """Replicas that an update adds are reserved for."""
    client = emptied(stage, 2)
    client.create("GROWN", num_replicas=1, max_bytes=150_000)
    reply = client.update("GROWN", num_replicas=3, max_bytes=150_000)
    return [reply.get("error", "updated")]


@catalogue.case()
def a_limit_grows_no_further_than_the_servers(stage: Stage) -> Observation:
    """An update of `max_bytes` beyond the room of the servers is refused, and changes nothing."""
    client = stage.client()
    replies = []
    for storage in ("file", "memory"):
        for replicas in (1, REPLICAS):
            stream = f"GROWING-{storage}-{replicas}"
            shape = {"num_replicas": replicas, "storage": storage}
            replies.append(client.create(stream, **shape, max_bytes=1000))
            replies += [
                client.update(stream, **shape, max_bytes=size) for size in (10_000_000_000, 2000)
            ]
            limit = client.api(f"STREAM.INFO.{stream}")["config"]["max_bytes"]
            replies.append({"error": limit})
            client.api(f"STREAM.DELETE.{stream}")
    return [reply.get("error", "done") for reply in replies]


@catalogue.case()
def the_number_of_streams_is_limited(stage: Stage) -> Observation:
    """Streams of an account are counted once, made through any server."""
    emptied(stage)
    replies = []
    for number in range(4):
        client = stage.client(number % REPLICAS, TIGHT)
        replies.append(client.create(f"COUNTED-{number}", num_replicas=3, max_bytes=1000))
    return [reply.get("error", "made") for reply in replies]


@catalogue.case()
def the_number_of_consumers_is_limited(stage: Stage) -> Observation:
    """Consumers of a stream are counted once, made through any server."""
    emptied(stage)
    replies = [stage.client(0, TIGHT).create("CONSUMED", num_replicas=3, max_bytes=1000)]
    for number in range(3):
        client = stage.client(number, TIGHT)
        body = {"stream_name": "CONSUMED", "config": {"durable_name": f"C{number}"}}
        replies.append(client.api(f"CONSUMER.CREATE.CONSUMED.C{number}", body))
    return [reply.get("error", "made") for reply in replies]


@catalogue.case()
def publishes_beyond_the_limit_of_an_account(stage: Stage) -> Observation:
    """A publish is refused when the servers have told each other that an account is full."""
    client = emptied(stage)
    client.create("FULL", num_replicas=3)
    acks: list[dict[str, Any]] = []

    def is_refused() -> bool:
        acks.append(client.publish("FULL.a", "x" * 4_000))
        return "error" in acks[-1]

    client.wait_until(is_refused)
    return [acks[-1].get("error", "accepted")]


@catalogue.case()
def a_removed_stream_frees_its_room(stage: Stage) -> Observation:
    """Room that a stream had is there for the next one at once."""
    client = emptied(stage)
    replies = []
    for number in range(4):
        stream = f"FREED-{number}"
        replies.append(client.create(stream, num_replicas=3, max_bytes=90_000))
        replies.append(client.api(f"STREAM.DELETE.{stream}"))
    return [reply.get("error", "done") for reply in replies]


@catalogue.case(masks=API_COUNTS)
def streams_and_consumers_are_counted(stage: Stage) -> Observation:
    """INFO of an account counts streams and consumers of all servers once."""
    client = emptied(stage)
    client.create("COUNTED-A", num_replicas=3, max_bytes=1000)
    client.create("COUNTED-B", num_replicas=1, max_bytes=1000)
    body = {"stream_name": "COUNTED-A", "config": {"durable_name": "C"}}
    client.api("CONSUMER.CREATE.COUNTED-A.C", body)
    return [each.api("INFO") for each in stage.everywhere(TIGHT)]
