"""`python -m benchmarks.walk [NAME]`: the modules that a turn passes, in order, and its turn-backs.

The turns are those of `benchmarks.turns`. A module is counted when a function of it is called. A
turn-back is a pair of modules, counted once: the first calls into the second, which the turn had
entered before it entered the first.
"""

import argparse
import sys
import tempfile
from pathlib import PurePath
from types import FrameType
from typing import Any, Final

from benchmarks.turns import TURNS_BY_NAME, Server

WARM_UP_TURNS: Final = 300
PACKAGE: Final = "headwater"


class Walk:
    """The modules of a turn by the order in which they were entered, and the turn-backs."""

    def __init__(self) -> None:
        self.entered: dict[str, int] = {}
        self.turn_backs: dict[tuple[str, str], int] = {}
        self.calls = 0

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note a call of a Python function; this is a function for `sys.setprofile`."""
        if event != "call":
            return
        module = module_of(frame)
        if not module:
            return
        self.calls += 1
        caller = frame.f_back
        while caller is not None and not module_of(caller):
            caller = caller.f_back
        self.entered.setdefault(module, len(self.entered))
        source = "" if caller is None else module_of(caller)
        if source and source != module and self.entered[module] < self.entered[source]:
            self.turn_backs[source, module] = self.turn_backs.get((source, module), 0) + 1


def module_of(frame: FrameType) -> str:
    """The module of a function below the package; empty for any other function."""
    parts = PurePath(frame.f_code.co_filename).parts
    if PACKAGE not in parts or "benchmarks" in parts:
        return ""
    return "/".join(parts[len(parts) - parts[::-1].index(PACKAGE) :])


def walk_of(name: str) -> Walk:
    """The walk of one turn."""
    walk = Walk()
    with tempfile.TemporaryDirectory() as folder:
        turn = TURNS_BY_NAME[name](Server(folder))
        for number in range(WARM_UP_TURNS):
            turn(number)
        sys.setprofile(walk.profile)
        turn(WARM_UP_TURNS)
        sys.setprofile(None)
    return walk


def main() -> None:
    """Print the modules and turn-backs of a turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="publish-1", help=", ".join(TURNS_BY_NAME))
    walk = walk_of(parser.parse_args().name)
    print(f"{len(walk.entered)} modules, {len(walk.turn_backs)} turn-backs, {walk.calls} calls")
    for module, number in walk.entered.items():
        print(f"{number + 1:4}  {module}")
    for (source, target), count in walk.turn_backs.items():
        print(f"      {source} calls back into {target} ({count})")


if __name__ == "__main__":
    main()
