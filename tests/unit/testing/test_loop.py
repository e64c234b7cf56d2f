"""The virtual loop keeps asyncio's promises, and fails loudly where asyncio would only log."""

import asyncio
import contextvars
import gc
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from headwater.base.errors import ProgrammerError
from headwater.testing import Deadlock, Runaway, UnhandledException, World

Log = list[str]
Program = Callable[[Log], Coroutine[Any, Any, None]]


async def callbacks_in_order(log: Log) -> None:
    """First in, first out: callbacks of a callback come after those that were scheduled before."""
    loop = asyncio.get_running_loop()
    loop.call_soon(log.append, "first")
    loop.call_soon(lambda: loop.call_soon(log.append, "third"))
    loop.call_soon(log.append, "second")
    cancelled = loop.call_soon(log.append, "never")
    cancelled.cancel()
    await asyncio.sleep(0)
    log.append("main")
    await asyncio.sleep(0)


async def timers_by_time(log: Log) -> None:
    """Timers run in the order of their times, whatever the order of their making."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_later(0.03, done.set_result, None)
    loop.call_later(0.02, log.append, "late")
    loop.call_later(0.01, log.append, "early")
    handle = loop.call_at(loop.time() + 0.015, log.append, "never")
    handle.cancel()
    log.append(str(handle.cancelled()))
    await done


async def timeouts(log: Log) -> None:
    """`asyncio.timeout` and `wait_for` cancel and report."""
    try:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()
    except TimeoutError:
        log.append("timeout")
    try:
        await asyncio.wait_for(asyncio.sleep(10), 0.01)
    except TimeoutError:
        log.append("wait_for")
    log.append(await asyncio.wait_for(asyncio.sleep(0, "in time"), 10))


async def queues_and_locks(log: Log) -> None:
    """Waiters are served in the order they came."""
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
    lock = asyncio.Lock()

    async def consume(name: str) -> None:
        async with lock:
            log.append(f"{name} {await queue.get()}")

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(consume(name))
        for number in range(3):
            await queue.put(number)


async def cancellation(log: Log) -> None:
    """A cancelled task runs its `finally` before the task that cancelled it goes on."""

    async def stubborn() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            log.append("finally")

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    task.cancel()
    results = await asyncio.gather(task, return_exceptions=True)
    log.append(type(results[0]).__name__)


async def gathering(log: Log) -> None:
    """Results come in the order of the arguments, the first exception ends the wait."""

    async def after(delay_s: float, value: str) -> str:
        await asyncio.sleep(delay_s)
        log.append(value)
        return value

    log.append(",".join(await asyncio.gather(after(0.02, "slow"), after(0.01, "fast"))))
    done, pending = await asyncio.wait(
        [asyncio.create_task(after(0.01, "one")), asyncio.create_task(after(5, "other"))],
        return_when=asyncio.FIRST_COMPLETED,
    )
    log.append(f"{len(done)} {len(pending)}")
    for task in pending:
        task.cancel()


async def executors(log: Log) -> None:
    """Work comes back as a result or as an exception."""
    loop = asyncio.get_running_loop()
    log.append(str(await loop.run_in_executor(None, sum, (1, 2))))
    log.append(await asyncio.to_thread(str.upper, "thread"))
    with pytest.raises(ZeroDivisionError):
        await loop.run_in_executor(None, divmod, 1, 0)


async def contexts(log: Log) -> None:
    """A task sees the variables as they were when it was made."""
    variable = contextvars.ContextVar("variable", default="default")

    async def show() -> None:
        await asyncio.sleep(0)
        log.append(variable.get())

    first = asyncio.create_task(show())
    variable.set("changed")
    await asyncio.gather(first, asyncio.create_task(show()))


async def generators(log: Log) -> None:
    """An async generator left half-way is closed by the loop."""

    async def numbers() -> Any:
        try:
            for number in range(10):
                yield number
        finally:
            await asyncio.sleep(0)
            log.append("closed")

    async for number in numbers():
        log.append(str(number))
        break
    gc.collect()
    for _ in range(5):
        await asyncio.sleep(0)


PROGRAMS: tuple[Program, ...] = (
    callbacks_in_order,
    timers_by_time,
    timeouts,
    queues_and_locks,
    cancellation,
    gathering,
    executors,
    contexts,
    generators,
)


async def on_any_loop(program: Program, log: Log, world: World) -> None:
    await program(log)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_cannot_tell_the_loop_from_asyncio(program: Program) -> None:
    real: Log = []
    asyncio.run(program(real))
    for seed in range(5):
        simulated: Log = []
        World(seed).run(partial(on_any_loop, program, simulated))
        assert simulated == real


def test_time_jumps_to_the_next_timer() -> None:
    async def main(world: World) -> float:
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        await asyncio.sleep(86_400)
        return loop.time() - begin_s

    world = World(1)
    assert world.run(main) == pytest.approx(86_400, abs=0.001)
    assert world.loop.callbacks_run < 20


def test_polling_moves_time() -> None:
    async def main(world: World) -> float:
        loop = asyncio.get_running_loop()
        passed = loop.create_future()
        begin_s = loop.time()
        until_s = begin_s + 0.01

        def poll() -> None:
            if loop.time() < until_s:
                loop.call_soon(poll)
            else:
                passed.set_result(None)

        poll()
        await passed
        return loop.time() - begin_s

    assert World(1).run(main) >= 0.01


def test_waiting_for_nothing_is_a_deadlock_that_names_the_task() -> None:
    async def waits_in_vain() -> None:
        await asyncio.Event().wait()

    async def main(world: World) -> None:
        await world.host("server-1").run(waits_in_vain())

    with pytest.raises(Deadlock, match=r"server-1: .*waits_in_vain"):
        World(1).run(main)


def test_a_deadlock_says_who_is_paused() -> None:
    async def main(world: World) -> None:
        task = world.host("server-1").spawn(asyncio.sleep(1))
        world.pause("server-1")
        await task

    with pytest.raises(Deadlock, match=r"server-1 \(paused\)"):
        World(1).run(main)


def test_callbacks_are_bounded() -> None:
    async def main(world: World) -> None:
        def again() -> None:
            asyncio.get_running_loop().call_soon(again)

        again()
        await asyncio.Event().wait()

    with pytest.raises(Runaway, match="more than 1000 callbacks"):
        World(1, callbacks_max=1000).run(main)


def test_virtual_time_is_bounded() -> None:
    async def main(world: World) -> None:
        def again() -> None:
            asyncio.get_running_loop().call_later(60, again)

        again()
        await asyncio.Event().wait()

    with pytest.raises(Runaway, match="virtual time"):
        World(1, virtual_s_max=3600).run(main)


def test_an_exception_in_a_callback_fails_the_run() -> None:
    async def main(world: World) -> None:
        asyncio.get_running_loop().call_soon(divmod, 1, 0)
        await asyncio.sleep(1)

    with pytest.raises(UnhandledException, match="Exception in callback") as failure:
        World(1).run(main)
    assert isinstance(failure.value.__cause__, ZeroDivisionError)


def test_a_task_that_fails_unheard_fails_the_run() -> None:
    async def fails() -> None:
        raise ValueError("unheard")

    async def main(world: World) -> None:
        world.host("server-1").spawn(fails())
        await asyncio.sleep(1)

    with pytest.raises(UnhandledException, match="never retrieved"):
        World(1).run(main)


def test_a_failure_found_only_by_the_last_collection_fails_the_run() -> None:
    async def main(world: World) -> None:
        future = asyncio.get_running_loop().create_future()
        cycle: list[Any] = [future]
        cycle.append(cycle)
        future.set_exception(ValueError("in a cycle"))

    with pytest.raises(UnhandledException, match="in a cycle"):
        World(1).run(main)


def test_executor_work_can_overtake() -> None:
    async def main(world: World) -> list[int]:
        loop = asyncio.get_running_loop()
        finished: list[int] = []
        await asyncio.gather(
            *(loop.run_in_executor(None, finished.append, number) for number in range(5))
        )
        return finished

    orders = {tuple(World(seed).run(main)) for seed in range(10)}
    assert len(orders) > 1
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in orders)


def test_hosts_take_turns_in_an_order_the_seed_decides() -> None:
    async def main(world: World) -> str:
        order: list[str] = []

        async def step(name: str) -> None:
            order.append(name)

        await asyncio.gather(*(world.host(name).run(step(name)) for name in "abcd"))
        return "".join(order)

    orders = [World(seed).run(main) for seed in range(20)]
    assert orders == [World(seed).run(main) for seed in range(20)]
    assert len(set(orders)) > 5


def test_sets_of_tasks_iterate_the_same_in_every_run() -> None:
    async def main(world: World) -> list[str]:
        tasks = {asyncio.create_task(asyncio.sleep(0), name=f"task {n}") for n in range(20)}
        order = [task.get_name() for task in tasks]
        await asyncio.wait(tasks)
        return order

    # Other live objects move the addresses by which asyncio's own tasks would hash.
    ballast = []
    orders = []
    for size in range(5):
        ballast.append([object() for _ in range(1000 * size)])
        orders.append(World(1).run(main))
    assert orders == [orders[0]] * 5


def test_many_cancelled_timers_do_not_pile_up() -> None:
    async def main(world: World) -> None:
        loop = asyncio.get_running_loop()
        kept = loop.call_later(3600, int)
        for _ in range(10_000):
            loop.call_later(3600, int).cancel()
        assert len(world.loop._timers) < 1000
        kept.cancel()

    World(1).run(main)


def test_nothing_runs_after_the_end() -> None:
    log: Log = []

    async def lingers() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            # A program that cleans up on its way out meets a loop that no longer runs.
            log.append("closed")
            asyncio.get_running_loop().call_soon(log.append, "never")

    async def main(world: World) -> None:
        world.host("server-1").spawn(lingers())
        await asyncio.sleep(1)

    World(1).run(main)
    assert log == ["closed"]


def test_a_world_runs_once() -> None:
    async def main(world: World) -> None:
        pass

    world = World(1)
    world.run(main)
    with pytest.raises(ProgrammerError, match="make a new one"):
        world.run(main)


def test_there_is_no_tls() -> None:
    async def main(world: World) -> None:
        with pytest.raises(NotImplementedError, match="real sockets"):
            await asyncio.open_connection("outside", 4222, ssl=True)

    World(1).run(main)
