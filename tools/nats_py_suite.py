"""Run nats-py's own tests against nats-server and against Headwater, and write down the result.

    python tools/nats_py_suite.py CHECKOUT [--write docs/compatibility.md]

CHECKOUT is a clone of nats.py. The suite starts an executable called `nats-server` found on PATH;
for ours that is a two-line shim. It needs `pytest`, `aiohttp` and `nkeys` in this interpreter, and
fixed ports 4222 and up, so nothing else may listen there.

Exit code 1 if a test passes with nats-server, fails with Headwater and is not excluded by feature.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SHIM: Final = '#!/bin/sh\nexec {python} -m headwater serve "$@"\n'
TEST_TIMEOUT_S: Final = 60
BEGIN: Final = "<!-- results: generated, do not edit by hand -->"
END: Final = "<!-- /results -->"

# Features that come later; the first pattern that matches a test id gives the reason.
NOT_YET: Final = (
    (r"WebSocket|websocket", "WebSocket: not yet supported"),
    (r"ClientJWTAuth", "JWT: not yet supported"),
)


@dataclass(frozen=True)
class Row:
    """One test with both servers."""

    test: str
    oracle: str
    ours: str

    @property
    def reason(self) -> str:
        """Why it is fine that ours does not pass; empty if it is not fine."""
        if self.ours in ("passed", "skipped"):
            return ""
        for pattern, reason in NOT_YET:
            if re.search(pattern, self.test):
                return reason
        if self.oracle != "passed":
            return f"nats-server: {self.oracle} on the same machine"
        return ""

    @property
    def is_regression(self) -> bool:
        """Whether nats-server passes what ours should and does not."""
        return self.ours not in ("passed", "skipped") and not self.reason


def main() -> int:
    """Run both, report, and write the table if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--write", type=Path, help="Markdown file with a results section")
    parser.add_argument("--select", default="", help="pytest -k expression")
    arguments = parser.parse_args()
    commit = _git(arguments.checkout, "rev-parse", "HEAD")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        shims = scratch / "bin"
        shims.mkdir()
        shim = shims / "nats-server"
        shim.write_text(SHIM.format(python=sys.executable))
        shim.chmod(0o755)
        real = Path(sys.executable).parent
        oracle = _run(arguments.checkout, real, scratch / "oracle.xml", arguments.select)
        ours = _run(arguments.checkout, shims, scratch / "ours.xml", arguments.select)
        rows = _rows(oracle, ours)
        for row in rows:
            # Some tests allow a few milliseconds: what fails once is tried again, alone.
            if row.is_regression:
                name = row.test.rpartition("::")[2]
                ours.update(_run(arguments.checkout, shims, scratch / "again.xml", name))
    rows = _rows(oracle, ours)
    print(_summary(rows))
    for row in rows:
        if row.is_regression:
            print(f"not passed: {row.test} ({row.ours})")
    if arguments.write:
        _write(arguments.write, commit, rows)
    return 1 if any(row.is_regression for row in rows) else 0


def _rows(oracle: dict[str, str], ours: dict[str, str]) -> list[Row]:
    tests = dict.fromkeys([*oracle, *ours])
    return [Row(test, oracle.get(test, "absent"), ours.get(test, "absent")) for test in tests]


def _git(checkout: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(checkout), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def _run(checkout: Path, server_folder: Path, report: Path, select: str) -> dict[str, str]:
    """Outcomes by test id, with the nats-server of one folder."""
    suite = checkout / "nats"
    environment = {
        **os.environ,
        "PATH": f"{server_folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(suite / "src"),
    }
    command = [
        *(sys.executable, "-m", "pytest", "tests", "-q", "-p", "no:cacheprovider"),
        *("--timeout", str(TEST_TIMEOUT_S), f"--junitxml={report}"),
        *(("-k", select) if select else ()),
    ]
    subprocess.run(command, cwd=suite, env=environment, check=False)
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        module, _, group = case.get("classname", "").rpartition(".")
        test = f"{module.replace('.', '/')}.py::{group}::{case.get('name')}"
        kinds = {child.tag for child in case}
        outcome = "passed"
        if kinds & {"failure", "error"}:
            outcome = "failed"
        elif "skipped" in kinds:
            outcome = "skipped"
        # A test with failed sub-tests is there several times: the worst counts.
        if outcomes.get(test) != "failed":
            outcomes[test] = outcome
    return outcomes


def _summary(rows: list[Row]) -> str:
    ours = Counter(row.ours for row in rows)
    oracle = Counter(row.oracle for row in rows)
    regressions = sum(row.is_regression for row in rows)
    return (
        f"{len(rows)} tests. Headwater: {_counts(ours)}. nats-server: {_counts(oracle)}. "
        f"Not passed without a reason: {regressions}."
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counter.items()))


def _write(path: Path, commit: str, rows: list[Row]) -> None:
    """Replace the results section of a Markdown file."""
    lines = [BEGIN, "", f"nats.py at `{commit}`. {_summary(rows)}", ""]
    lines += ["| test | nats-server | Headwater | reason |", "| --- | --- | --- | --- |"]
    for row in sorted(rows, key=lambda row: row.test):
        reason = row.reason or ("to be fixed" if row.is_regression else "")
        lines.append(f"| `{row.test}` | {row.oracle} | {row.ours} | {reason} |")
    lines += ["", END]
    text = path.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(before + "\n".join(lines) + after)


if __name__ == "__main__":
    sys.exit(main())
