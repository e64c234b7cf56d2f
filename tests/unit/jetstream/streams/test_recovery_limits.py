"""The effects of messages that were stored when a process died follow when they come back.

Between the log and the effect of a record lies the disk. A process that dies there leaves messages
whose limits and roll-ups nobody has carried out: readers must never find out, and neither must a
publisher that tries again and is told that its message is there already.
"""

from errno import ENOSPC
from typing import Any, Final, NamedTuple

import pytest

from headwater.jetstream.config.stream_config import Discard, Storage
from headwater.jetstream.streams.look_ahead import IN_FLIGHT_MESSAGES_MAX
from headwater.jetstream.streams.publishing.batch_limits import ATOMIC_PER_STREAM_MAX, BatchLimits
from headwater.jetstream.streams.recovery import first_unsure
from headwater.store.log.message_log import StoreError
from tests.kit.stream_driver import Publish, StreamDriver

ROLL_UP_SUBJECT: Final = {"Nats-Rollup": "sub"}
ROLL_UP_ALL: Final = {"Nats-Rollup": "all"}
JOURNAL: Final = "*journal*"


def on(letters: str, **headers: str) -> list[Publish]:
    """A message to each of some subjects."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return [Publish(f"S.{letter}", b"x", named) for letter in letters]


class Scene(NamedTuple):
    """The messages of a stream, those in flight when it died, and the sequences left afterwards."""

    config: dict[str, Any]
    before: list[Publish]
    in_flight: list[Publish]
    left: list[int]


SCENES: Final = {
    "values of a key": Scene({"max_msgs_per_subject": 1}, on("ab"), on("a"), [2, 3]),
    "several of them": Scene({"max_msgs_per_subject": 2}, on("aab"), on("aaab"), [3, 5, 6, 7]),
    "a number of messages": Scene({"max_msgs": 2}, on("ab"), on("cd"), [3, 4]),
    "a number of bytes": Scene({"max_bytes": 80}, on("ab"), on("c"), [2, 3]),
    "keys and a number": Scene(
        {"max_msgs_per_subject": 1, "max_msgs": 2}, on("ab"), on("bc"), [3, 4]
    ),
    "a subject rolled up": Scene(
        {"allow_rollup_hdrs": True}, on("aab"), on("a", Nats_Rollup="sub"), [3, 4]
    ),
    "all rolled up": Scene({"allow_rollup_hdrs": True}, on("aab"), on("c", Nats_Rollup="all"), [4]),
    "nothing that came after": Scene(
        {"allow_rollup_hdrs": True}, on("a"), [*on("a", Nats_Rollup="sub"), *on("ab")], [2, 3, 4]
    ),
    "one roll-up after another": Scene(
        {"allow_rollup_hdrs": True},
        on("ab"),
        [*on("b", Nats_Rollup="all"), *on("ab"), *on("a", Nats_Rollup="sub")],
        [3, 5, 6],
    ),
    "nothing where the publisher is refused": Scene(
        {"max_msgs": 2, "discard": Discard.NEW}, on("a"), on("bc"), [1, 2]
    ),
    "nothing without limits": Scene({}, on("aa"), on("a"), [1, 2, 3]),
}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_what_has_to_go_goes_also_if_the_process_died_before(scene: Scene) -> None:
    driver = StreamDriver(Storage.FILE, **scene.config)
    driver.publish_together(scene.before)
    driver.hold()
    driver.publish_together(scene.in_flight)
    driver.kill_in_flight()
    assert driver.sequences == scene.left
    driver.restart()


@pytest.mark.parametrize("roll_up", [ROLL_UP_SUBJECT, ROLL_UP_ALL], ids=["subject", "all"])
def test_a_roll_up_that_counts_as_a_duplicate_was_carried_out(roll_up: dict[str, str]) -> None:
    driver = StreamDriver(Storage.FILE, allow_rollup_hdrs=True)
    driver.fill("S.a", "S.a")
    driver.hold()
    publish = Publish("S.a", b"x", {**roll_up, "Nats-Msg-Id": "id"})
    assert driver.publish_together([publish]) == []
    driver.kill_in_flight()
    [retried] = driver.publish_together([publish])
    assert retried.document == {"stream": "S", "seq": 3, "duplicate": True}
    assert driver.sequences == [3]


def test_a_roll_up_is_found_again_however_much_came_after_it() -> None:
    """After a power loss, messages may be on the disk while the journal is not."""
    driver = StreamDriver(Storage.FILE, BatchLimits(messages_max=1), allow_rollup_hdrs=True)
    driver.fill("S.a")
    driver.hold()
    driver.publish_together(on("b", Nats_Rollup="all"))
    for _ in range(6):
        driver.fill(*["S.c"] * 10_000)
    driver.kill_in_flight()
    assert driver.stream.log.first_sequence == 2


def test_only_what_may_not_have_been_carried_out_is_looked_at() -> None:
    limits = BatchLimits(messages_max=1)
    driver = StreamDriver(Storage.FILE, limits, allow_rollup_hdrs=True)
    in_flight_max = 2 * IN_FLIGHT_MESSAGES_MAX + ATOMIC_PER_STREAM_MAX
    driver.fill(*["S.a"] * (in_flight_max + 6))
    driver.kill()
    assert first_unsure(driver.stream.log, limits) == 1, "nothing tells what was carried out"
    driver.publish_together(on("b"))
    driver.publish_together(on("b", Nats_Rollup="sub"))
    driver.kill()
    log = driver.stream.log
    assert first_unsure(log, limits) == log.last_sequence + 1 - in_flight_max


def test_limits_that_were_written_down_hold_after_a_crash() -> None:
    """The settings are durable before the messages beyond their limits are removed."""
    driver = StreamDriver(Storage.FILE)
    driver.fill("S.a", "S.a", "S.b")
    fault = driver.disk.fail("write", JOURNAL, code=ENOSPC, times=None)
    with pytest.raises(StoreError):
        driver.update(max_msgs_per_subject=1)
    driver.disk.heal(fault)
    driver.kill()
    assert driver.sequences == [2, 3]


def test_what_waited_and_was_in_no_log_has_not_happened() -> None:
    driver = StreamDriver(Storage.FILE)
    driver.fill("S.a", "S.b")
    driver.hold()
    driver.delete(1)
    driver.purge()
    assert driver.sequences == [1, 2]
    driver.kill_in_flight()
    assert driver.sequences == [1, 2]


def test_a_disk_that_is_full_does_not_keep_a_stream_from_coming_back() -> None:
    driver = StreamDriver(Storage.FILE, max_msgs=1)
    driver.fill("S.a")
    driver.disk.fail("write", JOURNAL, code=ENOSPC, times=None)
    with pytest.raises(StoreError):
        driver.fill("S.a")
    driver.kill()
    assert driver.stream.log.is_full
    assert driver.sequences == [2]
    driver.kill()
    assert driver.sequences == [2], "the removal is not on the disk, and is made once more"
