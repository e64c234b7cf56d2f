"""The project's style rules, as tests.

A rule that lives in a document only is a wish. Each rule here is a function from text to
violations; it is applied to every file git would track, and to a snippet that breaks it, so that
no rule can rot into one that never finds anything.

`LONG_FUNCTIONS` and `LONG_FILES` are debts with their present size. They may only shrink: a new
entry, a larger number, or an entry that is no longer needed fails.
"""

import ast
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent

FUNCTION_LINES_MAX: Final = 70
FILE_LINES_MAX: Final = 800
LONG_FUNCTIONS: Final[dict[str, int]] = {}
LONG_FILES: Final[dict[str, int]] = {}

# Names that say nothing about what belongs in the module, so that everything ends up there.
EMPTY_NAMES: Final = {"util", "utils", "helper", "helpers", "common", "manager", "managers", "misc"}

# Parts of the package that exist for the people who import it: a test is as good a user as any.
PUBLIC: Final = ("headwater.testing.", "headwater.client.", "headwater.server.embedded")

# The two rules about words leave this file alone, which has to spell the words out.
RULEBOOK: Final = "tests/test_tidy.py"
UNFINISHED: Final = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
MACHINE_PATH: Final = re.compile(r"(?<![\w.*}])/(?:work\b|root/|home/\w|Users/\w|tmp/\w)")
REGISTRY: Final = re.compile(
    r"p[y]pi\.|pythonho[s]ted\.|artifac[t]ory|--(?:extra-)?index-u[r]l[= ]+\S+://", re.IGNORECASE
)


@dataclass(frozen=True)
class Source:
    """One tracked text file."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of a Python file."""
        return ast.parse(self.text, self.path)

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    @property
    def is_markdown(self) -> bool:
        return self.path.endswith(".md")

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")

    @property
    def module(self) -> str | None:
        """The dotted name of a module under src, a package for its `__init__`."""
        if not (self.is_python and self.path.startswith("src/")):
            return None
        parts = PurePosixPath(self.path).with_suffix("").parts[1:]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tracked_paths() -> list[str]:
    """Every file git has or would add, or every file there is in a tree without git."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        return [path for path in listing.stdout.split("\0") if path and (ROOT / path).is_file()]
    skipped = re.compile(
        r"^(?:\.git|\.venv[^/]*|\.hypothesis|build|data|dist)/|(?:^|/)(?:\.\w+_cache|__pycache__)/"
    )
    files = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file())
    return [path for path in files if not skipped.search(path)]


def read_tree() -> list[Source]:
    """All tracked text files."""
    sources = []
    for path in sorted(tracked_paths()):
        content = (ROOT / path).read_bytes()
        if b"\0" not in content:
            sources.append(Source(path, content.decode("utf-8", "replace")))
    return sources


TREE: Final = read_tree()


# --- rules about one file -----------------------------------------------------------------------


def has_no_docstring(source: Source) -> Iterator[str]:
    """A module says what it is for before anything else; an empty marker in tests need not."""
    is_marker = source.is_test and not source.text.strip()
    if source.is_python and not is_marker and ast.get_docstring(source.tree) is None:
        yield f"{source.path}: the module has no docstring"


def has_an_empty_name(source: Source) -> Iterator[str]:
    """A module is named after the one noun it owns."""
    if source.is_python:
        for part in PurePosixPath(source.path).with_suffix("").parts:
            if part.removeprefix("test_") in EMPTY_NAMES:
                yield f"{source.path}: '{part}' says nothing about what belongs here"


def is_unfinished(source: Source) -> Iterator[str]:
    """Unfinished work is an issue, not a comment."""
    if source.path == RULEBOOK:
        return
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := UNFINISHED.search(line):
            yield f"{source.path}:{number}: {found.group()}"


def names_a_machine(source: Source) -> Iterator[str]:
    """Nothing depends on where, or from which registry, it was made."""
    if source.path == RULEBOOK:
        return
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := MACHINE_PATH.search(line) or REGISTRY.search(line):
            yield f"{source.path}:{number}: {found.group()}"


def dotted(node: ast.expr) -> str:
    """`a.b.c` for an attribute of a name, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


SLEEPS: Final = re.compile(r"^time\.sleep$")
EXCUSES: Final = re.compile(r"^(?:pytest(?:\.mark)?|unittest)\.(?:skip\w*|xfail|importorskip)$")


def sleeps_or_makes_excuses(source: Source) -> Iterator[str]:
    """A test waits for an event, and it runs: it neither sleeps nor skips."""
    if not (source.is_test and source.is_python):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute):
            name = dotted(node)
            if SLEEPS.match(name) or EXCUSES.match(name):
                yield f"{source.path}:{node.lineno}: {name}"
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if SLEEPS.match(name) or EXCUSES.match(name):
                    yield f"{source.path}:{node.lineno}: {name}"


def imports_a_test_module(source: Source) -> Iterator[str]:
    """Definitions that tests share stand in tests/kit, or beside the tests of one folder."""
    if not (source.is_test and source.is_python):
        return
    for name in sorted(set(imported_names(source))):
        if re.fullmatch(r"tests\..*\btest_\w+", name):
            yield f"{source.path}: imports the test module {name}"


def imports_another_folder_of_tests(source: Source) -> Iterator[str]:
    """Tests of one folder know those of no other; definitions for both stand in tests/kit."""
    if not (source.is_test and source.is_python):
        return
    own = PurePosixPath(source.path).parts[1]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            folder = str(node.module).split(".")[1]
            if folder not in (own, "kit"):
                yield f"{source.path}: imports {node.module}"


def headings(text: str) -> Iterator[tuple[int, str]]:
    """Level and title of every heading of a Markdown text, code blocks left out."""
    for line in without_code(text).splitlines():
        if found := re.match(r"(#{1,6}) +(.+?) *#*$", line):
            yield len(found[1]), found[2]


def without_code(text: str) -> str:
    """Markdown without fenced blocks and inline code."""
    text = re.sub(r"(?ms)^( *)(```+|~~~+).*?^\1\2[^\n]*$", "", text)
    return re.sub(r"`[^`\n]+`", "", text)


def has_not_one_title(source: Source) -> Iterator[str]:
    """A document has one title."""
    if source.is_markdown:
        titles = [title for level, title in headings(source.text) if level == 1]
        if len(titles) != 1:
            yield f"{source.path}: {len(titles)} first-level headings, expected one"


ONE_FILE_RULES: Final[tuple[Callable[[Source], Iterator[str]], ...]] = (
    has_no_docstring,
    has_an_empty_name,
    is_unfinished,
    names_a_machine,
    sleeps_or_makes_excuses,
    imports_a_test_module,
    imports_another_folder_of_tests,
    has_not_one_title,
)


@pytest.mark.parametrize("rule", ONE_FILE_RULES, ids=lambda rule: rule.__name__)
def test_no_file_breaks_a_rule(rule: Callable[[Source], Iterator[str]]) -> None:
    assert [violation for source in TREE for violation in rule(source)] == []


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (has_no_docstring, "src/headwater/x.py", "import re\n"),
        (has_no_docstring, "src/headwater/x/__init__.py", ""),
        (has_no_docstring, "tests/test_x.py", "# a comment is not a docstring\n"),
        (has_an_empty_name, "src/headwater/wire/utils.py", ""),
        (has_an_empty_name, "src/headwater/common/ids.py", ""),
        (has_an_empty_name, "tests/test_helpers.py", ""),
        (is_unfinished, "src/headwater/x.py", "x = 1  # TODO later"),
        (is_unfinished, "docs/x.md", "FIXME: write this"),
        (is_unfinished, "Makefile", "# XXX"),
        (names_a_machine, "README.md", f"cd /{'work'}/main"),
        (names_a_machine, "Makefile", f"PYTHON = /{'root'}/bin/python"),
        (names_a_machine, "docs/x.md", "see /home/somebody/file"),
        (names_a_machine, "tests/x.py", "'/tmp/project/file'"),
        (names_a_machine, "requirements/x.txt", f"from {'py' + 'pi'}.test/x"),
        (names_a_machine, "requirements/x.txt", f"--{'index'}-{'url'} {'ftp'}://mirror"),
        (sleeps_or_makes_excuses, "tests/test_x.py", "import time\ntime.sleep(1)"),
        (sleeps_or_makes_excuses, "tests/test_x.py", "from time import sleep"),
        (sleeps_or_makes_excuses, "tests/test_x.py", "pytest.skip('not today')"),
        (sleeps_or_makes_excuses, "tests/test_x.py", "@pytest.mark.skipif(A)\ndef f(): ..."),
        (sleeps_or_makes_excuses, "tests/test_x.py", "@pytest.mark.xfail\ndef f(): ..."),
        (sleeps_or_makes_excuses, "tests/test_x.py", "nats = pytest.importorskip('nats')"),
        (imports_a_test_module, "tests/unit/test_x.py", "from tests.unit.test_y import Y"),
        (imports_a_test_module, "tests/unit/test_x.py", "import tests.unit.test_y as y"),
        (imports_a_test_module, "tests/unit/test_x.py", "from tests.unit import test_y"),
        (imports_another_folder_of_tests, "tests/unit/test_x.py", "from tests.spark.y import Y"),
        (imports_another_folder_of_tests, "tests/kit/x.py", "from tests.unit.wire.y import Y"),
        (has_not_one_title, "docs/x.md", "## Second level only\n"),
        (has_not_one_title, "docs/x.md", "# One\n\n# Two\n"),
    ],
)
def test_each_rule_finds_what_breaks_it(
    rule: Callable[[Source], Iterator[str]], path: str, text: str
) -> None:
    assert len(list(rule(Source(path, text)))) == 1


def test_every_rule_has_a_snippet_that_breaks_it() -> None:
    (mark,) = test_each_rule_finds_what_breaks_it.pytestmark  # type: ignore[attr-defined]
    assert {case[0] for case in mark.args[1]} == set(ONE_FILE_RULES)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tests/__init__.py", ""),
        ("tests/test_x.py", '"""Docstring."""\nawait asyncio.sleep(1)  # virtual time'),
        ("tests/unit/test_x.py", '"""Docstring."""\nfrom tests.kit.y import Y'),
        ("tests/unit/test_x.py", '"""Docstring."""\nfrom tests.unit.a.y import Y'),
        ("docs/x.md", "# One\n\n```sh\n# not a title\n```\n"),
        ("docs/x.md", "# One\n\nGET http://localhost:8222/work and a/root/b\n"),
    ],
)
def test_what_only_looks_like_a_violation_is_left_alone(path: str, text: str) -> None:
    source = Source(path, text)
    assert [violation for rule in ONE_FILE_RULES for violation in rule(source)] == []


# --- length, as debts that only shrink ----------------------------------------------------------


def long_functions(sources: Iterable[Source]) -> dict[str, int]:
    """Functions over the limit, by `path:name`, with their lines from `def` to the end."""
    found = {}
    for source in sources:
        if source.is_python:
            for node in ast.walk(source.tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    lines = (node.end_lineno or node.lineno) - node.lineno + 1
                    if lines > FUNCTION_LINES_MAX:
                        found[f"{source.path}:{node.name}"] = lines
    return found


def long_files(sources: Iterable[Source]) -> dict[str, int]:
    """Python files over the limit, with their lines."""
    lengths = {each.path: len(each.text.splitlines()) for each in sources if each.is_python}
    return {path: lines for path, lines in lengths.items() if lines > FILE_LINES_MAX}


def debts_that_changed(found: dict[str, int], allowed: dict[str, int]) -> list[str]:
    """Names that are longer than allowed, and names that are allowed to be longer than they are."""
    complaints = [
        f"{name}: {lines} lines, split it"
        for name, lines in found.items()
        if lines > allowed.get(name, 0)
    ]
    for name, lines in allowed.items():
        if name not in found:
            complaints.append(f"{name}: no longer too long, remove its exception")
        elif found[name] < lines:
            complaints.append(f"{name}: lower its exception to {found[name]}")
    return complaints


def test_functions_fit_on_a_screen() -> None:
    assert debts_that_changed(long_functions(TREE), LONG_FUNCTIONS) == []


def test_files_are_read_in_one_sitting() -> None:
    assert debts_that_changed(long_files(TREE), LONG_FILES) == []


@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_a_function_is_measured_to_its_last_line(keyword: str) -> None:
    def body(lines: int) -> Source:
        return Source("src/x.py", f"{keyword} f():\n" + "    pass\n" * (lines - 1))

    assert long_functions([body(FUNCTION_LINES_MAX)]) == {}
    assert long_functions([body(FUNCTION_LINES_MAX + 1)]) == {"src/x.py:f": FUNCTION_LINES_MAX + 1}


def test_a_file_is_measured_to_its_last_line() -> None:
    assert long_files([Source("src/x.py", "x\n" * FILE_LINES_MAX)]) == {}
    assert long_files([Source("src/x.py", "x\n" * (FILE_LINES_MAX + 1))]) == {
        "src/x.py": FILE_LINES_MAX + 1
    }


@pytest.mark.parametrize(
    ("found", "allowed", "complaint"),
    [
        ({"f": 80}, {}, "f: 80 lines, split it"),
        ({"f": 80}, {"f": 75}, "f: 80 lines, split it"),
        ({"f": 75}, {"f": 80}, "f: lower its exception to 75"),
        ({}, {"f": 80}, "f: no longer too long, remove its exception"),
    ],
)
def test_a_debt_only_shrinks(
    found: dict[str, int], allowed: dict[str, int], complaint: str
) -> None:
    assert debts_that_changed(found, allowed) == [complaint]
    assert debts_that_changed(found, found) == []


# --- rules about the whole tree -----------------------------------------------------------------


def imported_names(source: Source) -> Iterator[str]:
    """Everything a Python file imports, as dotted names that may or may not be modules."""
    package = PurePosixPath(source.path.removeprefix("src/")).parent.parts
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            kept = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*kept, *filter(None, [node.module])))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def orphans(sources: Iterable[Source], entry_points: Iterable[str]) -> list[str]:
    """Modules that nothing imports and nothing starts."""
    used_by_source, used_by_anyone = set(entry_points), set(entry_points)
    modules = {}
    for source in sources:
        if source.is_python:
            names = {name for name in imported_names(source) if name != source.module}
            used_by_anyone |= names
            if source.module is not None:
                used_by_source |= names
                modules[source.path] = source.module
    return [
        path
        for path, module in modules.items()
        if not path.endswith(("__init__.py", "__main__.py"))
        and module not in (used_by_anyone if module.startswith(PUBLIC) else used_by_source)
    ]


def project() -> dict[str, dict[str, object]]:
    """The [project] table."""
    table: dict[str, dict[str, object]] = tomllib.loads((ROOT / "pyproject.toml").read_text())[
        "project"
    ]
    return table


def entry_points() -> list[str]:
    """The modules that pyproject.toml tells installers about."""
    tables = [project()["scripts"], *project()["entry-points"].values()]
    return [
        str(target).partition(":")[0]
        for table in tables
        if isinstance(table, dict)
        for target in table.values()
    ]


def test_every_module_is_used() -> None:
    assert orphans(TREE, entry_points()) == []


def test_a_module_is_an_orphan_unless_a_source_file_or_an_entry_point_names_it() -> None:
    lonely = Source("src/headwater/wire/lonely.py", "")

    def with_importer(path: str, text: str) -> list[str]:
        return orphans([lonely, Source(path, text)], ["headwater.wire.user"])

    assert orphans([lonely], []) == [lonely.path]
    assert orphans([lonely], ["headwater.wire.lonely"]) == []
    assert orphans([Source(lonely.path, "import headwater.wire.lonely")], []) == [lonely.path]
    assert with_importer("tests/test_x.py", "import headwater.wire.lonely") == [lonely.path]
    assert with_importer("src/headwater/wire/user.py", "import headwater.wire.lonely") == []
    assert with_importer("src/headwater/wire/user.py", "from . import lonely") == []
    assert with_importer("src/headwater/wire/user.py", "from headwater.wire.lonely import x") == []


def test_a_test_counts_as_a_user_of_the_public_kit() -> None:
    kit = Source("src/headwater/testing/faults.py", "")
    user = Source("tests/test_x.py", "from headwater.testing.faults import Fault")
    assert orphans([kit], []) == [kit.path]
    assert orphans([kit, user], []) == []


def folders_without_init(paths: Iterable[str]) -> list[str]:
    """Folders under a package of src that hold Python files and no `__init__`."""
    files = [PurePosixPath(path) for path in paths if path.startswith("src/")]
    folders = {file.parent for file in files if file.suffix == ".py"}
    return sorted(str(folder) for folder in folders if folder / "__init__.py" not in files)


def test_every_package_has_an_init() -> None:
    assert folders_without_init(source.path for source in TREE) == []


def test_a_folder_without_init_is_found() -> None:
    assert folders_without_init(["src/headwater/wire/decoder.py"]) == ["src/headwater/wire"]
    assert folders_without_init(["src/a/__init__.py", "src/a/b.py", "tests/unit/test_x.py"]) == []


# --- documents ----------------------------------------------------------------------------------

LINK: Final = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")


def anchor(title: str) -> str:
    """The fragment under which a heading can be linked to."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def dead_links(sources: Iterable[Source]) -> list[str]:
    """Links between tracked files that lead nowhere, fragments included."""
    texts = {source.path: source.text for source in sources}
    folders = {str(parent) for path in texts for parent in PurePosixPath(path).parents}
    dead = []
    for path in (path for path in texts if path.endswith(".md")):
        for link in LINK.findall(without_code(texts[path])):
            if re.match(r"[a-z]+:", link):
                continue
            place, _, fragment = link.partition("#")
            target = normal(PurePosixPath(path).parent / place) if place else path
            if target not in texts and target not in folders:
                dead.append(f"{path}: {link}")
            elif fragment and target.endswith(".md"):
                anchors = {anchor(title.replace("`", "")) for title in raw_titles(texts[target])}
                if fragment not in anchors:
                    dead.append(f"{path}: {link}")
    return dead


def normal(path: PurePosixPath) -> str:
    """`path` without `.` and `..`."""
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts) or "."


def raw_titles(text: str) -> list[str]:
    """Titles with their inline code, which is part of the fragment."""
    fenced = re.sub(r"(?ms)^( *)(```+|~~~+).*?^\1\2[^\n]*$", "", text)
    return re.findall(r"(?m)^#{1,6} +(.+?) *#*$", fenced)


def test_links_between_documents_lead_somewhere() -> None:
    assert dead_links(TREE) == []


@pytest.mark.parametrize(
    ("link", "is_dead"),
    [
        ("b.md", False),
        ("../docs/b.md#the-part", False),
        ("#here", False),
        ("../docs", False),
        ("https://nats.io", False),
        ("missing.md", True),
        ("b.md#no-such-part", True),
        ("../b.md", True),
    ],
)
def test_a_dead_link_is_found(link: str, is_dead: bool) -> None:
    first = Source("docs/a.md", f"# Here\n\nSee [it]({link}).\n")
    second = Source("docs/b.md", "# B\n\n## The `part`\n")
    assert dead_links([first, second]) == ([f"docs/a.md: {link}"] if is_dead else [])


TWO_COMMANDS: Final = re.compile(r"# [^\n]+\n+```sh\nmake run\b[^\n]*\nmake test\b[^\n]*\n```\n")


def test_the_readme_begins_with_the_two_commands() -> None:
    assert TWO_COMMANDS.match((ROOT / "README.md").read_text())


def test_a_readme_that_begins_otherwise_is_found() -> None:
    assert TWO_COMMANDS.match("# H\n\n```sh\nmake run   # go\nmake test\n```\n")
    assert not TWO_COMMANDS.match("# H\n\nFirst a story.\n\n```sh\nmake run\nmake test\n```\n")


# --- requirements -------------------------------------------------------------------------------


def distribution_names(lines: Iterable[str]) -> set[str]:
    """The normalised project names of requirement lines."""
    matches = (re.match(r"[A-Za-z0-9][\w.-]*", line) for line in lines)
    return {re.sub(r"[-_.]+", "-", found.group()).lower() for found in matches if found}


def test_the_server_installs_exactly_what_the_package_declares() -> None:
    declared = [str(each) for each in project()["dependencies"]]
    locked = (ROOT / "requirements" / "server.in").read_text().splitlines()
    assert distribution_names(locked) == distribution_names(declared)


def test_the_command_line_installs_exactly_what_its_extra_declares() -> None:
    declared = [str(each) for each in project()["optional-dependencies"]["cli"]]  # type: ignore[attr-defined]
    locked = (ROOT / "requirements" / "cli.in").read_text().splitlines()
    assert distribution_names(locked) == distribution_names(declared)


def test_make_run_installs_the_command_line_with_the_server(tmp_path: Path) -> None:
    plan = subprocess.run(
        ["make", "--dry-run", "run", f"VENV={tmp_path}/venv"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "-r requirements/server.txt" in plan.stdout
    assert "-r requirements/cli.txt" in plan.stdout


def test_the_spark_environment_installs_exactly_what_its_extras_declare() -> None:
    extras = project()["optional-dependencies"]
    declared = [str(each) for extra in ("spark", "java") for each in extras[extra]]  # type: ignore[attr-defined]
    locked = (ROOT / "requirements" / "spark.in").read_text().splitlines()
    assert distribution_names(locked) == distribution_names(declared)


def pins(text: str) -> dict[str, str]:
    """The version of every pinned project."""
    return dict(re.findall(r"(?m)^([A-Za-z0-9][\w.-]*)==([^\s;]+)", text))


def disagreements(files: Iterable[str]) -> list[str]:
    """Projects that two files pin to different versions: each install would undo the other."""
    versions: dict[str, set[str]] = {}
    for file in files:
        for name, version in pins(file).items():
            versions.setdefault(name, set()).add(version)
    return sorted(name for name, found in versions.items() if len(found) > 1)


def test_the_requirements_agree_on_what_they_share() -> None:
    """Also those of the oldest Spark, which have a place of their own, but for Spark itself."""
    files = {
        source.path: source.text
        for source in TREE
        if re.match(r"requirements/.+\.txt$", source.path)
    }
    assert disagreements(files.values()) == ["pyspark"]
    del files["requirements/spark-oldest.txt"]
    assert len(files) > 1
    assert disagreements(files.values()) == []


def test_pins_that_disagree_are_found() -> None:
    first, second = "a==1 \\\n    --hash=x\nb==2 ; x\n", "b==3\n# c==1\na==1\n"
    assert disagreements([first, second]) == ["b"]


def test_distribution_names_are_compared_in_their_normal_form() -> None:
    lines = ["# comment", "-c other.txt", "", 'Nats_Py>=2 ; sys_platform != "win32"', "h11"]
    assert distribution_names(lines) == {"nats-py", "h11"}
