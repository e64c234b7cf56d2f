"""The settings of a consumer.

The API has two fields for filters, one for a single subject and one for several; the table knows
the second only. `listed` brings a configuration that came from the API into that form, `sendable`
brings it back.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from headwater.cli.shell.settings import Config, Kind, Setting, SettingsTable
from headwater.cli.shell.units import NANOSECONDS_PER_SECOND

# The defaults of the server.
ACK_WAIT_NS: Final = 30 * NANOSECONDS_PER_SECOND
MAX_ACK_PENDING: Final = 1000
MAX_WAITING: Final = 512

# The policy of a consumer that is created here without one; the default of the API is none.
DEFAULT_ACK_POLICY: Final = "explicit"
# Under these policies a message has no acknowledgement of its own.
UNACKNOWLEDGED: Final = ("none", "flow_control")

# Which policy an option implies, by the option's key.
IMPLIED_DELIVER_POLICIES: Final = {
    "opt_start_seq": "by_start_sequence",
    "opt_start_time": "by_start_time",
}


class Section(StrEnum):
    """The sections of help texts and of `info`."""

    GENERAL = "General"
    DELIVERY = "What is delivered"
    ACKS = "Acknowledgements"
    PULL = "Pull"
    PUSH = "Push"
    PRIORITY = "Priority groups"


_GENERAL: Final = (
    Setting("description", "--description", Kind.TEXT, Section.GENERAL, "Description",
            "What the consumer is for."),
    Setting("num_replicas", "--replicas", Kind.COUNT, Section.GENERAL, "Replicas",
            "On how many servers it is kept.  [default: as its stream]"),
    Setting("mem_storage", "--memory/--no-memory", Kind.SWITCH, Section.GENERAL, "In memory",
            "Keep its state in memory.", is_for_add_only=True),
    Setting("inactive_threshold", "--inactive-threshold", Kind.DURATION, Section.GENERAL,
            "Removed when inactive for", "Remove it after this long without use.", zero="never"),
    Setting("pause_until", "--pause-until", Kind.UNTIL, Section.GENERAL, "Pause until",
            "Deliver nothing before: a time, or in how long.", is_for_add_only=True),
    Setting("metadata", "--metadata", Kind.METADATA, Section.GENERAL, "Metadata",
            "KEY=VALUE, one by one; edit keeps the others."),
)  # fmt: skip

_DELIVERY: Final = (
    Setting("filter_subjects", "--filter", Kind.WORDS, Section.DELIVERY, "Filter",
            "Only these subjects, with commas or one by one.  [default: all]"),
    Setting("deliver_policy", "--deliver", Kind.CHOICE, Section.DELIVERY, "From",
            "Where to begin.  [default all]",
            ("all", "new", "last", "last_per_subject", "by_start_sequence", "by_start_time"),
            is_always_shown=True, is_for_add_only=True),
    Setting("opt_start_seq", "--start-seq", Kind.COUNT, Section.DELIVERY, "From sequence",
            "Begin with this sequence.", is_for_add_only=True),
    Setting("opt_start_time", "--start-time", Kind.SINCE, Section.DELIVERY, "From time",
            "Begin at a time, or how long ago: 2h30m.", is_for_add_only=True),
    Setting("replay_policy", "--replay", Kind.CHOICE, Section.DELIVERY, "Replay",
            "original: as far apart as they were stored.", ("instant", "original"),
            is_always_shown=True, is_for_add_only=True),
    Setting("headers_only", "--headers-only/--with-bodies", Kind.SWITCH, Section.DELIVERY,
            "Headers only", "Headers, and the size of the body."),
    Setting("sample_freq", "--sample", Kind.TEXT, Section.DELIVERY, "Sampling",
            "Publish a metric for so many acknowledgements: 10%."),
)  # fmt: skip

_ACKS: Final = (
    Setting("ack_policy", "--ack", Kind.CHOICE, Section.ACKS, "Policy",
            f"What is acknowledged: each message, or all up to one.  "
            f"[default {DEFAULT_ACK_POLICY}]",
            ("none", "all", "explicit", "flow_control"), is_always_shown=True,
            is_for_add_only=True),
    Setting("ack_wait", "--ack-wait", Kind.DURATION, Section.ACKS, "Wait",
            "Deliver again what is not acknowledged by then.", default=ACK_WAIT_NS,
            is_always_shown=True),
    Setting("backoff", "--backoff", Kind.DURATIONS, Section.ACKS, "Backoff",
            "Waits for one delivery after the other: 1s,10s,1m."),
    Setting("max_deliver", "--max-deliver", Kind.LIMIT, Section.ACKS, "Deliveries",
            "Most deliveries of a message; -1 is unlimited.", is_always_shown=True),
    Setting("max_ack_pending", "--max-ack-pending", Kind.LIMIT, Section.ACKS, "Acks pending",
            "Most unacknowledged messages; more are held back.", default=MAX_ACK_PENDING,
            is_always_shown=True),
)  # fmt: skip

_PULL: Final = (
    Setting("max_waiting", "--max-waiting", Kind.COUNT, Section.PULL, "Waiting requests",
            "Most requests that wait at a time.", default=MAX_WAITING, is_always_shown=True,
            is_for_add_only=True),
    Setting("max_batch", "--max-batch", Kind.COUNT, Section.PULL, "Batch",
            "Most messages of one request."),
    Setting("max_expires", "--max-expires", Kind.DURATION, Section.PULL, "Expiry",
            "Longest wait of one request."),
    Setting("max_bytes", "--max-bytes", Kind.SIZE, Section.PULL, "Bytes",
            "Most bytes of one request."),
)  # fmt: skip

_PUSH: Final = (
    Setting("deliver_subject", "--deliver-subject", Kind.TEXT, Section.PUSH, "To",
            "Push messages to this subject instead of being asked for them."),
    Setting("deliver_group", "--deliver-group", Kind.TEXT, Section.PUSH, "Group",
            "Share them in this queue group."),
    Setting("idle_heartbeat", "--heartbeat", Kind.DURATION, Section.PUSH, "Heartbeat",
            "Give a sign of life this often.", is_for_add_only=True),
    Setting("flow_control", "--flow-control/--no-flow-control", Kind.SWITCH, Section.PUSH,
            "Flow control", "Wait for the receiver to keep up; needs --heartbeat.",
            is_for_add_only=True),
    Setting("rate_limit_bps", "--rate-limit", Kind.COUNT, Section.PUSH, "Rate limit",
            "Most bits per second."),
)  # fmt: skip

_PRIORITY: Final = (
    Setting("priority_policy", "--priority-policy", Kind.CHOICE, Section.PRIORITY, "Policy",
            "How requests of a group are served.",
            ("none", "overflow", "pinned_client", "prioritized")),
    Setting("priority_groups", "--priority-group", Kind.WORDS, Section.PRIORITY, "Groups",
            "The groups that may ask."),
    Setting("priority_timeout", "--priority-timeout", Kind.DURATION, Section.PRIORITY, "Pinned for",
            "Unpin a client that is silent this long."),
)  # fmt: skip

SETTINGS: Final = SettingsTable((*_GENERAL, *_DELIVERY, *_ACKS, *_PULL, *_PUSH, *_PRIORITY))


def listed(config: Mapping[str, Any]) -> Config:
    """A configuration with its filters in one field, however it had them."""
    form = {key: value for key, value in config.items() if key != "filter_subject"}
    if single := config.get("filter_subject"):
        form["filter_subjects"] = [single]
    return form


def sendable(config: Mapping[str, Any]) -> Config:
    """A configuration with its filters in the field that the API takes for their number."""
    form = {key: value for key, value in config.items() if key != "filter_subjects"}
    filters = config.get("filter_subjects") or []
    if len(filters) == 1:
        form["filter_subject"] = filters[0]
    elif filters:
        form["filter_subjects"] = filters
    return form


def completed(config: Mapping[str, Any], name: str | None, is_ephemeral: bool) -> Config:
    """The configuration of a new consumer, with what its name implies.

    A configuration with a `name` and no `durable_name` is that of an ephemeral one already.
    """
    form = dict(config)
    is_ephemeral = is_ephemeral or bool(form.get("name") and not form.get("durable_name"))
    name = name or form.get("durable_name") or form.get("name")
    for field in ("name", "durable_name"):
        form.pop(field, None)
    if name:
        form["name"] = name
        if not is_ephemeral:
            form["durable_name"] = name
    form.setdefault("ack_policy", DEFAULT_ACK_POLICY)
    return form


def with_implied(given: Mapping[str, Any]) -> Config:
    """The options that were given, and what they imply: a place to begin is a policy."""
    policies = [policy for key, policy in IMPLIED_DELIVER_POLICIES.items() if key in given]
    return {"deliver_policy": policies[0], **given} if policies else dict(given)


def is_push(config: Mapping[str, Any]) -> bool:
    """Whether the consumer sends on its own account."""
    return bool(config.get("deliver_subject"))


def is_durable(config: Mapping[str, Any]) -> bool:
    """Whether a consumer stays while no client uses it."""
    return bool(config.get("durable_name"))
