"""Somebody removes or cuts files of a store under a server: noticed, told, named after a start."""

from errno import EIO
from typing import Any

import pytest

from headwater.runtime.file_watch import LOOK_S
from headwater.server.configuration.options import Options
from headwater.testing.disk import SimDisk
from tests.kit.stored_world import FOLDER, streaming
from tests.kit.stream_world import STORE_FAILED, StreamWorld

STREAM = f"{FOLDER}/streams/%24G%2FS"
BODY = bytes(100)


@pytest.fixture
def world() -> StreamWorld:
    """Streams S, of several segments, and OTHER."""
    made = StreamWorld(Options(jetstream=streaming()))
    made.create("S", subjects=["s.>"])
    made.create("OTHER", subjects=["other"])
    log(made).segments.bytes_max = 1000
    for _ in range(20):
        made.publish("s.a", BODY)
    return made


def log(world: StreamWorld) -> Any:
    jetstream = world.node.jetstream
    assert jetstream is not None
    return jetstream.accounts["$G"].streams["S"].log


def segments(disk: SimDisk) -> list[str]:
    return [path for path in disk.files() if path.startswith(f"{STREAM}/segment")]


def look(world: StreamWorld) -> None:
    """Let the server look at its files."""
    world.advance(LOOK_S)
    world.sync()


def cut(disk: SimDisk, path: str, left_bytes: int) -> None:
    file = disk.open(path)
    file.truncate(left_bytes)
    file.close()


def remove_folder(disk: SimDisk) -> None:
    for path in [path for path in disk.files() if path.startswith(f"{STREAM}/")]:
        disk.remove(path)
    disk.remove_folder(STREAM)


def restarted(world: StreamWorld) -> StreamWorld:
    world.disk.kill()
    return StreamWorld(world.node.options, world.disk)


def problem(world: StreamWorld) -> str:
    """The problem that /healthz reports of S, and not of the other stream."""
    assert world.health(account="$G", stream="OTHER").status == "ok"
    return world.health(account="$G", stream="S").error


def publish(world: StreamWorld) -> int:
    return world.errors(world.publish("s.a", BODY))[0]


def test_nothing_is_said_of_files_that_the_server_itself_changes(world: StreamWorld) -> None:
    look(world)
    world.call("STREAM.MSG.DELETE.S", {"seq": 3})
    world.call("STREAM.PURGE.S", {"keep": 2})
    look(world)
    publish(world)
    world.call("STREAM.PURGE.S")
    look(world)
    work = log(world).file_checks.begin()
    for _ in range(20):
        publish(world)
    world.call("STREAM.PURGE.S", {"keep": 3})
    work.run()
    assert log(world).file_checks.finish(work) == ""
    look(world)
    assert world.health().status == "ok"
    assert world.complaints == []


@pytest.mark.parametrize("gone", ["folder", "stream.hw", "journal.hw", "segment"])
def test_without_what_the_next_message_relies_on_no_message_is_acknowledged(
    world: StreamWorld, gone: str
) -> None:
    if gone == "folder":
        remove_folder(world.disk)
    elif gone == "segment":
        world.disk.remove(segments(world.disk)[-1])
    else:
        world.disk.remove(f"{STREAM}/{gone}")
    look(world)
    assert "was removed by somebody else" in problem(world)
    assert publish(world) == STORE_FAILED
    look(world)
    assert len(world.complaints) == 1, "told once"
    assert "was removed by somebody else" in world.complaints[0]


def test_a_last_segment_that_is_cut_is_noticed(world: StreamWorld) -> None:
    path = segments(world.disk)[-1]
    cut(world.disk, path, world.disk.size_of(path) - 50)
    look(world)
    assert "was cut short by somebody else" in problem(world)
    assert publish(world) == STORE_FAILED


@pytest.mark.parametrize("how", ["removed", "cut short"])
def test_an_earlier_segment_is_told_and_the_stream_goes_on(world: StreamWorld, how: str) -> None:
    look(world)
    path = segments(world.disk)[1]
    if how == "removed":
        world.disk.remove(path)
    else:
        cut(world.disk, path, 100)
    look(world)
    assert f"was {how} by somebody else" in problem(world)
    assert publish(world) == 0
    after = restarted(world)
    lost = log(after).lost
    assert lost
    assert all(sequence < 20 for _, sequence in lost)
    assert after.state()["messages"] == 21 - sum(last - first + 1 for first, last in lost)
    assert any("Stream $G/S: missing" in line or "damaged" in line for line in after.log_lines)


@pytest.mark.parametrize("left", ["nothing", "some"])
def test_no_sequence_of_a_lost_end_is_given_out_again(world: StreamWorld, left: str) -> None:
    path = segments(world.disk)[-1]
    last = world.state()["last_seq"]
    if left == "nothing":
        world.disk.remove(path)
    else:
        # The cut is at the end of a record: the file alone does not show it.
        cut(world.disk, path, log(world).index.segments[-1].offsets[1])
    look(world)
    after = restarted(world)
    assert last in log(after).lost
    assert any("Stream $G/S: lost: sequences" in line for line in after.log_lines)
    number = after.publish("s.a", BODY)
    assert after.answers[number]["seq"] > last


def test_a_message_that_can_not_be_read_is_told(world: StreamWorld) -> None:
    world.disk.flip_bit(segments(world.disk)[0], 150, 3)
    world.call("STREAM.MSG.GET.S", {"seq": 1})
    look(world)
    assert "1 messages cannot be read any more" in problem(world)
    assert any("cannot be read any more: lost" in line for line in world.complaints)


def test_a_stream_whose_folder_is_gone_is_named_as_lost_until_it_is_there_again(
    world: StreamWorld,
) -> None:
    remove_folder(world.disk)
    for after in (restarted(world), restarted(world)):
        assert "JetStream stream '$G > S' is lost" in problem(after)
        assert any("stream $G/S: lost" in line for line in after.log_lines)
    after.create("S", subjects=["s.>"])
    assert after.health().status == "ok"
    assert restarted(after).health().status == "ok"


def test_a_stream_that_was_deleted_is_not_missed(world: StreamWorld) -> None:
    world.call("STREAM.DELETE.S")
    assert restarted(world).health().status == "ok"


def test_a_stream_of_before_there_was_a_catalogue_is_in_it(world: StreamWorld) -> None:
    world.disk.remove(f"{FOLDER}/catalogue.hw")
    after = restarted(world)
    assert after.health().status == "ok"
    remove_folder(after.disk)
    assert "is lost" in problem(restarted(after))


def test_a_lock_file_that_is_removed_is_told_and_put_back(world: StreamWorld) -> None:
    world.disk.remove(f"{FOLDER}/lock")
    look(world)
    assert "lock was removed by somebody else" in world.health().error
    assert len(world.complaints) == 1
    assert world.disk.exists(f"{FOLDER}/lock")
    look(world)
    assert world.health().status == "ok"


def test_a_disk_that_can_not_be_asked_is_no_disk_without_files(world: StreamWorld) -> None:
    check = log(world).file_checks.begin()

    def refuse(path: str) -> int:
        raise OSError(EIO, "no answer", path)

    world.disk.size_of = refuse  # type: ignore[method-assign]
    check.run()
    assert log(world).file_checks.finish(check) == ""
