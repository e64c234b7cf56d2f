"""The settings of a server by which streams are placed: its description, and the leader's rules.

Each server tells its own description to the meta group, again after a reload that changes its tags.
The rules are those of the server that leads the meta group. On a server of its own they have no
effect.
"""

from headwater.jetstream.meta.placement import PlacementRules
from headwater.jetstream.meta.records import TAGS_MAX, ServerDescribed
from headwater.server.configuration.options import Options


def describe_server(
    options: Options, memory_bytes_max: int, storage_bytes_max: int
) -> ServerDescribed:
    """The server of these options; the sizes are the ones in force, which options may leave open.

    Tags beyond the limit of a record are left out.
    """
    return ServerDescribed(
        options.server_name,
        options.cluster.name,
        options.server_tags[:TAGS_MAX],
        max(memory_bytes_max, 0),
        max(storage_bytes_max, 0),
        options.jetstream.enabled,
    )


def placement_rules(options: Options) -> PlacementRules:
    """The rules by which a server places streams while it leads the meta group."""
    jetstream = options.jetstream
    return PlacementRules(jetstream.unique_tag, max(jetstream.max_ha_assets, 0))
