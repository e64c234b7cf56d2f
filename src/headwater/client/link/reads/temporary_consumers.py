"""Consumers that a read or a count makes for itself, in memory, and deletes when it is done."""

from collections.abc import Sequence

from headwater.client.api.requests import Document


def temporary_consumer(
    name: str, first: int, inactive_ns: int, filters: Sequence[str] = ()
) -> Document:
    """The configuration of a consumer of the messages from sequence `first` on.

    The server deletes it if for `inactive_ns` nobody asks it: its maker may be gone by then.
    """
    config: Document = {
        "name": name,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": first,
        "ack_policy": "none",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": inactive_ns,
    }
    if len(filters) == 1:
        config["filter_subject"] = filters[0]
    elif filters:
        config["filter_subjects"] = list(filters)
    return config
