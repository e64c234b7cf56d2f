"""A failure takes a log offline; a disk without room does not."""

import errno

import pytest

from headwater.store.disk.filesystem import NoRoomError
from headwater.store.disk.room import Room
from headwater.store.errors import DiskFullError, OfflineError
from headwater.store.log.availability import Availability
from headwater.testing.disk import SimDisk


@pytest.fixture
def availability() -> Availability:
    return Availability("/log", Room(SimDisk(), "/log"))


def test_a_new_log_can_be_written_to(availability: Availability) -> None:
    availability.check_writable()
    assert availability.offline == ""


def test_a_write_that_found_no_room_refuses_messages_and_stays_online(
    availability: Availability,
) -> None:
    error = availability.failed("append", NoRoomError(errno.ENOSPC, "No space left on device"))
    assert isinstance(error, DiskFullError)
    availability.check_online()
    with pytest.raises(DiskFullError, match="/log: no space left"):
        availability.check_writable()


def test_a_failure_takes_the_log_offline_and_says_how_to_go_on(availability: Availability) -> None:
    error = availability.failed("sync", OSError(errno.EIO, "broken"))
    assert isinstance(error, OfflineError)
    assert "sync failed" in str(error)
    assert "restart the server to write again" in str(error)
    with pytest.raises(OfflineError, match="offline for writes: sync failed"):
        availability.check_writable()


def test_an_operation_done_by_half_takes_the_log_offline_though_it_lacked_room(
    availability: Availability,
) -> None:
    availability.broken("skip", NoRoomError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OfflineError):
        availability.check_online()


def test_the_first_reason_to_be_offline_is_the_one_that_is_told(
    availability: Availability,
) -> None:
    availability.go_offline("the write-ahead file failed")
    availability.go_offline("closed")
    assert availability.offline == "the write-ahead file failed"
