"""STREAM.UPDATE refused: what of a stream can not be changed, and how the request itself fails."""

from tests.interop.case import Catalogue
from tests.interop.jetstream import JETSTREAM, add_refusal, jetstream
from tests.interop.observation import Observation
from tests.interop.session import Session

catalogue = Catalogue(JETSTREAM)

SECOND_NS = 1_000_000_000

REFUSED: tuple[tuple[str, str, str, dict[str, object], dict[str, object]], ...] = (
    (
        "storage",
        "Where messages are stored can not change.",
        "stream configuration update can not change storage type",
        {},
        {"storage": "memory"},
    ),
    (
        "to-workqueue",
        "A stream can not become a work queue.",
        "stream configuration update can not change retention policy to/from workqueue",
        {},
        {"retention": "workqueue"},
    ),
    (
        "deny-delete",
        "Deletes that were denied stay denied.",
        "stream configuration update can not cancel deny message deletes",
        {"deny_delete": True},
        {},
    ),
    (
        "deny-purge",
        "Purges that were denied stay denied.",
        "stream configuration update can not cancel deny purge",
        {"deny_purge": True},
        {},
    ),
    (
        "message-ttl",
        "Message TTLs that were allowed stay allowed.",
        "message TTL status can not be disabled",
        {"allow_msg_ttl": True},
        {},
    ),
    (
        "counter",
        "A stream can not become a counter stream.",
        "stream configuration update can not change message counter setting",
        {},
        {"allow_msg_counter": True},
    ),
    (
        "schedules",
        "Schedules that were allowed stay allowed.",
        "message schedules can not be disabled",
        {"allow_msg_schedules": True},
        {},
    ),
    (
        "persist-mode",
        "The persist mode can not change.",
        "stream configuration update can not change persist mode",
        {},
        {"persist_mode": "async"},
    ),
)

for word, statement, text, before, config in REFUSED:
    add_refusal(catalogue, f"js.update.error.{word}", statement, text, config, before)

ALSO_REFUSED: tuple[tuple[str, str, dict[str, object], dict[str, object]], ...] = (
    (
        "from-workqueue",
        "A work queue stays one.",
        {"retention": "workqueue"},
        {"retention": "interest"},
    ),
    ("counter-off", "A counter stream stays one.", {"allow_msg_counter": True}, {}),
    ("persist-mode-off", "Async persistence stays.", {"persist_mode": "async"}, {}),
    (
        "async-replicas",
        "A stream with async persistence can not get replicas, whatever the server is.",
        {"persist_mode": "async"},
        {"persist_mode": "async", "num_replicas": 3},
    ),
    ("replicas-alone", "A server on its own can not replicate.", {}, {"num_replicas": 3}),
    (
        "async-atomic",
        "Atomic batches can not be added to async persistence.",
        {"persist_mode": "async"},
        {"persist_mode": "async", "allow_atomic": True},
    ),
    ("max-age", "The rules of a new stream's age hold for updates.", {}, {"max_age": 1}),
    (
        "window",
        "An age shorter than the window the update asks for is refused.",
        {},
        {"max_age": SECOND_NS, "duplicate_window": 120 * SECOND_NS},
    ),
    (
        "rollup-without-purge",
        "The rules of roll-ups hold for updates.",
        {},
        {"deny_purge": True, "allow_rollup_hdrs": True},
    ),
    ("pedantic", "An update may be pedantic.", {}, {"pedantic": True, "max_msgs": -2}),
    ("invalid-subject", "The rules of subjects hold for updates.", {}, {"subjects": ["a..b"]}),
    (
        "discard-per-subject",
        "The rules of discarding per subject hold for updates.",
        {},
        {"discard_new_per_subject": True},
    ),
)
"""Rules whose text another case claims."""

for word, statement, before, config in ALSO_REFUSED:
    add_refusal(catalogue, f"js.update.error.{word}", statement, "", config, before)


@catalogue.case(
    "js.update.error.unseal", text="stream configuration update can not unseal a sealed stream"
)
def unseal(session: Session) -> Observation:
    """What is sealed stays sealed, and the deletes and purges that sealing denied are denied."""
    js = jetstream(session, "UNSEAL")
    js.create("UNSEAL")
    js.update("UNSEAL", sealed=True)
    return {
        "unseal": js.update("UNSEAL", deny_delete=True, deny_purge=True),
        "allow deletes": js.update("UNSEAL", sealed=True, deny_purge=True),
        "allow purge": js.update("UNSEAL", sealed=True, deny_delete=True),
        "allow both": js.update("UNSEAL", sealed=True),
    }


@catalogue.case("js.update.error.not-found", text="stream not found")
def not_found(session: Session) -> Observation:
    """There is nothing to update where there is no stream, after the configuration is valid."""
    js = jetstream(session, "NOT-THERE")
    return {
        "valid": js.update("NOT-THERE"),
        "invalid": js.update("NOT-THERE", max_age=1),
        "created by it": js.info("NOT-THERE"),
    }


@catalogue.case("js.update.error.name-mismatch")
def name_mismatch(session: Session) -> Observation:
    """The name in an update's body is the one in its subject."""
    js = jetstream(session, "RENAME", "RENAMED")
    js.create("RENAME")
    return {
        "other": js.api("STREAM.UPDATE.RENAME", {"name": "RENAMED", "subjects": ["renamed"]}),
        "none": js.api("STREAM.UPDATE.RENAME", {"subjects": ["renamed"]}),
        "slash": js.api("STREAM.UPDATE.RENAME", {"name": "RE/NAME"}),
    }


@catalogue.case("js.update.error.leaves-messages")
def leaves_messages(session: Session) -> Observation:
    """A refused update changes nothing, not even the part of it that was valid."""
    js = jetstream(session, "REFUSED-WHOLE")
    js.create("REFUSED-WHOLE")
    js.fill("REFUSED-WHOLE", "REFUSED-WHOLE")
    js.update("REFUSED-WHOLE", max_msgs=1, storage="memory")
    return js.info("REFUSED-WHOLE")
