"""The servers of properties have shadows, which find a record that is not the whole change."""

from tests.kit.shadow_faults import FAULT, faults_without_a_field
from tests.kit.stored_world import StoredWorld


def remove_a_message() -> None:
    """Have a server remove a message."""
    world = StoredWorld().start()
    world.create("S")
    for _ in range(2):
        world.request("s", "x")
    world.request("$JS.API.STREAM.MSG.DELETE.S", {"seq": 1})


def test_a_field_that_is_not_in_the_bytes_of_a_record_is_found() -> None:
    assert FAULT in faults_without_a_field(remove_a_message)
