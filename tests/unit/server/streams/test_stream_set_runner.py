"""Creations and deletions take the door of the set of streams, in the order of their requests."""

from errno import ENOSPC
from random import Random
from typing import Any, Final

import pytest

from headwater.jetstream import error_codes
from headwater.jetstream.account import AccountLimits
from headwater.jetstream.backup.archive import END, MAGIC, STATE_NAME, Entry, encode_entries
from headwater.jetstream.backup.s2 import BEGINNING, plain_frame
from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.errors import ApiError
from headwater.jetstream.meta.stream_set import StreamSet
from headwater.jetstream.proposal import Close
from headwater.server.configuration.options import AccountOptions, Options, UserOptions
from headwater.server.streams import api_service
from headwater.store.catalogue_commit import CatalogueCommit
from headwater.store.recovery.catalogue import CATALOGUE_FILE
from headwater.testing.disk import SimDisk
from tests.kit.stored_world import FOLDER, StoredWorld, streaming
from tests.kit.stream_world import StreamWorld
from tests.kit.world import Peer

CATALOGUE: Final = f"{FOLDER}/{CATALOGUE_FILE}"
NOT_FOUND: Final = error_codes.STREAM_NOT_FOUND.err_code
NAME_EXIST: Final = error_codes.STREAM_NAME_EXIST.err_code
NO_ROOM: Final = error_codes.STORAGE_RESOURCES_EXCEEDED.err_code
NOT_CREATED: Final = error_codes.STREAM_CREATE.err_code
LOST_OFFICE: Final = ApiError.of(error_codes.CLUSTER_NOT_LEADER)
BACKUP: Final = BEGINNING + b"".join(
    map(
        plain_frame,
        [
            MAGIC + encode_entries([Entry(STATE_NAME, payload=b'{"first_seq":1,"last_seq":1}')]),
            encode_entries([Entry(b"r", 1_000, 1, b"", b"x")]),
            encode_entries([END]),
        ],
    )
)


class SetWorld(StreamWorld):
    """A server whose streams are created and deleted by clients of their own, which wait.

    While `is_late`, its catalogue gets its sync when the test says so; while `is_held`, nothing is
    written, as if a quorum had to have the entries first.
    """

    def __init__(self, disk: SimDisk | None = None, sync_always: bool = False) -> None:
        self.is_late = self.is_held = False
        super().__init__(Options(jetstream=streaming(sync_always=sync_always)), disk)

    def ask_for(self, name: str, sender: Peer | None = None, **config: Any) -> int:
        """Ask for a stream without waiting for the answer."""
        subjects = [f"{name.lower()}.>"]
        body = {"name": name, "subjects": subjects, **config}
        return self.call(f"STREAM.CREATE.{name}", body, sender or self.modern())

    def delete(self, name: str) -> int:
        """Ask for the deletion of a stream without waiting for the answer."""
        return self.call(f"STREAM.DELETE.{name}", sender=self.modern())

    def sync_set(self) -> None:
        """Let the catalogue have its sync, if it is not late."""
        if not (self.is_late or self.is_held):
            super().sync_set()

    def commit(self) -> None:
        """Let the disk take what it was given, and all follow from it."""
        was_held, self.is_held = self.is_held, False
        self.host.runners.want_commit()
        self.settle()
        self.finish_checks()
        if not self.is_late:
            super().sync_set()
        self.is_held = was_held

    def retreat(self, error: ApiError = LOST_OFFICE) -> None:
        """Withdraw what is in flight, of which nothing is written."""
        self.host.stream_set.retreat(error)
        self.settle()
        self.sync_set()

    def restore(self, name: str) -> int:
        """Ask for a stream from a backup, and send all of it."""
        config = {"name": name, "subjects": [f"{name.lower()}.>"]}
        asked = self.call(f"STREAM.RESTORE.{name}", {"config": config, "state": {}})
        subject = self.answers[asked]["deliver_subject"]
        self.caller.send(b"PUB %b chunks %d\r\n%b\r\n" % (subject.encode(), len(BACKUP), BACKUP))
        number = self.publish(subject, b"")
        for _ in range(5):
            self.settle()
            self.sync()
        return number

    def names(self) -> list[str]:
        found: list[str] = self.answer(self.call("STREAM.NAMES"))["streams"] or []
        return found

    def answer(self, number: int) -> Any:
        return self.answers[number]

    @property
    def streams(self) -> StreamSet:
        return self.host.stream_set.log.streams


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> SetWorld:
    return holding(SetWorld(), monkeypatch)


def holding(world: SetWorld, monkeypatch: pytest.MonkeyPatch) -> SetWorld:
    """A world that can be held."""
    begin = CatalogueCommit.begin
    monkeypatch.setattr(CatalogueCommit, "begin", lambda self: not world.is_held and begin(self))
    return world


# --- in flight ----------------------------------------------------------------------------------


def test_a_stream_runs_and_its_creation_is_answered_when_the_record_is_on_the_disk(
    world: SetWorld,
) -> None:
    before = world.disk.files()
    world.is_late = True
    asked = world.ask_for("S")
    assert asked not in world.answers
    assert (world.names(), world.disk.files()) == ([], before)
    world.commit()
    assert world.answers[asked]["did_create"]
    assert world.names() == ["S"]


def test_requests_for_a_name_wait_for_the_creation_that_is_in_flight(world: SetWorld) -> None:
    world.is_late = True
    asked = [
        world.ask_for("S"),
        world.ask_for("S"),
        world.ask_for("S", max_msgs=5),
        world.delete("S"),
        world.ask_for("S", max_msgs=5),
    ]
    assert not world.answers
    for _ in range(3):
        world.commit()
    assert world.errors(*asked) == [0, 0, NAME_EXIST, 0, 0]
    assert [*world.answers] == asked, "in the order in which they came"
    assert world.answers[asked[-1]]["config"]["max_msgs"] == 5


def test_any_number_of_requests_may_wait(world: SetWorld) -> None:
    world.is_late = True
    asked = []
    for _ in range(200):
        asked += [world.ask_for("S", storage="memory"), world.delete("S")]
    world.is_late = False
    world.commit()
    assert world.errors(*asked) == [0] * 400


def test_a_creation_is_checked_against_the_streams_that_are_in_flight(world: SetWorld) -> None:
    world.is_late = True
    first = world.ask_for("S", subjects=["s.>"])
    overlapping = world.ask_for("T", subjects=["s.x"])
    world.commit()
    overlap = error_codes.STREAM_SUBJECT_OVERLAP.err_code
    assert world.errors(first, overlapping) == [0, overlap]


def test_a_stream_goes_on_until_its_deletion_is_recorded(world: SetWorld) -> None:
    world.ask_for("S")
    world.is_late = True
    deleted = world.delete("S")
    published = world.publish("s.x")
    assert world.answers[published]["seq"] == 1
    assert deleted not in world.answers
    world.commit()
    assert world.answers[deleted]["success"]
    assert world.errors(world.call("STREAM.INFO.S")) == [NOT_FOUND]


def test_independent_creations_and_deletions_of_a_turn_share_one_sync(
    world: SetWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GONE", "LOST"):
        world.ask_for(name)
    told = [*world.answers]
    world.is_late = True
    sync, syncs = CatalogueCommit.sync, list[CatalogueCommit]()

    def count_sync(self: CatalogueCommit) -> None:
        syncs.append(self)
        sync(self)

    monkeypatch.setattr(CatalogueCommit, "sync", count_sync)
    asked = [world.ask_for("FIRST")]
    asked += [world.ask_for(f"S{number}") for number in range(10)]
    asked += [world.delete("GONE"), world.ask_for("M", storage="memory"), world.delete("LOST")]
    assert not {*asked} & {*world.answers}
    world.commit()
    assert [*world.answers] == told + asked[:1], "the first one began a sync"
    world.commit()
    assert [*world.answers] == told + asked, "in the order in which they came"
    assert len(syncs) == 2


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        ({}, {"subjects": ["s.a"]}, error_codes.STREAM_SUBJECT_OVERLAP.err_code),
        ({"max_bytes": 600_000}, {"max_bytes": 600_000}, NO_ROOM),
        ({"max_bytes": 600_000}, {"max_bytes": 300_000}, 0),
        ({"storage": "memory", "max_bytes": 600_000}, {"max_bytes": 600_000}, 0),
    ],
)
@pytest.mark.parametrize("fails", [False, True])
def test_a_creation_is_refused_only_because_of_a_stream_that_comes(
    first: dict[str, Any], second: dict[str, Any], code: int, fails: bool, world: SetWorld
) -> None:
    world.is_late = True
    world.ask_for("FIRST")
    asked = [world.ask_for("S", **first), world.ask_for("T", **second)]
    world.commit()
    if fails:
        world.disk.fail("create", "*/%24G%2FS/*")
    for _ in range(3):
        world.commit()
    is_there = "storage" in first or not fails
    assert world.errors(*asked) == [0 if is_there else NOT_CREATED, code if is_there else 0]


def test_on_a_full_disk_creations_of_a_sync_are_refused_and_deletions_made(
    world: SetWorld,
) -> None:
    world.ask_for("GONE")
    world.is_late = True
    world.ask_for("FIRST")
    asked = [world.ask_for("S"), world.delete("GONE"), world.ask_for("T")]
    world.disk.fail("write", CATALOGUE, code=ENOSPC, times=None)
    for _ in range(3):
        world.commit()
    assert world.errors(*asked) == [NOT_CREATED, 0, NOT_CREATED]
    assert world.names() == ["FIRST"]


def test_a_publish_behind_a_creation_finds_the_stream_when_the_disk_is_slow(
    world: SetWorld,
) -> None:
    world.is_late = True
    client = world.modern()
    asked = world.ask_for("S", client)
    published = world.push_from(client, "s.x", b"x")
    purged = world.call("STREAM.PURGE.S", sender=client)
    created_behind = world.ask_for("T", client)
    assert not world.answers
    elsewhere = world.publish("s.x")
    received = bytes(world.caller.connection.received)
    assert b"MSG inbox.%d 9 0\r\n" % elsewhere not in received
    assert b"NATS/1.0 503" in received, "others go on, and there is no stream for them yet"
    world.commit()
    assert world.answers[asked]["did_create"]
    assert world.answers[published]["seq"] == 1
    assert world.answers[purged]["purged"] == 1
    world.commit()
    assert world.answers[created_behind]["did_create"]


def test_without_its_turn_a_publish_behind_a_creation_is_lost(
    world: SetWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_service, "_ALONE", ())
    with pytest.raises((AssertionError, KeyError)):
        test_a_publish_behind_a_creation_finds_the_stream_when_the_disk_is_slow(world)


# --- retreat ------------------------------------------------------------------------------------


def test_a_retreat_forgets_streams_that_were_only_proposed_and_answers_their_clients(
    world: SetWorld,
) -> None:
    world.ask_for("KEPT")
    before = world.disk.dump()
    world.is_held = True
    asked = [world.ask_for("S"), world.ask_for("M", storage="memory"), world.ask_for("T")]
    world.retreat()
    assert world.errors(*asked) == [LOST_OFFICE.err_code] * 3
    assert world.disk.dump() == before
    assert world.names() == ["KEPT"]
    again = [world.ask_for(name, max_msgs=5) for name in "SMT"]
    world.commit()
    assert world.errors(*again) == [0, 0, 0]


def test_requests_behind_a_retreat_are_decided_by_the_streams_that_are_left(
    world: SetWorld,
) -> None:
    world.is_held = True
    asked = [world.ask_for("S"), world.delete("S"), world.ask_for("S", max_msgs=5)]
    world.retreat()
    world.commit()
    assert world.errors(*asked) == [LOST_OFFICE.err_code, NOT_FOUND, 0]


def test_a_retreat_leaves_a_stream_whose_deletion_was_only_proposed(world: SetWorld) -> None:
    world.ask_for("S")
    world.publish("s.x")
    before = world.disk.dump()
    world.is_held = True
    asked = world.delete("S")
    world.retreat()
    assert world.errors(asked) == [LOST_OFFICE.err_code]
    assert world.disk.dump() == before
    assert world.answer(world.publish("s.x"))["seq"] == 2


def test_a_retreat_removes_the_log_of_a_restore_that_was_only_proposed(world: SetWorld) -> None:
    before = world.disk.files()
    world.is_held = True
    asked = world.restore("R")
    assert asked not in world.answers
    assert world.disk.files() != before, "the log is filled before its stream is created"
    world.retreat()
    assert world.errors(asked) == [LOST_OFFICE.err_code]
    assert world.disk.files() == before
    world.is_held = False
    assert world.answer(world.restore("R"))["state"]["messages"] == 1


# --- failures -----------------------------------------------------------------------------------


def test_a_creation_that_cannot_be_recorded_makes_no_file(world: SetWorld) -> None:
    world.ask_for("KEPT")
    before = world.disk.files()
    world.disk.fail("sync", CATALOGUE)
    assert world.errors(world.ask_for("S")) == [NOT_CREATED]
    world.disk.heal()
    assert (world.disk.files(), world.names()) == (before, ["KEPT"])


def test_a_stream_that_cannot_be_opened_is_withdrawn_before_its_client_is_told(
    world: SetWorld,
) -> None:
    world.is_late = True
    world.disk.fail("create", f"{FOLDER}/streams/*")
    asked = world.ask_for("S")
    behind = world.ask_for("S")
    world.commit()
    assert asked not in world.answers, "the deletion is in flight"
    world.disk.heal()
    world.commit()
    world.commit()
    assert world.errors(asked, behind) == [NOT_CREATED, 0]


def test_a_record_that_closes_another_incarnation_leaves_the_stream(world: SetWorld) -> None:
    world.ask_for("S")
    why = ApiError.of(error_codes.STREAM_NOT_FOUND)
    world.host.streams.close(Close("$G", "S", bytes(16), why))
    world.host.streams.close(Close("$G", "other", bytes(16), why))
    assert world.answer(world.publish("s.x"))["seq"] == 1


# --- the end of a stream ------------------------------------------------------------------------


def test_proposals_that_a_stream_has_not_committed_are_refused_before_it_is_closed() -> None:
    world = SetWorld(sync_always=True)
    created = world.ask_for("S")
    consumer = {"durable_name": "C", "ack_policy": "explicit", "filter_subject": "s.none"}
    asked = world.call("CONSUMER.CREATE.S.C.s.none", {"stream_name": "S", "config": consumer})
    world.sync()
    world.caller.send(b"SUB pull 8\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.C pull 0\r\n\r\n")
    world.is_late = True
    deleted = world.delete("S")
    in_flight = [world.publish("s.x"), world.call("STREAM.PURGE.S"), world.publish("s.y")]
    assert [*world.answers] == [created, asked]
    world.commit()
    assert world.errors(*in_flight, deleted) == [NOT_FOUND, NOT_FOUND, NOT_FOUND, 0]
    assert [*world.answers][2:] == [*in_flight, deleted], "the deletion is answered last"
    received = bytes(world.caller.connection.received)
    closed_at = received.index(b"Consumer Deleted")
    assert received.index(b"MSG inbox.%d " % in_flight[-1]) < closed_at, "consumers end later"
    assert closed_at < received.index(b"MSG inbox.%d " % deleted)


def test_nothing_that_a_deleted_stream_had_in_flight_comes_back() -> None:
    world = SetWorld(sync_always=True)
    world.ask_for("S")
    world.publish("s.x")
    world.delete("S")
    world.sync()
    assert not any("/streams/" in path for path in world.disk.files())
    again = world.ask_for("S")
    assert world.errors(again) == [0]
    assert world.state()["messages"] == 0
    world.disk.power_loss("strict")
    after = SetWorld(world.disk, sync_always=True)
    assert after.state()["messages"] == 0


def test_an_account_is_purged_by_one_entry() -> None:
    accounts = (
        AccountOptions("A", (UserOptions("user", "p", "A"),), jetstream=AccountLimits()),
        AccountOptions("$SYS", (UserOptions("system", "p", "$SYS"),)),
    )
    world = StoredWorld(Options(jetstream=streaming(), accounts=accounts)).start()
    user = world.modern(user="user", password="p")
    system = world.modern(user="system", password="p")
    for name in ("S", "T"):
        world.request(
            f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [name]}, peer=user
        )
    world.disk.fail("sync", CATALOGUE)
    failed = world.request("$JS.API.ACCOUNT.PURGE.A", peer=system)
    assert failed["error"]["err_code"] == error_codes.STREAM_DELETE.err_code
    world.disk.heal()
    names = world.request("$JS.API.STREAM.NAMES", peer=user)["streams"]
    assert names == ["S", "T"], "none of them is gone"
    assert world.request("$JS.API.ACCOUNT.PURGE.A", peer=system)["initiated"]
    assert world.request("$JS.API.STREAM.NAMES", peer=user)["streams"] is None


# --- any walk -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_any_walk_leaves_the_set_that_its_catalogue_tells(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, rng = holding(SetWorld(), monkeypatch), Random(seed)
    asked = []
    for _ in range(60):
        world.is_held = rng.random() < 0.7
        name = rng.choice("STU")
        request = rng.choice(["create", "create", "delete", "commit", "retreat"])
        if request == "create":
            storage = rng.choice([Storage.FILE, Storage.MEMORY]).value
            asked.append(world.ask_for(name, storage=storage))
        elif request == "delete":
            asked.append(world.delete(name))
        elif request == "commit":
            world.commit()
        else:
            world.retreat()
    for _ in asked:
        world.commit()
    assert set(asked) <= set(world.answers), "every client is answered"
    assert world.names() == sorted(stream.name for stream in world.streams)
    stored = [each for each in world.streams.dump() if '"storage":"file"' in each.config]
    world.node.close_jetstream()
    world.disk.kill()
    again = SetWorld(world.disk)
    assert again.streams.dump() == stored
    assert again.names() == [each.name for each in stored]
