"""The settings of a server by which streams are placed: its description, and the leader's rules.

Each server tells its own description to the meta group, again after a reload that changes its tags.
The rules are those of the server that leads the meta group. On a server of its own they have no
effect.

A server with streams has one tag of its own besides those of its configuration: `sync:always`, or
`sync:` and the interval. So a stream can be placed on servers that sync alike, and the leader of a
stream knows how the other servers sync.
"""

from typing import Final

from headwater.go.durations import format_seconds
from headwater.jetstream.meta.placement import PlacementRules
from headwater.jetstream.meta.records import SYNC_TAG, TAGS_MAX, ServerDescribed
from headwater.server.configuration.options import Options

SYNC_ALWAYS: Final = "always"


def describe_server(
    options: Options, memory_bytes_max: int, storage_bytes_max: int
) -> ServerDescribed:
    """The server of these options; the sizes are the ones in force, which options may leave open.

    Tags beyond the limit of a record are left out.
    """
    own = (SYNC_TAG + sync_text(options),) if options.jetstream.enabled else ()
    tags = tuple(tag for tag in options.server_tags if tag not in own)
    return ServerDescribed(
        options.server_name,
        options.cluster.name,
        (*tags[: TAGS_MAX - len(own)], *own),
        max(memory_bytes_max, 0),
        max(storage_bytes_max, 0),
        options.jetstream.enabled,
    )


def sync_text(options: Options) -> str:
    """The longest time that written bytes wait for a sync: `always`, or a duration as `2m0s`."""
    jetstream = options.jetstream
    return SYNC_ALWAYS if jetstream.sync_always else format_seconds(jetstream.sync_interval_s)


def placement_rules(options: Options) -> PlacementRules:
    """The rules by which a server places streams while it leads the meta group."""
    jetstream = options.jetstream
    return PlacementRules(jetstream.unique_tag, max(jetstream.max_ha_assets, 0))
