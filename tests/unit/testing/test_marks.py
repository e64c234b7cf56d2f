"""Marks of a simulated machine outlive its processes, and not the machine."""

from headwater.testing.marks import SimMarks


def test_a_mark_is_changed_in_place_until_the_power_is_lost() -> None:
    marks = SimMarks()
    words = marks.replace("/data", bytes(16))
    words[1] = 5
    assert marks.read("/data") == bytes(8) + (5).to_bytes(8, "little")
    assert marks.read("/other") == b""
    marks.power_loss()
    assert marks.read("/data") == b""
