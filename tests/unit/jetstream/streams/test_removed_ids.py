"""An id counts for its window, whatever became of its message, and whatever happened meanwhile."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from headwater.base.clock import NS_PER_S
from headwater.jetstream.config.stream_config import Retention, Storage
from headwater.jetstream.streams import removed_ids
from headwater.store.log.file_log import FileLog
from tests.kit.stream_driver import Publish, StreamDriver

WINDOW_S: Final = 100


def on_disk(**config: Any) -> StreamDriver:
    return StreamDriver(Storage.FILE, duplicate_window=WINDOW_S * NS_PER_S, **config)


def publish(driver: StreamDriver, message_id: str, subject: str = "S.a", **headers: str) -> Any:
    return driver.publish(subject, b"x", Nats_Msg_Id=message_id, **headers).document


def rewritten(driver: StreamDriver) -> None:
    """Rewrite the journal, as upkeep does now and then."""
    log = driver.stream.log
    assert isinstance(log, FileLog)
    work = log.begin_journal_rewrite()
    work.run()
    assert log.journal_rewrites.finish(work)


# The ways out of a stream, for the message with the id "one"; each has a stream of its own.
WAYS: Final[dict[str, tuple[dict[str, Any], Callable[[StreamDriver], object]]]] = {
    "deleted": ({}, lambda driver: driver.delete(1)),
    "purged": ({}, lambda driver: driver.purge()),
    "purged by subject": ({}, lambda driver: driver.purge(b"S.a")),
    "replaced": ({"max_msgs_per_subject": 1}, lambda driver: publish(driver, "two")),
    "beyond a limit": ({"max_msgs": 1}, lambda driver: publish(driver, "two", "S.b")),
    "rolled up": (
        {"allow_rollup_hdrs": True},
        lambda driver: publish(driver, "two", "S.a", Nats_Rollup="sub"),
    ),
    "all rolled up": (
        {"allow_rollup_hdrs": True},
        lambda driver: publish(driver, "two", "S.b", Nats_Rollup="all"),
    ),
    "let go by other settings": ({}, lambda driver: driver.update(max_msgs=1)),
    "of no interest": ({"retention": Retention.INTEREST}, lambda driver: None),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_rewritten", [False, True])
def test_a_duplicate_is_known_after_a_restart(way: str, is_rewritten: bool) -> None:
    config, let_go = WAYS[way]
    driver = on_disk(**config)
    assert publish(driver, "one") == {"stream": "S", "seq": 1}
    publish(driver, "other", "S.b")
    let_go(driver)
    assert driver.stream.message(1) is None
    if is_rewritten:
        rewritten(driver)
    driver.restart()
    driver.restart()
    assert publish(driver, "one") == {"stream": "S", "seq": 1, "duplicate": True}
    driver.check()


def test_until_the_window_is_over() -> None:
    driver = on_disk()
    publish(driver, "one")
    driver.delete(1)
    driver.advance(WINDOW_S - 1)
    driver.restart()
    assert publish(driver, "one")["duplicate"]
    driver.advance(1)
    driver.restart()
    assert publish(driver, "one") == {"stream": "S", "seq": 2}


def test_what_has_to_go_because_of_a_crash_is_known_too() -> None:
    driver = on_disk(max_msgs_per_subject=1)
    publish(driver, "one")
    driver.hold()
    driver.publish_together([Publish("S.a", b"x", {"Nats-Msg-Id": "two"})])
    driver.kill_in_flight()
    assert driver.sequences == [2]
    driver.restart()
    assert publish(driver, "one") == {"stream": "S", "seq": 1, "duplicate": True}


def test_an_id_that_came_again_is_that_of_its_last_message() -> None:
    driver = on_disk()
    publish(driver, "one")
    driver.delete(1)
    driver.advance(WINDOW_S)
    assert publish(driver, "one")["seq"] == 2
    driver.delete(2)
    driver.restart()
    assert publish(driver, "one") == {"stream": "S", "seq": 2, "duplicate": True}


def test_the_last_id_may_be_one_of_them() -> None:
    driver = on_disk()
    publish(driver, "one")
    driver.delete(1)
    driver.restart()
    answer = driver.publish("S.a", b"x", Nats_Expected_Last_Msg_Id="one")
    assert answer.document == {"stream": "S", "seq": 2}


def test_nothing_is_kept_of_what_is_past_the_window() -> None:
    driver = on_disk()
    log = driver.stream.log
    for number in range(10):
        publish(driver, f"{number}")
    driver.purge()
    kinds = [kind for kind, _ in log.caller_entries()] if log.caller_entries else []
    assert kinds == [removed_ids.REMOVED_IDS]
    driver.advance(WINDOW_S)
    while driver.stream.dedupe.forget_before(driver.now_ns):
        pass
    assert log.caller_entries is not None
    assert log.caller_entries() == []


def test_an_entry_is_read_as_it_was_written() -> None:
    entries = [(b"", 1, 5), (b"id", 1 << 63, -5), (b"x" * 65_535, 3, 7)]
    kind, body = removed_ids.encode(entries)
    assert kind == removed_ids.REMOVED_IDS
    assert removed_ids.decode(body) == entries
    assert removed_ids.decode(body[:-1]) == entries[:-1]
    assert removed_ids.decode(body + b"\0") == entries
