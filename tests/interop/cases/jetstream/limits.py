"""Limits where the storage, the retention or the permissions of a stream could matter.

The answers to a publish at each limit are in `publish_limits`.
"""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, JetStreamClient, jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

MILLISECOND_NS = 1_000_000


def limited(session: Session, name: str, **config: object) -> JetStreamClient:
    js = jetstream(session, name)
    created = js.create(name, **config)
    assert "error" not in created, created
    return js


def acks(js: JetStreamClient, *subjects: str) -> list[str]:
    return [js.ack_text(subject, "x") for subject in subjects]


@catalogue.case("js.limits.max-bytes.memory")
def max_bytes_memory(session: Session) -> Observation:
    """A memory stream counts 16 bytes beside subject, headers and payload."""
    js = limited(session, "BYTES-MEM", max_bytes=100, storage="memory")
    filled = acks(js, *("BYTES-MEM",) * 5)
    return {"acks": filled, "state": js.state("BYTES-MEM")}


@catalogue.case("js.limits.per-subject.one")
def per_subject_one(session: Session) -> Observation:
    """With one message per subject the newest replaces the one before."""
    js = limited(session, "PER-ONE", max_msgs_per_subject=1)
    js.fill("PER-ONE.a", "PER-ONE.b", "PER-ONE.a")
    return {
        "state": js.state("PER-ONE", subjects_filter=">", deleted_details=True),
        "last": js.api("STREAM.MSG.GET.PER-ONE", {"last_by_subj": "PER-ONE.a"}),
    }


@catalogue.case("js.limits.per-subject.memory")
def per_subject_memory(session: Session) -> Observation:
    """A memory stream keeps the limit per subject as a file stream does."""
    js = limited(session, "PER-MEM", max_msgs_per_subject=2, storage="memory")
    js.fill("PER-MEM.a", "PER-MEM.b", "PER-MEM.a", "PER-MEM.a", "PER-MEM.b")
    return js.state("PER-MEM", subjects_filter=">", deleted_details=True)


@catalogue.case("js.limits.per-subject.new-memory")
def per_subject_new_memory(session: Session) -> Observation:
    """In memory, discard-new per subject refuses with the same words."""
    js = limited(
        session,
        "PER-REFUSE-MEM",
        max_msgs_per_subject=1,
        discard="new",
        discard_new_per_subject=True,
        storage="memory",
    )
    return acks(js, "PER-REFUSE-MEM.a", "PER-REFUSE-MEM.a")


@catalogue.case("js.limits.several")
def several(session: Session) -> Observation:
    """With several limits the first in the server's order is reported."""
    js = limited(
        session,
        "SEVERAL",
        max_msgs=1,
        max_bytes=60,
        max_msgs_per_subject=1,
        discard="new",
        discard_new_per_subject=True,
    )
    return acks(js, "SEVERAL.a", "SEVERAL.a", "SEVERAL.b")


@catalogue.case("js.limits.max-age-memory")
def max_age_memory(session: Session) -> Observation:
    """Messages in memory go when they reach their age."""
    js = limited(session, "AGE-MEM", max_age=100 * MILLISECOND_NS, storage="memory")
    js.fill("AGE-MEM", "AGE-MEM")
    return js.state_when("AGE-MEM", "messages", 0)


@catalogue.case("js.limits.max-age-discard-new")
def max_age_discard_new(session: Session) -> Observation:
    """Age removes from a full stream with discard-new, and there is room again."""
    js = limited(session, "AGE-NEW", max_age=100 * MILLISECOND_NS, max_msgs=1, discard="new")
    full = acks(js, "AGE-NEW", "AGE-NEW")
    js.state_when("AGE-NEW", "messages", 0)
    return {"full": full, "room": acks(js, "AGE-NEW")}


@catalogue.case("js.limits.interest-memory")
def interest_memory(session: Session) -> Observation:
    """In memory too, an interest stream without consumers keeps nothing."""
    js = limited(session, "INTEREST-MEM", retention="interest", storage="memory")
    told = acks(js, "INTEREST-MEM", "INTEREST-MEM")
    return {"acks": told, "state": js.state("INTEREST-MEM")}


@catalogue.case("js.limits.deny-purge-with-limits")
def deny_purge_with_limits(session: Session) -> Observation:
    """Denied purges do not keep limits from removing."""
    js = limited(session, "DENY-LIMITS", deny_purge=True, max_msgs=1)
    js.fill("DENY-LIMITS", "DENY-LIMITS")
    return js.state("DENY-LIMITS")


@catalogue.case("js.limits.deny-delete-with-limits")
def deny_delete_with_limits(session: Session) -> Observation:
    """Denied deletes do not keep limits from removing, nor purges, nor age."""
    js = limited(
        session, "DENY-DELETE", deny_delete=True, max_msgs=2, max_age=3600 * 1000 * MILLISECOND_NS
    )
    js.fill(*("DENY-DELETE",) * 3)
    limited_state = js.state("DENY-DELETE")
    js.update("DENY-DELETE", deny_delete=True, max_age=100 * MILLISECOND_NS)
    return {"limited": limited_state, "aged": js.state_when("DENY-DELETE", "messages", 0)}


@catalogue.case("js.limits.max-msgs.memory")
def max_msgs_memory(session: Session) -> Observation:
    """A memory stream of so many messages keeps the newest."""
    js = limited(session, "MSGS-MEM", max_msgs=2, storage="memory")
    told = acks(js, *("MSGS-MEM",) * 4)
    return {"acks": told, "state": js.state("MSGS-MEM", deleted_details=True)}


@catalogue.case("js.limits.workqueue.discard-new")
def workqueue_discard_new(session: Session) -> Observation:
    """A work queue without consumers fills up and then refuses."""
    js = limited(session, "WORK-FULL", retention="workqueue", max_msgs=1, discard="new")
    return {"acks": acks(js, "WORK-FULL", "WORK-FULL"), "state": js.state("WORK-FULL")}


@catalogue.case("js.limits.interest.discard-new")
def interest_discard_new(session: Session) -> Observation:
    """Messages that are not kept for want of interest fill no stream."""
    js = limited(session, "INTEREST-NEW", retention="interest", max_msgs=1, discard="new")
    return {"acks": acks(js, *("INTEREST-NEW",) * 3), "state": js.state("INTEREST-NEW")}


@catalogue.case("js.limits.gaps-are-free")
def gaps_are_free(session: Session) -> Observation:
    """`max_msgs` counts messages: where some were deleted, more sequences fit."""
    js = limited(session, "GAPS-FREE", max_msgs=3)
    js.fill(*("GAPS-FREE",) * 3)
    js.api("STREAM.MSG.DELETE.GAPS-FREE", {"seq": 2})
    js.fill("GAPS-FREE")
    before = js.state("GAPS-FREE", deleted_details=True)
    js.fill("GAPS-FREE")
    return {"before": before, "after": js.state("GAPS-FREE", deleted_details=True)}
