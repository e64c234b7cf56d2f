"""Many seeds of the simulation of mirrors and aggregates.

`python -m tests.simulation.copying_seeds COUNT FIRST [SHAPE ...]` runs the seeds from FIRST of
those shapes, or of all, and describes each run that fails.
"""

import sys

from headwater.testing.world import World
from tests.simulation.copying_scenario import SHAPES, run
from tests.simulation.seed_runs import run_seeds


def main(arguments: list[str]) -> int:
    """Run the seeds. Returns the number of runs that failed."""
    count, first, *names = arguments
    published = 0

    def counted(seed: int, name: str) -> World:
        nonlocal published
        world, scenario = run(seed, SHAPES[name])
        published += scenario.published
        return world

    failures = run_seeds(range(int(first), int(first) + int(count)), names or SHAPES, counted)
    print(f"{published} messages published", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
