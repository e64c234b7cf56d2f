"""The cases of JetStream, one module per topic; those in `TOPICS` run.

`all_cases` of the package above finds `catalogue` here, as it finds it in a module.
"""

import importlib

from tests.interop.case import Catalogue

TOPICS: tuple[str, ...] = (
    "account",
    "acks",
    "advisories",
    "batches",
    "buffered",
    "configurations",
    "consumer_acks",
    "consumer_create",
    "consumer_create_errors",
    "consumer_flow",
    "consumer_info",
    "consumer_num_pending",
    "consumer_pause",
    "consumer_priority",
    "consumer_pull",
    "consumer_pull_statuses",
    "consumer_push",
    "consumer_redelivery",
    "consumer_replay",
    "consumer_restart",
    "consumer_update",
    "conventions",
    "copy_origins",
    "counters",
    "create",
    "dedupe",
    "direct_batches",
    "direct_get",
    "expected",
    "fast_batches",
    "info",
    "js_configuration",
    "json_bodies",
    "key_value",
    "limits",
    "messages",
    "mirror_errors",
    "mirror_reads",
    "mirrors",
    "monitoring",
    "names",
    "object_store",
    "publish_limits",
    "purge",
    "republish",
    "retention_interest",
    "retention_workqueue",
    "rollups",
    "schedules",
    "snapshots",
    "source_errors",
    "sources",
    "topologies",
    "topology_changes",
    "transforms",
    "ttl",
    "update",
)
"""The topics the server under test is held to, by the names of their modules."""

catalogue = Catalogue()
for topic in TOPICS:
    catalogue.cases += importlib.import_module(f"{__name__}.{topic}").catalogue.cases
