"""Run pytest, and run a few failed tests once more, alone, before the run counts as failed.

Tests with real processes, threads and the oracle depend on a machine that may be busy with other
work. A defect fails twice; a test that passes when it runs alone is named at the end, so that
somebody can look at it.

    python -m tests.second_chance [arguments of pytest]
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

LAST_FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")
TESTS_FAILED: Final = 1
# More failures than this have a cause in common, and none of them is luck.
FAILURES_MAX: Final = 8


def failed_tests() -> list[str]:
    """The tests that failed in the last run, as pytest has noted them."""
    try:
        return sorted(json.loads(LAST_FAILED.read_text()))
    except FileNotFoundError:
        return []


def run_pytest(arguments: Sequence[str]) -> int:
    """Run pytest in a process of its own; its exit code."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def run(arguments: Sequence[str]) -> int:
    """Run the tests, and again those that failed if they are few; the exit code of the last run."""
    LAST_FAILED.unlink(missing_ok=True)
    code = run_pytest(arguments)
    failed = failed_tests()
    if code != TESTS_FAILED or not 1 <= len(failed) <= FAILURES_MAX:
        return code
    print(
        f"\nRunning {len(failed)} failed tests once more, alone:", *failed, sep="\n  ", flush=True
    )
    code = run_pytest(["-q", *failed])
    if code == 0:
        print("\nPassed the second time; worth a look:", *failed, sep="\n  ", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
