"""Runs of many seeds of a simulation, one after the other, for the command line."""

import time
import traceback
from collections.abc import Callable, Iterable

from headwater.testing.world import World

TAIL_LINES = 60


def run_seeds(seeds: Iterable[int], shapes: Iterable[str], run: Callable[[int, str], World]) -> int:
    """Run each shape with each seed, and describe each run. Returns the number of failures."""
    chosen = [*shapes]
    failures = runs = 0
    for seed in seeds:
        for name in chosen:
            begun_s = time.process_time()
            runs += 1
            try:
                world = run(seed, name)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                failures += 1
                print(f"FAILED: seed {seed}, {name}", flush=True)
                lines = "".join(traceback.format_exception(error)).splitlines()
                print("\n".join(lines[-TAIL_LINES:]), flush=True)
                continue
            took_s = time.process_time() - begun_s
            print(f"seed {seed}, {name}: {took_s:.1f} s, {world.now_s():.0f} virtual s", flush=True)
    print(f"{runs} runs, {failures} failures", flush=True)
    return failures
