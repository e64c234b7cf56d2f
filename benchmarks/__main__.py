"""`python -m benchmarks [NAME ...]`: measure, print a table and a sentence for each figure."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.cluster_scenarios import CLUSTER_SCENARIOS
from benchmarks.consumer_scenarios import CONSUMER_SCENARIOS
from benchmarks.copy_scenarios import COPY_SCENARIOS
from benchmarks.fairness import FAIRNESS_SCENARIOS
from benchmarks.level_scenarios import LEVEL_SCENARIOS
from benchmarks.replica_scenarios import REPLICA_SCENARIOS
from benchmarks.report import Row, as_json, sentence, table
from benchmarks.scenarios import CORE_SCENARIOS, FULL, QUICK
from benchmarks.servers import NATS_SERVER, BenchmarkError
from benchmarks.stream_scenarios import STREAM_SCENARIOS

SCENARIOS: Final = (
    CORE_SCENARIOS
    | CLUSTER_SCENARIOS
    | REPLICA_SCENARIOS
    | STREAM_SCENARIOS
    | CONSUMER_SCENARIOS
    | COPY_SCENARIOS
    | FAIRNESS_SCENARIOS
    | LEVEL_SCENARIOS
)

# These are measured by a scenario that has all of them.
PARTS: Final = frozenset(name for name in LEVEL_SCENARIOS if name != "levels")

# A higher load before the start is that of other programs.
QUIET_LOAD_MAX: Final = 0.7


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named scenarios, all if none is named."""
    options = parse(arguments)
    settings = QUICK if options.quick else FULL
    if options.rounds:
        settings = replace(settings, rounds=options.rounds)
    if options.noise:
        settings = replace(settings, ours=NATS_SERVER)
    print(f"{machine()}; {settings.rounds} rounds, ours and theirs in turn")
    if (busy := os.getloadavg()[0]) > QUIET_LOAD_MAX:
        print(f"The machine is busy (load {busy:.1f}): rates will be low and ratios will scatter.")
    if options.noise:
        print("nats-server against itself: how far a ratio is from 1 here is noise")
    ours = "nats-server again" if options.noise else "headwater"
    rows: list[Row] = []
    failed = False
    for name in options.names or [each for each in SCENARIOS if each not in PARTS]:
        print(f"\n{name} ...", file=sys.stderr)
        try:
            measured = SCENARIOS[name](settings)
        except BenchmarkError as error:
            print(f"{name}: no figure, {error}", file=sys.stderr)
            failed = True
            continue
        if options.noise:
            measured = [replace(row, aim=None) for row in measured]
        rows += measured
        for row in measured:
            print(f"\n{sentence(row, ours)}")
            for note in row.notes:
                print(f"    {note}")
        sys.stdout.flush()
    print(f"\n{table(rows, ours)}\n")
    print("Ratios are ours divided by theirs, round by round: the median, lowest and highest.")
    if options.json:
        report = {"machine": machine(), "rounds": settings.rounds, "rows": as_json(rows)}
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if failed else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--rounds", type=int, help="measured rounds per scenario")
    parser.add_argument("--quick", action="store_true", help="a minute instead of several")
    parser.add_argument("--noise", action="store_true", help="nats-server in both seats")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in SCENARIOS:
            parser.error(f"no scenario {name!r}; there are: {', '.join(SCENARIOS)}")
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def machine() -> str:
    """The machine of the figures."""
    cores = os.cpu_count()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    return (
        f"{platform.system()} {platform.machine()}, {usable} of {cores} cores, "
        f"Python {platform.python_version()}"
    )


if __name__ == "__main__":
    sys.exit(main())
