"""Sequences are reserved in the synced stream file before they are given out."""

import errno

import pytest

from headwater.store.disk.filesystem import read_file
from headwater.store.disk.format import StreamFile
from headwater.store.disk.layout import STREAM_FILE
from headwater.store.errors import OfflineError
from headwater.store.log.message_log import DiskFullError
from headwater.store.log.stream_file import RESERVED_AT_A_TIME
from headwater.testing.disk import SimDisk
from tests.kit.logs import FOLDER, add_messages, new_log

PATH = f"{FOLDER}/{STREAM_FILE}"


def on_disk(disk: SimDisk) -> StreamFile:
    return StreamFile.decode(read_file(disk, PATH), PATH)


def test_the_first_message_reserves_many_sequences_durably() -> None:
    disk = SimDisk()
    new_log(disk, messages=1)
    disk.power_loss("strict")
    assert on_disk(disk).reserved == 1 + RESERVED_AT_A_TIME


def test_sequences_that_are_reserved_cost_no_write_of_the_stream_file() -> None:
    disk = SimDisk()
    log = new_log(disk, messages=1)
    disk.fail("create", f"{FOLDER}/.{STREAM_FILE}*")
    add_messages(log, 5)
    assert log.last_sequence == 6


def test_a_reservation_without_room_is_made_when_there_is_room() -> None:
    disk = SimDisk()
    log = new_log(disk)
    disk.fail("write", f"{FOLDER}/.{STREAM_FILE}*", code=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        add_messages(log, 1)
    assert log.availability.room.look_for_room()
    add_messages(log, 1)
    disk.power_loss("strict")
    assert on_disk(disk).reserved == 1 + RESERVED_AT_A_TIME


def test_a_body_that_could_not_be_written_is_not_the_body() -> None:
    disk = SimDisk()
    log = new_log(disk)
    disk.fail("sync", f"{FOLDER}/.{STREAM_FILE}*")
    with pytest.raises(OfflineError):
        log.set_body(b"another")
    assert log.body == b"body"
    assert on_disk(disk).body == b"body"
