"""Mirrors and sources as a client meets them: made, waited for, and told without what is time.

A copy begins some time after it was made and follows its origin on its own clock. Scripts wait for
its state and never for a time; what was last heard of an origin is told only as heard or not.

Must not know: which server it talks to, or what any server ought to answer.
"""

import re
from collections.abc import Mapping
from typing import Any

from tests.interop.jetstream import JetStreamClient, Reply, jetstream
from tests.interop.messages import new_stream, state_in_time, stored
from tests.interop.session import Session

Config = Mapping[str, object]

_PROVENANCE = re.compile(
    r"((?:Nats-Stream-Source: |^)[^ \r]+ \d+(?: [^ \r]+){3} )[0-9A-Za-z]{8}(?=\r|$)"
)

NEVER = -1
"""The `active` of a copy that has not heard of its origin."""


def with_origin(session: Session, name: str, *subjects: str, **config: object) -> JetStreamClient:
    """A client and a stream with a message to each of the subjects, which stand below its name."""
    js = jetstream(session)
    new_origin(js, name, *subjects, **config)
    return js


def new_origin(js: JetStreamClient, name: str, *subjects: str, **config: object) -> None:
    """A stream with a message to each of the subjects, which stand below its name."""
    new_stream(js, name, **config)
    publish_below(js, name, *subjects)


def publish_below(js: JetStreamClient, name: str, *subjects: str) -> None:
    """A message to each of the subjects below a name; the payload repeats the subject."""
    for subject in subjects:
        js.fill(f"{name}.{subject}", payload=f"of {subject}")


def new_mirror(
    js: JetStreamClient, name: str, origin: str, mirror: Config | None = None, /, **config: object
) -> Reply:
    """The answer to the making of a mirror; `mirror` has the settings beside the origin's name."""
    js.api(f"STREAM.DELETE.{name}")
    return told(js.create(name, subjects=[], mirror={"name": origin, **(mirror or {})}, **config))


def new_aggregate(
    js: JetStreamClient, name: str, *sources: str | Config, **config: object
) -> Reply:
    """The answer to the making of a stream with sources, and with no subjects unless it says so."""
    js.api(f"STREAM.DELETE.{name}")
    chosen: dict[str, object] = {"subjects": [], **config}
    return told(js.create(name, sources=sources_of(*sources), **chosen))


def sources_of(*sources: str | Config) -> list[Config]:
    """Settings of sources, of which a name is the shortest."""
    return [{"name": each} if isinstance(each, str) else each for each in sources]


def told(reply: Reply) -> Reply:
    """A document about a stream; of the time since an origin was heard it tells whether it was."""
    chosen = dict(reply)
    if "mirror" in chosen:
        chosen["mirror"] = _origin_told(chosen["mirror"])
    if "sources" in chosen:
        chosen["sources"] = sorted(map(_origin_told, chosen["sources"]), key=str)
    return chosen


def _origin_told(origin: Mapping[str, Any]) -> dict[str, Any]:
    return {**origin, "active": "never" if origin["active"] == NEVER else "heard"}


def origins_told(js: JetStreamClient, name: str) -> Any:
    """The part of INFO about the origins of a stream, once they are heard and nothing is missing.

    A copy that never gets there is shown as it is.
    """
    seen: dict[str, Any] = {}

    def is_settled() -> bool:
        info = told(js.info(name))
        seen.update(told=[info[key] for key in ("mirror", "sources") if key in info])
        origins = [info["mirror"]] if "mirror" in info else info.get("sources", [])
        return all(each["active"] == "heard" and each["lag"] == 0 for each in origins)

    js.wait_until(is_settled)
    return seen["told"]


def copied(js: JetStreamClient, name: str, **awaited: int) -> list[Any]:
    """The messages of a copy once its state has these values, then those that were deleted."""
    state = state_in_time(js, name, **awaited)
    found = [stored(js, name, seq) for seq in range(state["first_seq"], state["last_seq"] + 1)]
    kept = [with_origins(message) for message in found if "error" not in message]
    gap = len(found) - len(kept)
    bounds = {key: state[key] for key in ("first_seq", "last_seq", "messages")}
    return [kept, {**bounds, "gaps": gap, "num_deleted": state.get("num_deleted", 0)}]


def by_subject(messages: list[Any]) -> dict[str, list[Any]]:
    """Messages of several origins by their subjects: in which order origins are read is chance."""
    found: dict[str, list[Any]] = {}
    for message in messages:
        rest = {key: part for key, part in message.items() if key not in ("seq", "subject")}
        found.setdefault(message["subject"], []).append(rest)
    return dict(sorted(found.items()))


def merged(js: JetStreamClient, name: str, **awaited: int) -> dict[str, list[Any]]:
    """The messages of a stream with several sources, by their subjects, once they are there."""
    return by_subject(copied(js, name, **awaited)[0])


def moments(js: JetStreamClient, name: str, *seqs: int) -> list[Any]:
    """The times of messages."""
    replies = [js.api(f"STREAM.MSG.GET.{name}", {"seq": seq}) for seq in seqs]
    return [reply["message"]["time"]["moment"] for reply in replies]


def with_origins(tree: Any) -> Any:
    """The tree, without the identities of streams in headers that tell of the origin.

    Each stream draws its identity when it is made.
    """
    if isinstance(tree, dict):
        return {key: with_origins(part) for key, part in tree.items()}
    if isinstance(tree, list):
        return [with_origins(part) for part in tree]
    return _PROVENANCE.sub(r"\1<identity>", tree) if isinstance(tree, str) else tree
