"""The position of a consumer: the messages that are still to be delivered."""

from tests.unit.jetstream.consumers.conftest import Consume


def test_pending_follows_everything_that_happens(consume: Consume) -> None:
    driver = consume()
    consumer = driver.create(filter_subjects=("S.a", "S.b"))
    driver.fill("S.a", "S.b", "S.c", "S.a", "S.b")
    assert consumer.position.pending_count() == 4
    driver.pull(1)
    assert consumer.position.pending_count() == 3
    driver.delete(4)
    assert consumer.position.pending_count() == 2
    driver.delete(3)
    assert consumer.position.pending_count() == 2
    driver.fill("S.a", "S.c")
    assert consumer.position.pending_count() == 3
    driver.purge(b"S.b")
    assert consumer.position.pending_count() == 1


def test_what_nobody_sees_is_not_pending(consume: Consume) -> None:
    driver = consume()
    consumer = driver.create(filter_subject="S.a")
    driver.fill("S.a")
    driver.hold()
    driver.fill("S.a", "S.a", "S.b")
    assert consumer.position.pending_count() == 1
    driver.release()
    assert consumer.position.pending_count() == 3
