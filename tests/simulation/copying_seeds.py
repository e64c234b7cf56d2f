"""Many seeds of the simulation of mirrors and aggregates.

`python -m tests.simulation.copying_seeds COUNT FIRST [SHAPE ...]` runs the seeds from FIRST of
those shapes, or of all, and describes each run that fails.
"""

import sys
import time
import traceback

from tests.simulation.copying_scenario import SHAPES, run

TAIL_LINES = 60


def main(arguments: list[str]) -> int:
    """Run the seeds. Returns the number of runs that failed."""
    count, first, *names = arguments
    failures = runs = published = 0
    for seed in range(int(first), int(first) + int(count)):
        for name in names or SHAPES:
            begun_s = time.process_time()
            runs += 1
            try:
                world, scenario = run(seed, SHAPES[name])
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                failures += 1
                print(f"FAILED: seed {seed}, {name}", flush=True)
                lines = "".join(traceback.format_exception(error)).splitlines()
                print("\n".join(lines[-TAIL_LINES:]), flush=True)
                continue
            took_s = time.process_time() - begun_s
            published += scenario.published
            print(f"seed {seed}, {name}: {took_s:.1f} s, {world.now_s():.0f} virtual s", flush=True)
    print(f"{runs} runs, {published} messages published, {failures} failures", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
