"""Many seeds of the consensus core: `python -m tests.simulation.raft_seeds 10000 [FIRST] [stored]`.

`make raft-seeds` runs it.

Odd seeds sync every write, even ones only votes. With `stored` the members are in group logs of the
store. The first violation is raised with its seed.
"""

import sys
from collections import Counter
from time import monotonic

from tests.simulation.raft_checks import Violation
from tests.simulation.raft_cluster import Cluster, StoredCluster
from tests.simulation.raft_scenario import EVERYTHING, UNSYNCED, Run

REPORT_EVERY = 500


def run_seeds(count: int, first: int = 1, cluster_class: type[Cluster] = Cluster) -> Counter[str]:
    """Run seeds and count what happened in them."""
    totals: Counter[str] = Counter()
    for seed in range(first, first + count):
        run = Run(seed, EVERYTHING if seed % 2 else UNSYNCED, cluster_class)
        try:
            run.run()
        except Violation as violation:
            raise Violation(f"seed {seed}: {violation}") from violation
        totals.update(run.faults)
        if "stuck" in run.faults:
            print(f"seed {seed} ends without a leader", flush=True)
        totals["seeds"] += 1
        totals["events"] += run.cluster.events
        totals["terms with a leader"] += len(run.cluster.checks.leaders)
        totals["committed entries"] += len(run.cluster.checks.committed)
        if totals["seeds"] % REPORT_EVERY == 0:
            print(dict(totals), flush=True)
    return totals


if __name__ == "__main__":
    begin = monotonic()
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    members = StoredCluster if "stored" in sys.argv else Cluster
    count, first = (*numbers, 1)[:2]
    print(dict(run_seeds(count, first, members)))
    print(f"{monotonic() - begin:.0f} s")
