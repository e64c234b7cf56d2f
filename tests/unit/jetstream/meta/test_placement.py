"""Placement: suitable servers, the least loaded of them, and nats-server's reasons for a refusal.

The texts are those of three nats-server 2.15.1 in a cluster `trio`, with the tags of `TRIO` and
`max_file: 1G`: each request of `REFUSALS` was sent as a STREAM.CREATE, and the description of the
error 10005 noted. nats-server lists several tags in an order that changes; here they are in the
order of servers and tags. It gave R1 to a server that was killed a minute before, and no answer: a
majority of online servers is a rule of its later sources.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.jetstream.config.stream_config import Placement, Storage, StreamConfig
from headwater.jetstream.errors import ApiError
from headwater.jetstream.meta.placement import (
    Candidates,
    PlacementRequest,
    PlacementRules,
    ServerState,
    choose_leader,
    place,
    request_for,
)
from tests.kit.meta_values import CLUSTER, GIB

NONE = "no suitable peers for placement"
BIG = 2 * GIB


def server(name: str, *tags: str, **values: Any) -> ServerState:
    whole = ServerState(name, CLUSTER, tags, memory_bytes_max=GIB // 4, storage_bytes_max=GIB)
    return whole._replace(**values)


TRIO = [server("s1", "az:a", "ssd"), server("s2", "az:a"), server("s3", "az:b", "hdd")]
NO_RULES = PlacementRules()
UNIQUE = PlacementRules(unique_tag="az:")


def asked(replicas: int, *tags: str, **values: Any) -> PlacementRequest:
    request = PlacementRequest(replicas, CLUSTER, replicas > 1, tags=tags)
    return request._replace(**values)


def refusal(
    request: PlacementRequest, servers: list[ServerState], rules: PlacementRules = NO_RULES
) -> str:
    with pytest.raises(ApiError) as caught:
        place(request, Candidates(servers, rules))
    assert (caught.value.code, caught.value.err_code) == (400, 10005)
    return caught.value.description


REFUSALS = [
    (asked(4), NONE),
    (asked(5), NONE),
    (asked(1, "x"), NONE + ", tags not matched ['x']"),
    (asked(1, "x", "y"), NONE + ", tags not matched ['x']"),
    (asked(1, "ssd", "y"), NONE + ", tags not matched ['y', 'ssd']"),
    (asked(3, "y", "x"), NONE + ", tags not matched ['y']"),
    (asked(3, "ssd"), NONE + ", tags not matched ['ssd']"),
    (asked(3, "!ssd"), NONE + ", tags excluded ['ssd']"),
    (asked(3, "!SSD"), NONE + ", tags excluded ['SSD']"),
    (asked(3, "!ssd", "!hdd"), NONE + ", tags excluded ['ssd', 'hdd']"),
    (asked(3, "!ssd", "hdd"), NONE + ", tags not matched ['hdd'], tags excluded ['ssd']"),
    (asked(1, ""), NONE + ", tags not matched ['']"),
    (asked(1, cluster="other"), NONE),
    (asked(1, "x", cluster="other"), NONE),
    (asked(1, bytes_max=BIG), NONE + ", insufficient storage"),
    (asked(3, bytes_max=BIG), NONE + ", insufficient storage"),
    (asked(3, bytes_max=BIG, storage=Storage.MEMORY), NONE + ", insufficient storage"),
    (asked(1, "x", bytes_max=BIG), NONE + ", tags not matched ['x']"),
    (asked(1, "ssd", bytes_max=BIG), NONE + ", insufficient storage, tags not matched ['ssd']"),
    (asked(4, "x"), NONE + ", tags not matched ['x']"),
    (asked(5, "!ssd"), NONE + ", tags excluded ['ssd']"),
]


@pytest.mark.parametrize(("request_", "text"), REFUSALS)
def test_a_refusal_has_the_reasons_of_nats_server(request_: PlacementRequest, text: str) -> None:
    assert refusal(request_, TRIO) == text


ALIKE = [
    server("s1", "az:a", "ssd"),
    server("s2", "az:a"),
    server("s3", "az:b", "hdd", "!jetstream"),
]


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (asked(3), NONE + ", exclude tag set, server tag not unique"),
        (asked(2), NONE + ", exclude tag set, server tag not unique"),
        (asked(1, "hdd"), NONE + ", exclude tag set, tags not matched ['hdd']"),
        (asked(3, "x"), NONE + ", exclude tag set, tags not matched ['x']"),
        (
            asked(3, "ssd", bytes_max=BIG),
            NONE + ", exclude tag set, insufficient storage, tags not matched ['ssd']",
        ),
    ],
)
def test_excluded_and_similar_servers_are_reasons(request_: PlacementRequest, text: str) -> None:
    assert refusal(request_, ALIKE, UNIQUE) == text


def test_a_server_without_a_unique_tag_is_not_unique() -> None:
    servers = [server("s1", "az:a"), server("s2", "az:b"), server("s3", "hdd")]
    assert refusal(asked(3), servers, UNIQUE) == NONE + ", server tag not unique"
    assert {*place(asked(2), Candidates(servers, UNIQUE))} == {"s1", "s2"}
    text = NONE + ", server tag not unique, tags not matched ['hdd']"
    assert refusal(asked(1, "hdd"), servers, UNIQUE) == text


@pytest.mark.parametrize("tag", ["az:a", "!az:b"])
def test_a_placement_that_names_a_unique_tag_asks_for_similar_servers(tag: str) -> None:
    assert {*place(asked(2, tag), Candidates(ALIKE, UNIQUE))} == {"s1", "s2"}


def test_the_least_loaded_server_of_each_unique_tag_is_chosen() -> None:
    servers = [
        server("s1", "az:a", ha_assets=9),
        server("s2", "az:a", ha_assets=2),
        server("s3", "az:b", ha_assets=5),
    ]
    assert place(asked(2), Candidates(servers, UNIQUE)) == ("s2", "s3")


def test_a_server_with_too_many_replicated_streams_gets_no_further_one() -> None:
    rules = PlacementRules(max_ha_assets=2)
    servers = [server(name, ha_assets=2) for name in ("s1", "s2", "s3")]
    assert refusal(asked(3), servers, rules) == NONE + ", miscellaneous issue"
    assert len(place(asked(1), Candidates(servers, rules))) == 1
    assert refusal(asked(1, "x"), servers, rules) == NONE + ", tags not matched ['x']"
    one_less = [server(name, ha_assets=1) for name in ("s1", "s2", "s3")]
    assert len(place(asked(3), Candidates(one_less, rules))) == 3


def test_servers_without_jetstream_are_not_chosen() -> None:
    apart = [server("s1", is_jetstream=False)]
    assert refusal(asked(1), apart) == NONE + ", jetstream not enabled in cluster"
    assert refusal(asked(1), []) == NONE + ", jetstream not enabled in cluster"
    assert refusal(asked(2), [*apart, server("s2")]) == NONE


@pytest.mark.parametrize("tag", ["ssd", "SSD", " ssd", "sSd "])
def test_case_and_blanks_of_a_tag_have_no_meaning(tag: str) -> None:
    assert place(asked(1, tag), Candidates(TRIO)) == ("s1",)


def test_an_exclamation_mark_alone_excludes_no_server() -> None:
    assert len(place(asked(3, "!"), Candidates(TRIO))) == 3


# --- offline servers ---------------------------------------------------------------------------


def test_offline_servers_come_last_and_a_majority_is_online() -> None:
    servers = [server("s1", is_online=False), server("s2", ha_assets=9), server("s3", streams=9)]
    assert place(asked(1), Candidates(servers))[0] != "s1"
    assert {*place(asked(2), Candidates(servers))} == {"s2", "s3"}
    assert place(asked(3), Candidates(servers))[-1] == "s1"
    two_off = [server("s1", is_online=False), server("s2", is_online=False), server("s3")]
    assert refusal(asked(3), two_off) == NONE + ", peer offline"
    assert refusal(asked(1), two_off[:1]) == NONE + ", peer offline"


def test_a_server_that_was_never_heard_is_not_chosen() -> None:
    servers = [server("s1", was_heard=False, is_online=False), server("s2")]
    assert refusal(asked(2), servers) == NONE + ", peer offline"
    assert place(asked(1), Candidates(servers)) == ("s2",)


# --- load --------------------------------------------------------------------------------------


def test_a_replicated_stream_goes_to_servers_with_few_replicated_streams() -> None:
    servers = [
        server("s1", ha_assets=3, storage_bytes_max=9 * GIB),
        server("s2", ha_assets=1, streams=50),
        server("s3", ha_assets=2),
    ]
    assert place(asked(2), Candidates(servers)) == ("s2", "s3")


def test_a_single_replica_goes_to_the_server_with_the_most_room_then_the_fewest_streams() -> None:
    servers = [
        server("s1", storage_reserved=1),
        server("s2", streams=7),
        server("s3", streams=3, ha_assets=9),
    ]
    assert place(asked(1), Candidates(servers)) == ("s3",)
    full = [server("s1", storage_used=9), server("s2", storage_used=3), server("s3", memory_used=1)]
    assert place(asked(1), Candidates(full)) == ("s3",)
    assert place(asked(1, storage=Storage.MEMORY), Candidates(full[1:])) == ("s2",)


def test_room_is_what_is_neither_used_nor_reserved() -> None:
    half = GIB // 2
    for values in ({"storage_used": half}, {"storage_reserved": half}):
        servers = [server("s1", **values)]
        assert place(asked(1, bytes_max=half), Candidates(servers)) == ("s1",)
        text = refusal(asked(1, bytes_max=half + 1), servers)
        assert text == NONE + ", insufficient storage"
    assert server("s1", storage_used=BIG).available(Storage.FILE) == 0


def test_the_seed_breaks_ties_and_nothing_else_does() -> None:
    servers = [server(f"s{number}") for number in range(5)]
    chosen = {place(asked(1), Candidates(servers, seed=seed)) for seed in range(60)}
    assert len(chosen) == 5
    for seed in range(5):
        there = place(asked(3), Candidates(servers, seed=seed))
        assert there == place(asked(3), Candidates(servers[::-1], seed=seed))


# --- streams that have servers -----------------------------------------------------------------


def test_kept_servers_come_first_whether_or_not_they_are_suitable() -> None:
    request = asked(3, "!hdd", kept=("s3",))
    assert place(request, Candidates(TRIO))[0] == "s3"
    assert place(asked(2, "x", kept=("s3", "s1", "s2")), Candidates(TRIO)) == ("s3", "s1")
    assert refusal(asked(3, "hdd", kept=("s3",)), TRIO) == NONE + ", tags not matched ['hdd']"
    assert refusal(asked(4, kept=("s3",)), TRIO) == NONE


def test_a_kept_server_claims_its_unique_tag_unless_it_is_given_up() -> None:
    kept = asked(2, kept=("s1",))
    assert place(kept, Candidates(TRIO, UNIQUE)) == ("s1", "s3")
    text = refusal(kept, TRIO[:2], UNIQUE)
    assert text == NONE + ", server tag not unique"
    assert place(kept._replace(given_up=1), Candidates(TRIO[:2], UNIQUE)) == ("s1", "s2")


def test_ignored_servers_are_not_chosen() -> None:
    assert place(asked(2, kept=("s1",), ignored=("s2",)), Candidates(TRIO)) == ("s1", "s3")
    assert refusal(asked(3, kept=("s1",), ignored=("s2",)), TRIO) == NONE


def test_a_suitable_holder_stays_and_has_room_for_the_stream() -> None:
    servers = [
        server("s1", storage_reserved=GIB, ha_assets=2),
        server("s2", "hdd"),
        server("s3"),
    ]
    rules = PlacementRules(max_ha_assets=2)
    request = asked(2, "!hdd", holders=("s1", "s2"), bytes_max=GIB)
    assert place(request, Candidates(servers, rules)) == ("s1", "s3")


def test_a_request_follows_from_the_configuration() -> None:
    placement = Placement(cluster="c", tags=("x", "!y"))
    config = StreamConfig(
        name="S", num_replicas=3, storage=Storage.MEMORY, max_bytes=5, placement=placement
    )
    assert request_for(config, "other") == PlacementRequest(
        3, "c", True, Storage.MEMORY, 5, ("x", "!y")
    )
    plain = StreamConfig(name="S", num_replicas=1, max_bytes=-1)
    assert request_for(plain, "other") == PlacementRequest(1, "other")


# --- leaders -----------------------------------------------------------------------------------


def no_leader(placement: Placement, leader: str = "s1") -> str:
    with pytest.raises(ApiError) as caught:
        choose_leader(placement, leader, Candidates(TRIO))
    assert (caught.value.code, caught.value.err_code) == (400, 10005)
    return caught.value.description


def test_a_step_down_has_the_refusals_of_nats_server() -> None:
    text = 'preferred server "s1" is already leader'
    assert no_leader(Placement(preferred="s1")) == text
    assert no_leader(Placement(preferred="zz")) == 'preferred server "zz" not known'
    for placement in (
        Placement(tags=("zz",)),
        Placement(cluster="zz"),
        Placement(tags=("ssd",)),
        Placement(tags=("!ssd",)),
    ):
        assert no_leader(placement) == "no replacement peer connected"


def test_a_preferred_server_goes_before_tags() -> None:
    placement = Placement(preferred="s2", tags=("zz",))
    assert choose_leader(placement, "s1", Candidates(TRIO)) == "s2"


def test_a_leader_is_chosen_by_tags_among_online_members() -> None:
    assert choose_leader(Placement(tags=("HDD",)), "s1", Candidates(TRIO)) == "s3"
    assert choose_leader(None, "s1", Candidates(TRIO)) is None
    offline = [*TRIO[:2], TRIO[2]._replace(is_online=False)]
    assert choose_leader(Placement(), "s1", Candidates(offline)) == "s2"
    chosen = {choose_leader(Placement(), "s1", Candidates(TRIO, seed=seed)) for seed in range(8)}
    assert chosen == {"s2", "s3"}


# --- any cluster -------------------------------------------------------------------------------

TAGS = ("ssd", "az:a", "az:b", "az:c", "!jetstream")
SERVERS = st.lists(
    st.builds(
        lambda name, cluster, tags, *values: ServerState(
            str(name),
            cluster,
            tuple(tags),
            storage_bytes_max=values[0],
            storage_reserved=values[1],
            ha_assets=values[2],
            is_online=values[3],
            was_heard=values[4],
        ),
        st.integers(0, 9),
        st.sampled_from([CLUSTER, CLUSTER, CLUSTER, "other"]),
        st.lists(st.sampled_from(TAGS), max_size=2, unique=True),
        st.integers(0, 20),
        st.integers(0, 20),
        st.integers(0, 3),
        st.booleans(),
        st.booleans(),
    ),
    max_size=7,
    unique_by=lambda each: each.name,
)
TAG_LISTS = st.lists(st.sampled_from(["ssd", "!ssd", "az:a"]), max_size=2)


@given(
    st.integers(1, 5),
    st.integers(0, 10),
    TAG_LISTS,
    SERVERS,
    st.sampled_from(["", "az:"]),
    st.integers(0, 3),
    st.integers(0, 99),
)
def test_chosen_servers_keep_every_rule(
    replicas: int,
    bytes_max: int,
    tags: list[str],
    servers: list[ServerState],
    unique: str,
    most: int,
    seed: int,
) -> None:
    candidates = Candidates(servers, PlacementRules(unique, most), seed)
    try:
        chosen = place(asked(replicas, *tags, bytes_max=bytes_max), candidates)
    except ApiError:
        return
    assert len({*chosen}) == replicas
    found = [each for each in servers if each.name in chosen]
    assert sum(each.is_online for each in found) > replicas // 2
    for each in found:
        assert each.cluster == CLUSTER
        assert each.was_heard
        assert "!jetstream" not in each.tags
        assert bytes_max <= max(each.storage_bytes_max - each.storage_reserved, 0)
        assert replicas == 1 or not most or each.ha_assets < most
        for tag in tags:
            assert (tag in each.tags) if tag[0] != "!" else (tag[1:] not in each.tags)
    if unique and "az:a" not in tags:
        zones = [next(tag for tag in each.tags if tag.startswith("az:")) for each in found]
        assert len({*zones}) == len(zones)
