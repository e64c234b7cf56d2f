"""The settings by which streams are placed, as a file says them."""

import pytest

from headwater.jetstream.meta.placement import Candidates, PlacementRequest, ServerState, place
from headwater.jetstream.meta.records import TAGS_MAX, ServerDescribed
from headwater.server.configuration.keys import load_config
from headwater.server.configuration.options import Options
from headwater.server.configuration.placement_settings import describe_server, placement_rules

FILE = """
    server_name: s1, server_tags: ["AZ:A", "ssd ", "ssd"]
    cluster { name: trio, listen: "127.0.0.1:6222" }
    jetstream { max_file: 4K, unique_tag: " AZ:", limits { max_ha_assets: 7 } }
"""


def options(text: str) -> Options:
    return load_config("c", lambda _: text.encode(), {}).options


def test_a_server_is_described_by_its_settings_and_the_sizes_in_force() -> None:
    found = describe_server(options(FILE), 1024, 4096)
    assert found == ServerDescribed("s1", "trio", ("az:a", "ssd", "sync:2m0s"), 1024, 4096, True)
    assert found.sync == "2m0s"
    without = describe_server(options("server_name: s1"), 0, 0)
    assert (without.is_jetstream, without.tags, without.sync) == (False, (), "")


@pytest.mark.parametrize(
    ("setting", "told"), [("always", "always"), ("10s", "10s"), ('"1m30s"', "1m30s")]
)
def test_the_last_tag_of_a_server_tells_its_sync_interval(setting: str, told: str) -> None:
    text = f'server_tags: ["sync:always", "ssd"], jetstream {{ sync_interval: {setting} }}'
    found = describe_server(options(text), 0, 0)
    assert found.sync == told
    assert found.tags[-1] == f"sync:{told}"
    assert len(found.tags) == len({*found.tags})


def test_the_rules_of_placement_are_in_lower_case_and_match_the_tags_of_servers() -> None:
    rules = placement_rules(options(FILE))
    assert (rules.unique_tag, rules.max_ha_assets) == ("az:", 7)
    assert placement_rules(Options()) == ("", 0)
    tags = describe_server(options(FILE), 0, 0).tags
    servers = [ServerState("s1", "trio", tags), ServerState("s2", "trio", ("az:b",))]
    assert len(place(PlacementRequest(2, "trio"), Candidates(servers, rules))) == 2


def test_a_negative_limit_is_none() -> None:
    text = "jetstream { limits { max_ha_assets: -1 } }"
    assert placement_rules(options(text)).max_ha_assets == 0


def test_tags_beyond_the_limit_of_a_record_are_left_out() -> None:
    listed = ", ".join(f"t{number}" for number in range(TAGS_MAX + 1))
    found = describe_server(options(f"server_tags: [{listed}]"), 0, 0)
    assert len(found.tags) == TAGS_MAX
    found = describe_server(options(f"jetstream: true, server_tags: [{listed}]"), 0, 0)
    assert len(found.tags) == TAGS_MAX
    assert found.sync == "2m0s"
