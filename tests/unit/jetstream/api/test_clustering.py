"""The server that a request names."""

from headwater.jetstream.api.cluster_documents import peer_id
from headwater.jetstream.api.clustering import find_server


def test_a_server_is_named_by_its_name_or_its_short_id() -> None:
    names = ["s1", "s2"]
    assert find_server("s2", names) == "s2"
    assert find_server(peer_id("s2"), names) == "s2"
    assert find_server("other", names) == "other"
