"""The settings of a stream."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from headwater.cli.shell.settings import Config, Kind, Setting, SettingsTable


class Section(StrEnum):
    """The sections of help texts and of `info`."""

    GENERAL = "General"
    LIMITS = "Limits"
    PUBLISHING = "Publishing"
    ACCESS = "Reading and deleting"
    REPLICATION = "Mirrors, sources and other subjects"
    CONSISTENCY = "Consistency (Headwater only)"


_GENERAL: Final = (
    Setting("description", "--description", Kind.TEXT, Section.GENERAL, "Description",
            "What the stream is for."),
    Setting("subjects", "--subjects", Kind.WORDS, Section.GENERAL, "Subjects",
            "Subjects to keep, with commas or one by one.  [default: the name]",
            is_always_shown=True),
    Setting("storage", "--storage", Kind.CHOICE, Section.GENERAL, "Storage",
            "Where messages are kept.", ("file", "memory"), is_always_shown=True,
            is_for_add_only=True),
    Setting("compression", "--compression", Kind.CHOICE, Section.GENERAL, "Compression",
            "Compress what is stored.", ("none", "s2")),
    Setting("retention", "--retention", Kind.CHOICE, Section.GENERAL, "Retention",
            "When messages go: at the limits, when no consumer wants them, when one has them.",
            ("limits", "interest", "workqueue"), is_always_shown=True),
    Setting("num_replicas", "--replicas", Kind.COUNT, Section.GENERAL, "Replicas",
            "On how many servers it is kept.", default=1, is_always_shown=True),
    Setting("placement.cluster", "--cluster", Kind.TEXT, Section.GENERAL, "Placement cluster",
            "In which cluster."),
    Setting("placement.tags", "--tag", Kind.WORDS, Section.GENERAL, "Placement tags",
            "On servers with these tags."),
    Setting("persist_mode", "--persist-mode", Kind.CHOICE, Section.GENERAL, "Persist mode",
            "async: confirm before the message is on its way to the disk.",
            ("default", "async"), is_for_add_only=True),
    Setting("first_seq", "--first-seq", Kind.COUNT, Section.GENERAL, "First sequence",
            "Number the messages from here.", is_for_add_only=True),
    Setting("metadata", "--metadata", Kind.METADATA, Section.GENERAL, "Metadata",
            "KEY=VALUE, one by one; edit keeps the others."),
)  # fmt: skip

_LIMITS: Final = (
    Setting("max_msgs", "--max-msgs", Kind.LIMIT, Section.LIMITS, "Messages",
            "Most messages; -1 is unlimited.", is_always_shown=True),
    Setting("max_msgs_per_subject", "--max-msgs-per-subject", Kind.LIMIT, Section.LIMITS,
            "Messages per subject", "Most messages of one subject.", is_always_shown=True),
    Setting("max_bytes", "--max-bytes", Kind.SIZE, Section.LIMITS, "Size",
            "Most bytes: 1048576, 10MB, 1.5GiB, unlimited.", is_always_shown=True),
    Setting("max_age", "--max-age", Kind.DURATION, Section.LIMITS, "Age",
            "Oldest message: 90s, 2h30m, 7d; 0 is unlimited.", zero="unlimited",
            is_always_shown=True),
    Setting("max_msg_size", "--max-msg-size", Kind.SIZE, Section.LIMITS, "Message size",
            "Largest message.", is_always_shown=True),
    Setting("max_consumers", "--max-consumers", Kind.LIMIT, Section.LIMITS, "Consumers",
            "Most consumers.", is_always_shown=True),
    Setting("discard", "--discard", Kind.CHOICE, Section.LIMITS, "At a limit, discard",
            "At a limit: drop the oldest message, or refuse the new one.", ("old", "new"),
            is_always_shown=True),
    Setting("discard_new_per_subject", "--discard-new-per-subject/--no-discard-new-per-subject",
            Kind.SWITCH, Section.LIMITS, "Discard new per subject",
            "Refuse new ones at the limit per subject too."),
    Setting("consumer_limits.inactive_threshold", "--consumer-inactive-threshold", Kind.DURATION,
            Section.LIMITS, "Consumers inactive", "Longest inactive threshold of a consumer."),
    Setting("consumer_limits.max_ack_pending", "--consumer-max-ack-pending", Kind.LIMIT,
            Section.LIMITS, "Consumers' acks pending",
            "Most unacknowledged messages of a consumer."),
)  # fmt: skip

_PUBLISHING: Final = (
    Setting("no_ack", "--no-ack/--ack", Kind.SWITCH, Section.PUBLISHING, "No acknowledgements",
            "Do not confirm what is published."),
    Setting("duplicate_window", "--dupe-window", Kind.DURATION, Section.PUBLISHING,
            "Duplicate window", "How long a message id is remembered.", is_always_shown=True),
    Setting("allow_msg_ttl", "--allow-msg-ttl/--no-msg-ttl", Kind.SWITCH, Section.PUBLISHING,
            "Message TTLs", "Messages may bring their own time to live."),
    Setting("subject_delete_marker_ttl", "--marker-ttl", Kind.DURATION, Section.PUBLISHING,
            "Delete markers live", "Leave a marker when a subject's last message expires."),
    Setting("allow_rollup_hdrs", "--allow-rollup/--no-rollup", Kind.SWITCH, Section.PUBLISHING,
            "Roll-ups", "A message may replace all before it."),
    Setting("allow_atomic", "--allow-atomic/--no-atomic", Kind.SWITCH, Section.PUBLISHING,
            "Atomic batches", "Batches that are stored as a whole or not at all."),
    Setting("allow_batched", "--allow-batched/--no-batched", Kind.SWITCH, Section.PUBLISHING,
            "Fast batches", "Batches that are confirmed as they go."),
    Setting("allow_msg_counter", "--allow-counter/--no-counter", Kind.SWITCH, Section.PUBLISHING,
            "Counters", "Messages add to counters."),
    Setting("allow_msg_schedules", "--allow-schedules/--no-schedules", Kind.SWITCH,
            Section.PUBLISHING, "Schedules", "Messages may be published later and again."),
)  # fmt: skip

_ACCESS: Final = (
    Setting("allow_direct", "--allow-direct/--no-direct", Kind.SWITCH, Section.ACCESS,
            "Direct gets", "Any replica may answer a get.", is_always_shown=True),
    Setting("mirror_direct", "--mirror-direct/--no-mirror-direct", Kind.SWITCH, Section.ACCESS,
            "Direct gets by the mirror", "A mirror may answer gets for its origin."),
    Setting("deny_delete", "--deny-delete/--no-deny-delete", Kind.SWITCH, Section.ACCESS,
            "Deletes denied", "No message can be deleted; cannot be taken back."),
    Setting("deny_purge", "--deny-purge/--no-deny-purge", Kind.SWITCH, Section.ACCESS,
            "Purges denied", "The stream cannot be purged; cannot be taken back."),
    Setting("sealed", "--sealed/--not-sealed", Kind.SWITCH, Section.ACCESS, "Sealed",
            "Nothing goes in or out any more; cannot be taken back."),
)  # fmt: skip

_REPLICATION: Final = (
    Setting("mirror", "--mirror", Kind.SOURCE, Section.REPLICATION, "Mirror of",
            "Copy a stream: NAME, with filter=, transform=, start=, domain=, api=, deliver= after "
            "commas; or a JSON object."),
    Setting("sources", "--source", Kind.SOURCES, Section.REPLICATION, "Sources",
            "Take in other streams, one by one, each as for --mirror."),
    Setting("subject_transform", "--transform", Kind.PAIR, Section.REPLICATION,
            "Subject transform", "Store messages on SRC under DEST."),
    Setting("republish", "--republish", Kind.PAIR, Section.REPLICATION, "Republish",
            "Publish what is stored on SRC again on DEST."),
    Setting("republish.headers_only", "--republish-headers-only/--republish-bodies", Kind.SWITCH,
            Section.REPLICATION, "Republish headers only", "Without bodies."),
)  # fmt: skip

_CONSISTENCY: Final = (
    Setting("read_consistency", "--read-consistency", Kind.CHOICE, Section.CONSISTENCY,
            "Reads", "Reads it offers. weak: from any replica too; strong: linearizable ones only.",
            ("default", "weak", "strong")),
    Setting("write_consistency", "--write-consistency", Kind.CHOICE, Section.CONSISTENCY,
            "Writes", "eventual: confirm before the replicas have it. Takes effect with replicas.",
            ("strong", "eventual")),
    Setting("ack_timeout", "--ack-timeout", Kind.DURATION, Section.CONSISTENCY,
            "Unknown after", "Answer 'unknown' when replicas are silent this long; 0 is never. "
            "Takes effect with replicas.",
            zero="never", has_zero=True),
    Setting("max_staleness", "--max-staleness", Kind.DURATION, Section.CONSISTENCY,
            "Mirror silent after", "Longest time without its origin in which a mirror answers "
            "direct reads; 0 is unlimited.", zero="never"),
)  # fmt: skip

SETTINGS: Final = SettingsTable(
    (*_GENERAL, *_LIMITS, *_PUBLISHING, *_ACCESS, *_REPLICATION, *_CONSISTENCY)
)

# A stream keeps these settings if an update does not name them, so that a reset names them.
_RESET_VALUES: Final[Mapping[str, Any]] = {
    "read_consistency": "default",
    "write_consistency": "strong",
    "ack_timeout": None,
    "max_staleness": 0,
}


_MIRROR_FIELDS: Final = frozenset({"mirror", "mirror_direct", "max_staleness"})


def reset_values(old: Mapping[str, Any], new: Mapping[str, Any]) -> Config:
    """The values that reset the settings which `old` has and `new` lacks."""
    return {key: value for key, value in _RESET_VALUES.items() if key in old and key not in new}


def promoted(config: Mapping[str, Any]) -> Config:
    """The configuration of a mirror that becomes a stream of its own.

    The settings that only a mirror may have go with it.
    """
    return {key: value for key, value in config.items() if key not in _MIRROR_FIELDS}


def without_effect(config: Mapping[str, Any]) -> str:
    """A sentence about settings that have no effect on this stream yet; empty if all have."""
    if config.get("num_replicas", 1) > 1:
        return ""
    idle = [key for key in ("write_consistency", "ack_timeout") if config.get(key) is not None]
    if not idle:
        return ""
    verb = "takes" if len(idle) == 1 else "take"
    return f"{' and '.join(idle)} {verb} effect with replicas; this stream has one."
