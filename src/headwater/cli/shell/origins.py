"""The origins of mirrors and sources as people write them: `ORDERS,filter=orders.eu.>,start=100`.

A name comes first, then details as `key=value`, with commas. A comma inside `{{…}}` belongs to the
destination of a transform. An origin with settings that have no key is written as the JSON object
of the API. An origin that is shown and read again is the same origin.

Knows neither click nor nats.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Origin = dict[str, Any]

KEYS: Final = ("filter", "transform", "start", "domain", "api", "deliver")
HOW_TO_WRITE: Final = "write NAME,filter=SUBJECT,start=100, or a JSON object"
HOW_TO_TRANSFORM: Final = "write transform=SRC DEST, with quotes around the whole"
_ONCE_ONLY: Final = frozenset(KEYS) - {"transform"}
_PIECE: Final = re.compile(r"(?:\{\{.*?\}\}|[^,])*")
_PLAIN_VALUE: Final = re.compile(r"[^,\s]+")
_PLAIN_DESTINATION: Final = re.compile(r"(?:\{\{[^{}]*\}\}|[^,\s{}])+")
_PLAIN_NAME: Final = re.compile(r"[^,\s{][^,\s]*")


def parse_origin(text: str, time_of: Callable[[str], str]) -> Origin:
    """The origin that a text names, as the API has it. Raises ValueError.

    `time_of` returns the API time for a time or an age, and raises ValueError for other texts.
    """
    if text.lstrip().startswith("{"):
        return _json_origin(text)
    name, *details = pieces(text)
    if not name or "=" in name:
        raise ValueError(f"{text!r} does not begin with the name of a stream; {HOW_TO_WRITE}")
    origin: Origin = {"name": name}
    given: set[str] = set()
    for detail in details:
        key, equals, value = detail.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not value or key not in KEYS:
            raise ValueError(f"{detail!r} is no detail of an origin; use {', '.join(KEYS)}")
        if key in given & _ONCE_ONLY:
            raise ValueError(f"{text!r} has {key} twice")
        given.add(key)
        _add_detail(origin, key, value, time_of)
    if {"domain", "api"} <= given:
        raise ValueError(f"{text!r} has both domain and api; a domain is reached by its own api")
    if "deliver" in given and not given & {"domain", "api"}:
        raise ValueError(f"{text!r} has deliver without api or domain")
    return origin


def pieces(text: str) -> Iterator[str]:
    """The parts of a text between commas, except for commas inside `{{…}}`."""
    place = 0
    while True:
        match = _PIECE.match(text, place)
        end = match.end() if match else len(text)
        yield text[place:end].strip()
        if end >= len(text):
            return
        place = end + 1


def _json_origin(text: str) -> Origin:
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{text!r} is not a JSON object: {error}") from error


def _add_detail(origin: Origin, key: str, value: str, time_of: Callable[[str], str]) -> None:
    match key:
        case "filter":
            origin["filter_subject"] = value
        case "transform":
            # No subject has a space, so the first one ends the source.
            source, *rest = value.split(maxsplit=1)
            if not rest:
                raise ValueError(f"{value!r} is one subject; {HOW_TO_TRANSFORM}")
            transforms = origin.setdefault("subject_transforms", [])
            transforms.append({"src": source, "dest": rest[0]})
        case "start" if value.isascii() and value.isdigit():
            origin["opt_start_seq"] = int(value)
        case "start":
            origin["opt_start_time"] = time_of(value)
        case "domain":
            origin.setdefault("external", {})["api"] = f"$JS.{value}.API"
        case _:
            origin.setdefault("external", {})[key] = value


def origin_text(origin: Mapping[str, Any]) -> str:
    """An origin as `parse_origin` reads it: the short form, or JSON where that cannot say it."""
    details = _details(origin)
    name = origin.get("name")
    if details is None or not (isinstance(name, str) and _PLAIN_NAME.fullmatch(name)):
        return json.dumps(origin, ensure_ascii=False)
    if "=" in name:
        return json.dumps(origin, ensure_ascii=False)
    return ",".join([name, *details])


def details_text(origin: Mapping[str, Any]) -> str:
    """The settings of an origin besides its name: `filter=orders.eu.>`; empty if it has none."""
    details = _details(origin)
    if details is not None:
        return ",".join(details)
    rest = {key: value for key, value in origin.items() if key != "name"}
    return json.dumps(rest, ensure_ascii=False)


def _details(origin: Mapping[str, Any]) -> list[str] | None:
    """The `key=value` texts of an origin, None if some setting has no such text."""
    external = origin.get("external") or {}
    sequence, time = origin.get("opt_start_seq"), origin.get("opt_start_time")
    plain = [
        ("filter", origin.get("filter_subject")),
        ("start", str(sequence) if sequence else None),
        ("start", time),
        ("api", external.get("api")),
        ("deliver", external.get("deliver")),
    ]
    known = {"name", "filter_subject", "subject_transforms", "opt_start_seq", "opt_start_time"}
    is_sayable = (
        set(origin) <= known | {"external"}
        and set(external) <= {"api", "deliver"}
        and not (sequence and time)
        and not (external and not external.get("api"))
        and all(not value or _PLAIN_VALUE.fullmatch(str(value)) for _, value in plain)
    )
    details = [f"{key}={value}" for key, value in plain if value]
    for transform in origin.get("subject_transforms") or []:
        source, destination = transform.get("src") or ">", transform.get("dest") or ""
        if not (_PLAIN_VALUE.fullmatch(source) and _PLAIN_DESTINATION.fullmatch(destination)):
            is_sayable = False
        details.append(f"transform={source} {destination}")
    return details if is_sayable else None
