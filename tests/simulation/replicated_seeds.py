"""Many seeds of the simulation of whole clusters with streams.

`python -m tests.simulation.replicated_seeds COUNT FIRST [SHAPE ...]` runs the seeds from FIRST of
those shapes, or of all that have replicas, and describes each run that fails.
"""

import sys

from tests.simulation.replicated_scenario import SHAPES, run
from tests.simulation.seed_runs import run_seeds


def main(arguments: list[str]) -> int:
    """Run the seeds. Returns the number of runs that failed."""
    count, first, *names = arguments
    chosen = names or [name for name, shape in SHAPES.items() if shape.replicas > 1]
    seeds = range(int(first), int(first) + int(count))
    return run_seeds(seeds, chosen, lambda seed, name: run(seed, SHAPES[name])[0])


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
