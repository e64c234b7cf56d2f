"""Placement: the servers that a stream may have, and the reasons when there are too few.

A line of the table is a stream that is asked for; its answer is all that is compared.
"""

from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

from tests.interop.cluster_case import FEW_GROUPS, STANDARD, UNIQUE_TAG, ClusterCatalogue
from tests.interop.observation import Observation
from tests.interop.stage import REPLICAS, Stage
from tests.kit.server_process import Setup

catalogue = ClusterCatalogue()


@dataclass(frozen=True)
class Line:
    """A stream of the table."""

    name: str
    statement: str
    replicas: int = 3
    placement: dict[str, Any] | None = None
    setup: Setup = STANDARD
    config: dict[str, Any] = field(default_factory=dict)


def ask(stage: Stage, line: Line) -> Observation:
    """The answer to a create, and where the stream is then."""
    stream = f"PLACED-{line.name}"
    client = stage.client(crc32(line.name.encode()) % REPLICAS)
    client.api(f"STREAM.DELETE.{stream}")
    config = {"num_replicas": line.replicas, **line.config}
    if line.placement is not None:
        config["placement"] = line.placement
    made = client.create(stream, **config)
    if "error" in made:
        return made
    info = stage.settled(stream)
    client.api(f"STREAM.DELETE.{stream}")
    return {"made": made["config"], "cluster": info["cluster"]}


LINES: Final = (
    Line("zero", "No replicas asked for is one.", 0),
    Line("two", "Two replicas are kept.", 2),
    Line("four", "Four replicas need four servers.", 4),
    Line("five", "Five replicas need five servers.", 5),
    Line("six", "Five replicas are the most.", 6),
    Line("negative", "The number of replicas is not negative.", -1),
    Line("a_tag", "A tag names the servers that have it.", 3, {"tags": ["ssd"]}),
    Line("a_tag_in_capitals", "Tags have no case.", 3, {"tags": ["SSD"]}),
    Line("a_tag_of_one", "A tag of one server places one replica.", 1, {"tags": ["node:s2"]}),
    Line("a_tag_of_too_few", "A tag has to name enough.", 3, {"tags": ["node:s2"]}),
    Line("a_tag_of_two", "A tag of two servers places two.", 2, {"tags": ["zone:left"]}),
    Line("a_tag_of_none", "A tag may name no server.", 1, {"tags": ["tape"]}),
    Line("two_tags", "A server needs every tag.", 1, {"tags": ["ssd", "node:s3"]}),
    Line("a_tag_against", "A tag may be ruled out.", 2, {"tags": ["!node:s1"]}),
    Line("a_tag_against_all", "All may be ruled out.", 1, {"tags": ["!ssd"]}),
    Line("a_tag_against_too_many", "Enough have to remain.", 3, {"tags": ["!node:s1"]}),
    Line("for_and_against", "Both count.", 1, {"tags": ["zone:left", "!node:s1"]}),
    Line("an_empty_tag", "An empty tag names nobody.", 1, {"tags": [""]}),
    Line("a_lone_mark", "A mark without a tag rules nobody out.", 3, {"tags": ["!"]}),
    Line("no_tags", "An empty list of tags says nothing.", 3, {"tags": []}),
    Line("the_cluster", "The cluster may be named.", 3, {"cluster": "trio"}),
    Line("another_cluster", "An unknown cluster has no servers.", 1, {"cluster": "elsewhere"}),
    Line("nothing", "An empty placement says nothing.", 3, {}),
    Line("preferred", "A stream prefers no server.", 1, {"preferred": "s2"}),
    Line(
        "too_large",
        "A stream that no server has room for is not placed.",
        3,
        config={"max_bytes": 2_000_000_000},
    ),
    Line(
        "too_large_in_memory",
        "Memory is room of its own.",
        1,
        config={"max_bytes": 500_000_000, "storage": "memory"},
    ),
    Line("unique", "Replicas differ in the unique tag.", 2, setup=UNIQUE_TAG),
    Line("unique_of_too_few", "Too few differ in the unique tag.", 3, setup=UNIQUE_TAG),
    Line(
        "unique_and_a_tag",
        "A tag of the unique kind is meant as it is said: replicas may share it.",
        2,
        {"tags": ["zone:left"]},
        UNIQUE_TAG,
    ),
    Line("unique_alone", "One replica is always unique.", 1, setup=UNIQUE_TAG),
)

for each in LINES:

    def script(stage: Stage, line: Line = each) -> Observation:
        return ask(stage, line)

    catalogue.add(f"placed_{each.name}", each.statement, script, setup=each.setup)


@catalogue.case(setup=FEW_GROUPS)
def groups_of_a_server_are_limited(stage: Stage) -> Observation:
    """A server with `max_ha_assets` groups gets no more replicas, but streams of one replica."""
    client = stage.client()
    for name in ("FEW-1", "FEW-2", "FEW-3", "FEW-4", "FEW-R1"):
        client.api(f"STREAM.DELETE.{name}")
    made = []
    for name in ("FEW-1", "FEW-2", "FEW-3", "FEW-4"):
        reply = client.create(name, num_replicas=3)
        made.append(reply.get("error", "made"))
        if "error" not in reply:
            stage.settled(name)
    one = client.create("FEW-R1", num_replicas=1)
    for name in ("FEW-1", "FEW-2", "FEW-3", "FEW-4", "FEW-R1"):
        client.api(f"STREAM.DELETE.{name}")
    return {"made": made, "one": one.get("error", "made")}


@catalogue.case()
def placement_is_updated(stage: Stage) -> Observation:
    """A stream of one replica goes to the server that its new placement names."""
    stage.make("MOVED", num_replicas=1, placement={"tags": ["node:s1"]})
    client = stage.client(1)
    client.fill("MOVED.a", "MOVED.b")
    reply = client.update("MOVED", num_replicas=1, placement={"tags": ["node:s3"]})
    after = stage.settled("MOVED", leader="s3")
    state = after["state"]
    return {"reply": reply.get("error", "updated"), "after": after["cluster"], "state": state}


@catalogue.case()
def placement_is_updated_to_nowhere(stage: Stage) -> Observation:
    """An update to a placement without servers is refused, and the stream stays."""
    stage.make("STAYS", num_replicas=1, placement={"tags": ["node:s1"]})
    client = stage.client(2)
    reply = client.update("STAYS", num_replicas=1, placement={"tags": ["tape"]})
    return {"reply": reply, "config": stage.settled("STAYS")["config"]}
