"""Items are served at the earliest time they were planned for, by one timer for all of them."""

import gc
import weakref
from typing import Final

import pytest

from headwater.base.clock import NS_PER_S
from headwater.server.streams.due_times import STALE_MAX, DueTimes
from tests.kit.hand_scheduler import HandScheduler, HandTimer

MIN_S: Final = 0.01


class World:
    """Due times, the clock they read, and the items they have served."""

    def __init__(self, delay_s_max: float = float("inf"), turn_max: int = 0) -> None:
        self.now_ns = 1_000 * NS_PER_S
        self.scheduler = HandScheduler()
        self.served: list[str] = []
        self.due: DueTimes[str] = DueTimes(
            self.scheduler,
            lambda: self.now_ns,
            delay_s_min=MIN_S,
            delay_s_max=delay_s_max,
            turn_max=turn_max,
        )

    def plan(self, item: str, in_s: float) -> None:
        self.due.plan(item, self.now_ns + round(in_s * NS_PER_S), self.serve)

    def serve(self, item: str, now_ns: int) -> None:
        assert now_ns == self.now_ns
        self.served.append(item)

    @property
    def timers(self) -> list[HandTimer]:
        """The timers that are set."""
        return [timer for timer in self.scheduler.timers if not timer.is_cancelled]

    def fire(self, count: int = 1) -> None:
        """Let the one timer go off, so many times."""
        for _ in range(count):
            (timer,) = self.timers
            self.scheduler.timers.clear()
            self.now_ns += round(timer.delay_s * NS_PER_S)
            timer.call()


def test_items_are_served_in_the_order_of_their_times() -> None:
    world = World()
    for item, in_s in (("c", 3), ("a", 1), ("b", 2), ("b2", 2)):
        world.plan(item, in_s)
    world.fire(3)
    assert world.served == ["a", "b", "b2", "c"]
    assert world.timers == []


def test_an_item_that_is_planned_later_keeps_its_earlier_time() -> None:
    world = World()
    world.plan("a", 1)
    world.plan("a", 5)
    world.fire()
    assert (world.served, world.due.planned) == (["a"], {})


def test_an_item_that_is_planned_earlier_is_served_once_and_then() -> None:
    world = World()
    world.plan("a", 5)
    world.plan("a", 1)
    (timer,) = world.timers
    assert timer.delay_s == pytest.approx(1)
    world.fire(2)
    assert world.served == ["a"]
    assert world.timers == []


def test_an_item_that_is_cancelled_is_not_served() -> None:
    world = World()
    world.plan("a", 1)
    world.plan("b", 2)
    world.due.cancel("a")
    world.due.cancel("unknown")
    world.fire(2)
    assert world.served == ["b"]


def test_an_item_may_be_planned_again_while_it_is_served() -> None:
    world = World()

    def serve_again(item: str, now_ns: int) -> None:
        world.served.append(item)
        if len(world.served) < 3:
            world.due.plan(item, now_ns + NS_PER_S, serve_again)

    world.due.plan("a", world.now_ns + NS_PER_S, serve_again)
    world.fire(3)
    assert world.served == ["a"] * 3
    assert world.timers == []


def test_a_turn_serves_so_many_and_the_rest_follow_in_the_next() -> None:
    world = World(turn_max=2)
    for number in range(5):
        world.plan(f"{number}", 1)
    world.fire()
    assert world.served == ["0", "1"]
    world.fire()
    assert world.served == ["0", "1", "2", "3"]
    world.fire()
    assert world.served == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(("in_s", "delay_s"), [(-3, MIN_S), (0.5, 0.5), (60, 1)])
def test_the_timer_is_never_set_nearer_or_farther_than_allowed(in_s: float, delay_s: float) -> None:
    world = World(delay_s_max=1)
    world.plan("a", in_s)
    (timer,) = world.timers
    assert timer.delay_s == pytest.approx(delay_s)


def test_a_clock_that_is_set_forward_is_noticed_at_the_next_look() -> None:
    world = World(delay_s_max=1)
    world.plan("a", 3600)
    world.fire()
    assert world.served == []
    world.now_ns += 3600 * NS_PER_S
    world.fire()
    assert world.served == ["a"]


def test_an_item_whose_work_fails_keeps_no_other_from_being_served() -> None:
    world = World()

    def fail(item: str, now_ns: int) -> None:
        raise ZeroDivisionError

    world.due.plan("bad", world.now_ns + NS_PER_S, fail)
    world.plan("good", 2)
    with pytest.raises(ZeroDivisionError):
        world.fire()
    world.fire()
    assert world.served == ["good"]


def test_nothing_is_planned_after_the_stop() -> None:
    world = World()
    world.plan("a", 1)
    world.due.stop()
    world.plan("b", 1)
    assert (world.timers, world.due.planned, world.due.entries) == ([], {}, 0)


def test_entries_that_do_not_count_do_not_pile_up() -> None:
    world = World()
    world.plan("kept", 1)
    for number in range(10 * STALE_MAX):
        world.plan("a", 10_000 - number)
    assert world.due.entries <= 2 * 2 + STALE_MAX


def test_a_timer_with_a_longest_delay_forgets_a_cancelled_item_at_once() -> None:
    world = World(delay_s_max=1)
    world.plan("a", 10_000)
    world.due.cancel("a")
    world.fire()
    assert (world.timers, world.due.entries) == ([], 0)


def test_an_item_is_freed_before_its_time_once_it_is_cancelled() -> None:
    class Item:
        def serve(self, item: "Item", now_ns: int) -> None:
            raise AssertionError

    due: DueTimes[Item] = DueTimes(HandScheduler(), lambda: 0, delay_s_min=MIN_S)
    item = Item()
    due.plan(item, NS_PER_S, item.serve)
    seen = weakref.ref(item)
    due.cancel(item)
    del item
    gc.collect()
    assert seen() is None
