"""Direct reads through mirrors: a mirror answers for its origin, under its own name.

Whether the origin or one of its mirrors answers is chance: scripts ask until the one they are about
has answered.
"""

from typing import Any

from tests.interop.case import Catalogue
from tests.interop.copies import new_aggregate, new_mirror, publish_below, with_origin
from tests.interop.jetstream import JETSTREAM, Body, JetStreamClient, Reply
from tests.interop.messages import direct_batch, state_in_time
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)


def answer_of(js: JetStreamClient, stream: str, request: str, body: Body = None) -> Reply:
    """The answer to a direct read that this stream gives; else the last answer of another one."""
    seen: Reply = {}

    def has_answered() -> bool:
        seen.clear()
        seen.update(js.direct(request, body))
        return ["Nats-Stream", stream] in seen.get("headers", [])

    js.wait_until(has_answered)
    return seen


def mirrored(
    session: Session, name: str, *subjects: str, mirror: dict[str, object] | None = None
) -> JetStreamClient:
    """A client, a stream that allows direct reads, and its mirror `<name>-M`, nothing missing."""
    js = with_origin(session, name, *subjects, allow_direct=True)
    made = new_mirror(js, f"{name}-M", name, mirror)
    assert "error" not in made, made
    state_in_time(js, f"{name}-M", last_seq=len(subjects))
    return js


@catalogue.case("js.mirror-read.both")
def both(session: Session) -> Observation:
    """A read of the origin is answered by either stream, which the header names."""
    js = mirrored(session, "RMBOTH", "a", "b")
    return [
        answer_of(js, stream, "RMBOTH", {"last_by_subj": "RMBOTH.b"})
        for stream in ("RMBOTH-M", "RMBOTH")
    ]


@catalogue.case("js.mirror-read.subject")
def by_subject(session: Session) -> Observation:
    """A read with the subject in its own subject is answered by the mirror too."""
    js = mirrored(session, "RMSUBJ", "a")
    return answer_of(js, "RMSUBJ-M", "RMSUBJ.RMSUBJ.a")


@catalogue.case("js.mirror-read.own-name")
def own_name(session: Session) -> Observation:
    """A mirror that answers for its origin is not read by its own name without permission."""
    js = mirrored(session, "RMOWN", "a")
    return [
        js.direct("RMOWN-M", {"seq": 1}),
        js.direct("RMOWN-M.RMOWN.a"),
        js.direct("RMOWN-M", {"seq": 9}),
    ]


@catalogue.case("js.mirror-read.missing")
def missing(session: Session) -> Observation:
    """A message that neither stream has is not found."""
    js = mirrored(session, "RMMISS", "a")
    return [js.direct("RMMISS", {"seq": 2}), js.direct("RMMISS.RMMISS.none")]


@catalogue.case("js.mirror-read.batch")
def batch(session: Session) -> Observation:
    """A batch of messages comes from one stream, whose end is told as by any stream."""
    js = mirrored(session, "RMBATCH", *"abc")
    seen: list[Any] = []

    def is_of_mirror() -> bool:
        seen[:] = direct_batch(js, "RMBATCH", {"multi_last": ["RMBATCH.>"]})
        return "RMBATCH-M" in str(seen)

    js.wait_until(is_of_mirror)
    return seen


@catalogue.case("js.mirror-read.inherited")
def inherited(session: Session) -> Observation:
    """A mirror answers if its origin allows direct reads, whatever the request says."""
    js = with_origin(session, "RMINH", "a", allow_direct=True)
    asked = new_mirror(js, "RMINH-M", "RMINH", mirror_direct=False)
    seen = [asked["config"]["mirror_direct"]]
    js.update("RMINH", allow_direct=False)
    seen.append(js.info("RMINH-M")["config"]["mirror_direct"])
    updated = js.update("RMINH-M", subjects=[], mirror={"name": "RMINH"}, mirror_direct=True)
    seen.append(updated["config"]["mirror_direct"])
    return seen


@catalogue.case("js.mirror-read.forbidden")
def forbidden(session: Session) -> Observation:
    """No mirror answers for an origin that allows no direct reads."""
    js = with_origin(session, "RMNO", "a")
    made = new_mirror(js, "RMNO-M", "RMNO", mirror_direct=True)
    state_in_time(js, "RMNO-M", messages=1)
    return [
        made["config"]["mirror_direct"],
        js.direct("RMNO", {"seq": 1}),
        js.direct("RMNO-M", {"seq": 1}),
    ]


@catalogue.case("js.mirror-read.mirror-itself")
def mirror_itself(session: Session) -> Observation:
    """A mirror that allows direct reads itself answers under its own name alone."""
    js = with_origin(session, "RMSELF", "a")
    new_mirror(js, "RMSELF-M", "RMSELF", allow_direct=True)
    state_in_time(js, "RMSELF-M", messages=1)
    return [js.direct("RMSELF-M", {"seq": 1}), js.direct("RMSELF", {"seq": 1})]


@catalogue.case("js.mirror-read.alternates")
def alternates(session: Session) -> Observation:
    """INFO of origin and mirrors tells of the places to read in a cluster and only there."""
    js = mirrored(session, "RMALT", "a")
    new_mirror(js, "RMALT-N", "RMALT")
    names = ("RMALT", "RMALT-M", "RMALT-N")
    return [sorted(js.info(name).get("alternates", []), key=str) for name in names]


@catalogue.case("js.mirror-read.alternates-left")
def alternates_left(session: Session) -> Observation:
    """A stream whose mirror was deleted or promoted has no other place to read."""
    js = mirrored(session, "RMLEFT", "a")
    before = len(js.info("RMLEFT").get("alternates", []))
    js.update("RMLEFT-M", subjects=["rmleft"])
    promoted = js.info("RMLEFT").get("alternates")
    new_mirror(js, "RMLEFT-M", "RMLEFT")
    again = len(js.info("RMLEFT").get("alternates", []))
    js.api("STREAM.DELETE.RMLEFT-M")
    return [before, promoted, again, js.info("RMLEFT").get("alternates")]


@catalogue.case("js.mirror-read.alternates-of-sources")
def alternates_of_sources(session: Session) -> Observation:
    """A stream that sources another one is no place to read it."""
    js = with_origin(session, "RMSRC", "a", allow_direct=True)
    new_aggregate(js, "RMSRC-S", "RMSRC", allow_direct=True)
    state_in_time(js, "RMSRC-S", messages=1)
    return [js.info(name).get("alternates") for name in ("RMSRC", "RMSRC-S")]


@catalogue.case("js.mirror-read.filtered")
def filtered(session: Session) -> Observation:
    """A mirror of a part answers what it has."""
    js = mirrored(session, "RMPART", "b", "a", mirror={"filter_subject": "RMPART.a"})
    return answer_of(js, "RMPART-M", "RMPART", {"last_by_subj": "RMPART.a"})


@catalogue.case("js.mirror-read.origin-deleted")
def origin_deleted(session: Session) -> Observation:
    """When the origin is gone, its mirror goes on answering for it."""
    js = mirrored(session, "RMGONE", "a")
    answer_of(js, "RMGONE-M", "RMGONE", {"seq": 1})
    js.api("STREAM.DELETE.RMGONE")
    seen = js.direct("RMGONE", {"seq": 1})
    js.api("STREAM.DELETE.RMGONE-M")
    return [seen, js.direct("RMGONE", {"seq": 1})]


@catalogue.case("js.mirror-read.mirror-deleted")
def mirror_deleted(session: Session) -> Observation:
    """When the mirror is gone, the origin answers every read."""
    js = mirrored(session, "RMDEL", "a")
    answer_of(js, "RMDEL-M", "RMDEL", {"seq": 1})
    js.api("STREAM.DELETE.RMDEL-M")
    return [js.direct("RMDEL", {"seq": 1}) for _ in range(5)]


@catalogue.case("js.mirror-read.promoted")
def promoted(session: Session) -> Observation:
    """A promoted mirror answers for its former origin no more."""
    js = mirrored(session, "RMPROM", "a")
    answer_of(js, "RMPROM-M", "RMPROM", {"seq": 1})
    updated = js.update("RMPROM-M", subjects=["rmprom"], mirror_direct=False)
    return [updated.get("error"), [js.direct("RMPROM", {"seq": 1}) for _ in range(5)]]


@catalogue.case("js.mirror-read.chain")
def chain(session: Session) -> Observation:
    """A mirror of a mirror inherits no direct reads from a mirror that allows none itself."""
    js = mirrored(session, "RMCHAIN", "a")
    made = new_mirror(js, "RMCHAIN-N", "RMCHAIN-M")
    state_in_time(js, "RMCHAIN-N", messages=1)
    return [made["config"]["mirror_direct"], js.info("RMCHAIN").get("alternates")]


@catalogue.case("js.mirror-read.later")
def later(session: Session) -> Observation:
    """Messages that are published later are read from the mirror as from the origin."""
    js = mirrored(session, "RMLATE", "a")
    publish_below(js, "RMLATE", "b")
    state_in_time(js, "RMLATE-M", messages=2)
    return answer_of(js, "RMLATE-M", "RMLATE", {"seq": 2})


@catalogue.case("js.mirror-read.message-get")
def message_get(session: Session) -> Observation:
    """MSG.GET is answered by the stream that it names, mirror or not."""
    js = mirrored(session, "RMGET", "a", "b")
    js.api("STREAM.MSG.DELETE.RMGET", {"seq": 1})
    return [js.api(f"STREAM.MSG.GET.{name}", {"seq": 1}) for name in ("RMGET", "RMGET-M")]
