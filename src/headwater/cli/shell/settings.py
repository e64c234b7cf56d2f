"""Settings as a table: their names in the API, on the command line and for people.

One table serves the options of `add` and `edit`, the sections of `info` and the lines of a
difference, so that a setting cannot be missing from one of them. The server validates values, and
this module does not. The tables themselves are `streams.settings` and `consumers.settings`.

Knows neither click nor nats.
"""

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from headwater.cli.shell.origins import origin_text
from headwater.cli.shell.render import size_text
from headwater.cli.shell.units import UNLIMITED, duration_ns_text, time_text

Config = dict[str, Any]

# The prefix of metadata that the server writes; it is not a person's setting.
SERVER_METADATA_PREFIX: Final = "_nats."


class Kind(Enum):
    """The form of a setting's value."""

    TEXT = auto()
    WORDS = auto()
    CHOICE = auto()
    SWITCH = auto()
    COUNT = auto()
    LIMIT = auto()
    SIZE = auto()
    DURATION = auto()
    DURATIONS = auto()
    # A time; a duration is before the present, or after it.
    SINCE = auto()
    UNTIL = auto()
    PAIR = auto()
    SOURCE = auto()
    SOURCES = auto()
    METADATA = auto()


@dataclass(frozen=True)
class Setting:
    """One setting; `key` is its path in the configuration."""

    key: str
    flag: str
    kind: Kind
    section: str
    label: str
    help: str
    # The first is the default of the API.
    choices: tuple[str, ...] = ()
    # The default, which equals an absent setting as an empty value does.
    default: Any = None
    # The text for a zero.
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

    @property
    def silent_value(self) -> Any:
        """The value that is the same as not setting it."""
        if self.kind is Kind.CHOICE:
            return self.choices[0]
        if self.default is None and self.kind in (Kind.LIMIT, Kind.SIZE):
            return UNLIMITED
        return self.default

    def text(self, value: Any) -> str:
        """`value` for a person."""
        match self.kind:
            case Kind.LIMIT if value == UNLIMITED:
                return "unlimited"
            case Kind.SIZE:
                return "unlimited" if value == UNLIMITED else size_text(value)
            case Kind.DURATION:
                return duration_ns_text(value) if value else self.zero
            case Kind.DURATIONS:
                return ", ".join(duration_ns_text(each) for each in value)
            case Kind.SINCE | Kind.UNTIL:
                return time_text(value)
            case Kind.LIMIT | Kind.COUNT:
                return f"{value:,}"
            case Kind.SWITCH:
                return "yes" if value else "no"
            case Kind.WORDS:
                return ", ".join(value)
            case Kind.PAIR:
                return f"{value.get('src') or '>'} to {value.get('dest')}"
            case Kind.SOURCE:
                return origin_text(value)
            case Kind.SOURCES:
                return "; ".join(origin_text(each) for each in value)
            case Kind.METADATA:
                return ", ".join(f"{name}={text}" for name, text in value.items())
            case _:
                return str(value)


class SettingsTable:
    """All settings of one kind of thing, in the order of its help."""

    def __init__(self, settings: Sequence[Setting]) -> None:
        self._settings = tuple(settings)
        self._by_key = {setting.key: setting for setting in settings}
        self.sections: Sequence[str] = tuple(dict.fromkeys(each.section for each in settings))
        # The fields that `edit --unset` can remove from a configuration, each as a whole.
        self.fields: Sequence[str] = tuple(
            dict.fromkeys(each.key.partition(".")[0] for each in settings)
        )
        # Fields that the table shows in several settings; a difference is of the whole field.
        self._divided = {each.key.partition(".")[0] for each in settings if "." in each.key}

    def __iter__(self) -> Iterator[Setting]:
        return iter(self._settings)

    def changed(
        self, base: Mapping[str, Any], given: Mapping[str, Any], unset: Iterable[str] = ()
    ) -> Config:
        """`base` without `unset` fields and with `given` values by key; metadata is merged."""
        config: Config = copy.deepcopy(dict(base))
        for field in unset:
            config.pop(field, None)
        for key, value in given.items():
            *path, last = key.split(".")
            place = config
            for part in path:
                # A file may have null for an absent setting.
                place[part] = place.get(part) or {}
                place = place[part]
            if self._by_key[key].kind is Kind.METADATA:
                value = (place.get(last) or {}) | value
            place[last] = value
        return config

    def differences(
        self, old: Mapping[str, Any], new: Mapping[str, Any]
    ) -> dict[str, tuple[Any, Any]]:
        """The fields that differ, as `(old, new)`; None for a configuration without the field.

        A field that has its default equals an absent field. Metadata of the server is not
        compared.
        """
        return {
            field: (old.get(field), new.get(field))
            for field in dict.fromkeys((*self.fields, *old, *new))
            if self._meaning(field, old.get(field)) != self._meaning(field, new.get(field))
        }

    def value_text(self, field: str, value: Any) -> str:
        """A field's value for a person; None is one that is not set."""
        if value is None:
            return "not set"
        setting = self._by_key.get(field)
        value = personal(field, value)
        if setting is None or field in self._divided:
            return json.dumps(value, ensure_ascii=False)
        return setting.text(value)

    def shown(self, config: Mapping[str, Any], section: str) -> Sequence[tuple[str, str]]:
        """Labels and values of a section: settings that are set, or always shown."""
        shown = []
        for setting in self._settings:
            value = personal(setting.key, value_at(config, setting.key))
            is_set = self._meaning(setting.key, value) is not None
            if setting.section == section and (
                is_set or (setting.is_always_shown and value is not None)
            ):
                shown.append((setting.label, setting.text(value)))
        return shown

    def _meaning(self, field: str, value: Any) -> Any:
        """A value to be compared: None for whatever is the same as not setting the field."""
        setting = self._by_key.get(field)
        value = personal(field, value)
        if setting is not None and setting.has_zero:
            return value
        if not value:
            return None
        return None if setting is not None and value == setting.silent_value else value


def value_at(config: Mapping[str, Any], key: str) -> Any:
    """The value under a path, None if it is not set."""
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def personal(field: str, value: Any) -> Any:
    """The value of a field without the server's metadata."""
    if field != "metadata" or value is None:
        return value
    return {
        name: text for name, text in value.items() if not name.startswith(SERVER_METADATA_PREFIX)
    }
