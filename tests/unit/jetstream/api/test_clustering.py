"""The successor that a step-down names, and the server that a request names."""

import pytest

from headwater.jetstream.api.cluster_documents import peer_id
from headwater.jetstream.api.clustering import GroupServer, choose_successor, find_server
from headwater.jetstream.config.stream_config import Placement
from headwater.jetstream.errors import ApiError

SERVERS = (
    GroupServer("s1", "C", ("fast", "east")),
    GroupServer("s2", "C", ("fast",), is_online=False),
    GroupServer("s3", "C", ("fast", "west")),
)


@pytest.mark.parametrize(
    ("placement", "chosen"),
    [
        (None, ""),
        (Placement(preferred="s3"), "s3"),
        (Placement(preferred="s2"), "s2"),
        (Placement(tags=(" Fast ",)), "s3"),
        (Placement(tags=("fast", "west")), "s3"),
        (Placement(cluster="C"), "s3"),
        (Placement(), "s3"),
    ],
)
def test_the_server_that_leads_next(placement: Placement | None, chosen: str) -> None:
    assert choose_successor(placement, "s1", SERVERS) == chosen


@pytest.mark.parametrize(
    "placement",
    [
        Placement(preferred="s1"),
        Placement(preferred="s4"),
        Placement(tags=("east",)),
        Placement(tags=("fast", "nowhere")),
        Placement(cluster="D"),
    ],
)
def test_a_placement_that_names_nobody(placement: Placement) -> None:
    with pytest.raises(ApiError) as caught:
        choose_successor(placement, "s1", SERVERS)
    assert caught.value.err_code == 10005


def test_a_server_is_named_by_its_name_or_its_short_id() -> None:
    names = ["s1", "s2"]
    assert find_server("s2", names) == "s2"
    assert find_server(peer_id("s2"), names) == "s2"
    assert find_server("other", names) == "other"
