"""The set of streams and the folders of a store: which of them counts, and what is reported."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from headwater.jetstream.config.stream_config import Storage, StreamConfig
from headwater.jetstream.proposal import Proposal
from headwater.jetstream.records import StreamCreated, StreamDeleted, StreamSetRecord
from headwater.server.configuration.options import Options
from headwater.server.streams.storage.resources import resources_of
from headwater.server.streams.storage.stream_set_log import StreamKey
from headwater.server.streams.storage.stream_store import StreamStore
from headwater.store.disk.format import StreamFile
from headwater.store.recovery.catalogue import CATALOGUE_FILE, CREATED, CatalogueEntry
from headwater.store.store import open_store
from headwater.testing.disk import SimDisk
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.stored_world import FOLDER, StoredWorld, streaming
from tests.kit.stream_world import StreamWorld

# A store that was written when its catalogue had only names: streams S and OTHER; GONE was deleted,
# and somebody has removed the folder of LOST.
NAMES_STORE = Path(__file__).parents[4] / "kit" / "stores" / "streams_by_name.json"
CATALOGUE = f"{FOLDER}/{CATALOGUE_FILE}"


def folder_of(name: str) -> str:
    return f"{FOLDER}/streams/%24G%2F{name}"


def started(disk: SimDisk) -> StreamWorld:
    return StreamWorld(Options(jetstream=streaming()), disk)


def stopped(world: StreamWorld) -> SimDisk:
    world.node.close_jetstream()
    world.disk.kill()
    return world.disk


def with_streams(*names: str) -> SimDisk:
    """The disk of a server that has stopped."""
    world = started(SimDisk())
    for number, name in enumerate(names, 1):
        world.create(name, subjects=[f"{name.lower()}.>"])
        for _ in range(number):
            world.publish(f"{name.lower()}.x")
    return stopped(world)


def files_in(disk: SimDisk, folder: str) -> dict[str, bytes]:
    return {path: data for path, data in disk.dump().items() if path.startswith(f"{folder}/")}


def remove(disk: SimDisk, folder: str) -> None:
    for path in files_in(disk, folder):
        disk.remove(path)
    disk.remove_folder(folder)


def put(disk: SimDisk, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        disk.make_folder(path.rpartition("/")[0])
        if disk.exists(path):
            disk.remove(path)
        file = disk.create(path)
        file.write(data)
        file.close()


def messages(world: StreamWorld) -> dict[str, int]:
    """The number of messages of each stream that runs."""
    number = world.call("STREAM.LIST")
    listed: list[Any] = world.answers[number]["streams"] or []
    return {stream["config"]["name"]: stream["state"]["messages"] for stream in listed}


def reports(world: StreamWorld) -> list[str]:
    return [line.split("store: ")[1].strip() for line in world.log_lines if "store: " in line]


def test_a_folder_without_a_record_is_adopted_and_reported_once() -> None:
    disk = with_streams("S", "T")
    put(disk, files_in(with_streams("A", "B", "C"), folder_of("C")))
    world = started(disk)
    assert messages(world) == {"S": 1, "T": 2, "C": 3}
    assert reports(world) == ["adopted: stream $G/C: its folder was there without a record"]
    again = started(stopped(world))
    assert messages(again) == messages(world)
    assert reports(again) == []
    remove(disk, folder_of("C"))
    assert "missing: stream $G/C: lost" in reports(started(stopped(again)))[0]


def test_a_folder_of_a_deleted_stream_that_somebody_puts_back_is_adopted() -> None:
    disk = with_streams("S", "T")
    kept = files_in(disk, folder_of("T"))
    world = started(disk)
    world.call("STREAM.DELETE.T")
    put(stopped(world), kept)
    again = started(disk)
    assert messages(again) == {"S": 1, "T": 2}
    assert reports(again) == ["adopted: stream $G/T: its folder was there without a record"]


def test_a_folder_of_another_incarnation_is_adopted_in_place_of_the_recorded_one() -> None:
    disk = with_streams("S", "T")
    remove(disk, folder_of("S"))
    put(disk, files_in(with_streams("Q", "R", "S"), folder_of("S")))
    world = started(disk)
    assert messages(world) == {"S": 3, "T": 2}
    [report] = reports(world)
    assert report == (
        "adopted: stream $G/S: its folder is of another incarnation than the recorded one"
    )
    again = started(stopped(world))
    assert reports(again) == []
    assert messages(again) == {"S": 3, "T": 2}


def test_a_stream_whose_files_are_gone_can_be_created_again() -> None:
    disk = with_streams("S", "T")
    remove(disk, folder_of("S"))
    world = started(disk)
    assert messages(world) == {"T": 2}
    for storage in ("file", "memory"):
        again = started(stopped(world).clone())
        again.create("S", storage=storage)
        assert messages(again) == {"T": 2, "S": 0}
        assert again.health().status == "ok"
        last = started(stopped(again))
        assert reports(last) == []
        assert messages(last) == {"T": 2, **({"S": 0} if storage == "file" else {})}


def test_a_stream_whose_folder_a_crash_has_kept_from_being_made_is_made() -> None:
    world = started(SimDisk())
    world.create("S", subjects=["s.>"], description="the configuration", first_seq=7)
    disk = stopped(world)
    remove(disk, folder_of("S"))
    # As if the process had died right behind the record.
    store = open_store(disk, FOLDER, SeededEntropy(labelled_rng(1, "store")), disk.boot_id)
    recorded = store.catalogue.state.streams["$G/S"]
    store.catalogue_commit.write(
        [CatalogueEntry(CREATED, "$G/S", recorded.identity, recorded.record)]
    )
    store.abandon()
    disk.kill()
    again = started(disk)
    assert reports(again) == []
    number = again.call("STREAM.INFO.S")
    info = again.answers[number]
    assert info["config"]["description"] == "the configuration"
    assert info["created"] == "2026-01-02T03:04:05Z"
    number = again.publish("s.x")
    assert again.answers[number]["seq"] == 7


def test_a_creation_that_fails_after_its_record_leaves_no_stream() -> None:
    world = started(SimDisk())
    world.disk.fail("create", f"{folder_of('S')}/*")
    failed = world.create("S")
    assert failed["error"]["err_code"] == 10049
    world.disk.heal()
    assert messages(world) == {}
    assert messages(started(world.disk.clone())) == {}
    assert "error" not in world.create("S")
    again = started(stopped(world))
    assert messages(again) == {"S": 0}
    assert reports(again) == []


def test_a_deletion_that_can_not_be_recorded_leaves_the_stream_as_it_is() -> None:
    world = started(with_streams("S", "T"))
    world.disk.fail("sync", CATALOGUE)
    number = world.call("STREAM.DELETE.S")
    assert world.answers[number]["error"]["err_code"] == 10050
    world.disk.heal()
    number = world.publish("s.x")
    assert world.answers[number]["seq"] == 2
    assert messages(world) == {"S": 2, "T": 2}


def test_a_stream_in_memory_is_in_no_record() -> None:
    world = started(SimDisk())
    world.create("M", storage="memory")
    exists = world.create("M", storage="file")
    assert exists["error"]["err_code"] == 10058
    world.call("STREAM.DELETE.M")
    assert "error" not in world.create("M", storage="memory")
    assert not world.disk.exists(CATALOGUE)
    assert messages(started(stopped(world))) == {}


@pytest.mark.parametrize("damage", ["gone", "header", "entry"])
def test_without_a_sound_catalogue_streams_are_found_by_their_folders(damage: str) -> None:
    disk = with_streams("S", "T")
    if damage == "gone":
        disk.remove(CATALOGUE)
    else:
        disk.flip_bit(CATALOGUE, 20 if damage == "header" else 120, 1)
    world = started(disk)
    assert messages(world) == {"S": 1, "T": 2}
    [report] = reports(world)
    assert report.endswith("streams are found by their folders")
    world.call("STREAM.DELETE.S")
    again = started(stopped(world))
    assert messages(again) == {"T": 2}
    assert reports(again) == []
    assert disk.exists(f"{FOLDER}/set-aside/{CATALOGUE_FILE}.0") is (damage != "gone")


def test_a_store_of_a_time_when_the_catalogue_had_names_is_migrated() -> None:
    disk = SimDisk()
    kept = json.loads(NAMES_STORE.read_text())
    put(disk, {path: b64decode(data) for path, data in kept.items()})
    world = started(disk)
    assert messages(world) == {"S": 2, "OTHER": 1}
    [report] = reports(world)
    assert report.startswith("missing: stream $G/LOST: lost")
    number = world.call("CONSUMER.INFO.S.C")
    assert world.answers[number]["num_pending"] == 2
    world.call("STREAM.DELETE.OTHER")
    world.create("LOST")
    again = started(stopped(world))
    assert messages(again) == {"S": 2, "LOST": 0}
    assert reports(again) == []
    path = f"{folder_of('S')}/stream.hw"
    identity = StreamFile.decode(disk.dump()[path], path).identity
    stopped(again)
    store = open_store(disk, FOLDER, SeededEntropy(labelled_rng(1, "store")), disk.boot_id)
    assert store.catalogue.state.streams["$G/S"].identity == identity


@pytest.mark.parametrize("storage", [Storage.FILE, Storage.MEMORY])
def test_a_stream_that_is_created_and_deleted_by_one_sync_leaves_no_record_and_no_folder(
    storage: Storage,
) -> None:
    disk = SimDisk()
    environment, options = StoredWorld(disk=disk).node.environment, streaming()
    files = StreamStore(options, resources_of(options, environment), environment)
    log, streams = files.set_log, files.set_log.streams
    creation = files.decide_creation("A", StreamConfig(name="S", storage=storage), 1)
    [created] = creation.records
    deletion: Proposal[StreamSetRecord] = Proposal([StreamDeleted("A", "S", created.incarnation)])
    for index, entry in enumerate((creation, deletion), 1):
        entry.index = index
        streams.append(entry.records[0])
        log.add_entry(entry)
    log.commit()
    assert log.synced_entry == 2
    assert isinstance(created, StreamCreated)
    # As if the process had died between the effects of the two.
    files.make_log(created)
    disk.kill()
    again = started(disk)
    assert (messages(again), reports(again)) == ({}, [])
    assert not files_in(again.disk, f"{FOLDER}/streams")


def test_the_key_of_a_stream_is_read_back() -> None:
    key = StreamKey("an account", "S")
    assert StreamKey.parse(str(key)) == key
