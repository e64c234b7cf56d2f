"""The settings of a stream: what each is called in the API, on the command line and for people.

One table serves the options of `add` and `edit`, the sections of `info` and the lines of a
difference, so that a setting can not be missing from one of them. Whether a value is allowed is
the server's to say: nothing is validated here that the API validates.

Knows neither click nor nats.
"""

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from headwater.cli.render import size_text
from headwater.cli.units import UNLIMITED, duration_ns_text

Config = dict[str, Any]

# Written by the server into every stream's metadata; not a person's setting.
SERVER_METADATA_PREFIX: Final = "_nats."


class Kind(Enum):
    """How a setting is written."""

    TEXT = auto()
    WORDS = auto()
    CHOICE = auto()
    SWITCH = auto()
    COUNT = auto()
    LIMIT = auto()
    SIZE = auto()
    DURATION = auto()
    PAIR = auto()
    SOURCE = auto()
    SOURCES = auto()
    METADATA = auto()


class Section(Enum):
    """Where a setting is found in help texts and in `info`."""

    GENERAL = "General"
    LIMITS = "Limits"
    PUBLISHING = "Publishing"
    ACCESS = "Reading and deleting"
    REPLICATION = "Mirrors, sources and other subjects"
    CONSISTENCY = "Consistency (Headwater only)"


@dataclass(frozen=True)
class Setting:
    """One setting; `key` is its path in the configuration."""

    key: str
    flag: str
    kind: Kind
    section: Section
    label: str
    help: str
    # The first is the default.
    choices: tuple[str, ...] = ()
    # What is the same as not setting it, apart from what is empty.
    default: Any = None
    # What a zero means to a person.
    zero: str = "none"
    # Whether zero is a value of its own, and not the same as not setting it.
    has_zero: bool = False
    # Shown by `info` also where it has the value it has by default.
    is_always_shown: bool = False
    is_for_add_only: bool = False

    @property
    def parameter(self) -> str:
        """Its name among the parameters of a command."""
        return self.key.replace(".", "_") + "_setting"

    def text(self, value: Any) -> str:
        """`value` for a person."""
        match self.kind:
            case Kind.LIMIT if value == UNLIMITED:
                return "unlimited"
            case Kind.SIZE:
                return "unlimited" if value == UNLIMITED else size_text(value)
            case Kind.DURATION:
                return duration_ns_text(value) if value else self.zero
            case Kind.LIMIT | Kind.COUNT:
                return f"{value:,}"
            case Kind.SWITCH:
                return "yes" if value else "no"
            case Kind.WORDS:
                return ", ".join(value)
            case Kind.PAIR:
                return f"{value.get('src') or '>'} to {value.get('dest')}"
            case Kind.SOURCE:
                return source_text(value)
            case Kind.SOURCES:
                return ", ".join(source_text(each) for each in value)
            case Kind.METADATA:
                return ", ".join(f"{name}={text}" for name, text in value.items())
            case _:
                return str(value)


def source_text(source: Mapping[str, Any]) -> str:
    """A mirror or a source: its name, or all of it where there is more."""
    if set(source) == {"name"}:
        return str(source["name"])
    return json.dumps(source, ensure_ascii=False)


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
            "Deletes denied", "No message can be deleted; can not be taken back."),
    Setting("deny_purge", "--deny-purge/--no-deny-purge", Kind.SWITCH, Section.ACCESS,
            "Purges denied", "The stream can not be purged; can not be taken back."),
    Setting("sealed", "--sealed/--not-sealed", Kind.SWITCH, Section.ACCESS, "Sealed",
            "Nothing goes in or out any more; can not be taken back."),
)  # fmt: skip

_REPLICATION: Final = (
    Setting("mirror", "--mirror", Kind.SOURCE, Section.REPLICATION, "Mirror of",
            "Copy a stream: its name, or a JSON object."),
    Setting("sources", "--source", Kind.SOURCES, Section.REPLICATION, "Sources",
            "Take in other streams: a name or a JSON object, one by one."),
    Setting("subject_transform", "--transform", Kind.PAIR, Section.REPLICATION,
            "Subject transform", "Store messages on SRC under DEST."),
    Setting("republish", "--republish", Kind.PAIR, Section.REPLICATION, "Republish",
            "Publish what is stored on SRC again on DEST."),
    Setting("republish.headers_only", "--republish-headers-only/--republish-bodies", Kind.SWITCH,
            Section.REPLICATION, "Republish headers only", "Without bodies."),
)  # fmt: skip

_CONSISTENCY: Final = (
    Setting("read_consistency", "--read-consistency", Kind.CHOICE, Section.CONSISTENCY,
            "Reads", "What a get promises.", ("default", "weak", "strong")),
    Setting("write_consistency", "--write-consistency", Kind.CHOICE, Section.CONSISTENCY,
            "Writes", "eventual: confirm before the replicas have it.", ("strong", "eventual")),
    Setting("ack_timeout", "--ack-timeout", Kind.DURATION, Section.CONSISTENCY,
            "Unknown after", "Answer 'unknown' when replicas are silent this long; 0 is never.",
            zero="never", has_zero=True),
)  # fmt: skip

SETTINGS: Final = (*_GENERAL, *_LIMITS, *_PUBLISHING, *_ACCESS, *_REPLICATION, *_CONSISTENCY)
SETTING_BY_KEY: Final = {setting.key: setting for setting in SETTINGS}
# What `edit --unset` can take out of a configuration: it goes by whole fields.
FIELDS: Final = tuple(dict.fromkeys(setting.key.partition(".")[0] for setting in SETTINGS))


def value_at(config: Mapping[str, Any], key: str) -> Any:
    """The value under a path, None where there is none."""
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def changed(base: Mapping[str, Any], given: Mapping[str, Any], unset: Iterable[str] = ()) -> Config:
    """`base` without what is `unset` and with the settings `given` by key; metadata is merged."""
    config: Config = copy.deepcopy(dict(base))
    for field in unset:
        config.pop(field, None)
    for key, value in given.items():
        *path, last = key.split(".")
        place = config
        for part in path:
            # A file may say null for what is not set.
            place[part] = place.get(part) or {}
            place = place[part]
        if SETTING_BY_KEY[key].kind is Kind.METADATA:
            value = (place.get(last) or {}) | value
        place[last] = value
    return config


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What differs, by field, as `(old, new)`; None where a configuration does not have it.

    A field that has its default is the same as one that is not there. What the server keeps in
    the metadata is not compared.
    """
    return {
        field: (old.get(field), new.get(field))
        for field in dict.fromkeys((*FIELDS, *old, *new))
        if meaning(field, old.get(field)) != meaning(field, new.get(field))
    }


def meaning(field: str, value: Any) -> Any:
    """A value to be compared: None for whatever is the same as not setting the field."""
    setting = SETTING_BY_KEY.get(field)
    value = personal(field, value)
    if setting is not None and setting.has_zero:
        return value
    if not value:
        return None
    if setting is None:
        return value
    default = setting.default
    if setting.kind is Kind.CHOICE:
        default = setting.choices[0]
    elif setting.kind in (Kind.LIMIT, Kind.SIZE):
        default = UNLIMITED
    return None if value == default else value


def personal(field: str, value: Any) -> Any:
    """A field without what the server wrote into it."""
    if field != "metadata" or value is None:
        return value
    return {
        name: text for name, text in value.items() if not name.startswith(SERVER_METADATA_PREFIX)
    }


def value_text(key: str, value: Any) -> str:
    """A field's value for a person; None is one that is not set."""
    if value is None:
        return "not set"
    setting = SETTING_BY_KEY.get(key)
    value = personal(key, value)
    # The table shows republishing in two settings, a difference is of the whole field.
    if setting is None or key == "republish":
        return json.dumps(value, ensure_ascii=False)
    return setting.text(value)


def shown_settings(config: Mapping[str, Any], section: Section) -> Sequence[tuple[str, str]]:
    """Labels and values of a section: what always counts, and what was set."""
    shown = []
    for setting in SETTINGS:
        value = personal(setting.key, value_at(config, setting.key))
        is_set = meaning(setting.key, value) is not None
        if setting.section is section and (
            is_set or (setting.is_always_shown and value is not None)
        ):
            shown.append((setting.label, setting.text(value)))
    return shown
