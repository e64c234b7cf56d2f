"""`headwater pipeline` as far as it goes without Spark: help, options, checks, one-line errors."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import pytest

from headwater.cli.commands import run
from headwater.cli.pipeline.commands import ARCHIVE, REPLAY, STATS, TABLE
from headwater.cli.pipeline.group import pipeline
from headwater.cli.pipeline.options import JobOptions, PipelineCommand
from headwater.cli.pipeline.union import UNION
from headwater.client.link.login import Login
from headwater.spark.jobs.archive.manifest import settle_manifest
from headwater.spark.jobs.archive.settings import ArchiveSettings
from headwater.spark.jobs.pipeline_file import KINDS
from tests.kit.command_line import PATIENCE_S, Call, Ended, Tool

JOBS = {"archive": ARCHIVE, "table": TABLE, "replay": REPLAY, "union": UNION, "stats": STATS}
COMMANDS = (*JOBS, "run", "check", "demo")


# --- help and options ---------------------------------------------------------------------------


def test_the_help_shows_the_commands_in_the_order_of_use() -> None:
    ended = Tool().run("pipeline", "--help")
    assert ended.code == 0
    assert re.findall(r"^  (\w+)  +[A-Z]", ended.out, re.MULTILINE) == list(COMMANDS)
    assert "A first session:\n  headwater pipeline demo " in ended.out


def examples(name: str) -> list[list[str]]:
    """The words of a command's examples, without remarks and what stands behind a pipe."""
    command = pipeline.commands[name]
    assert isinstance(command, PipelineCommand)
    lines = (re.split(r"\s{2,}| [|>] ", line)[0] for line in command.examples.strip().splitlines())
    return [shlex.split(line) for line in lines]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_a_command_parse(name: str) -> None:
    assert len(examples(name)) >= 3
    for words in examples(name):
        assert words[:3] == ["headwater", "pipeline", name]
        pipeline.commands[name].make_context(name, words[3:])


@pytest.mark.parametrize("kind", KINDS)
def test_the_options_of_a_job_are_its_settings(kind: str) -> None:
    options = JOBS[kind]
    assert options.settings is KINDS[kind]
    assert set(options.helps) | set(options.arguments) == set(options.fields)
    named = {parameter.name for parameter in pipeline.commands[kind].params}
    assert set(options.fields) <= named


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_is_for(name: str) -> None:
    for parameter in pipeline.commands[name].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def settings_of(options: JobOptions, *words: str) -> object:
    """The settings that the job is given for these words."""

    @click.command()
    @options
    def command(**parameters: object) -> object:
        return options.given(parameters, Login())

    return command.main(list(words), standalone_mode=False)


def test_what_is_not_said_has_the_default_of_the_job() -> None:
    assert settings_of(ARCHIVE, "ORDERS", "--to", "a") == ArchiveSettings(Login(), "ORDERS", "a")


def test_lists_are_split_at_commas_and_added_up() -> None:
    words = ("--subjects", "a.>, b", "--subjects", "c", "--partition-by", "date,token:2")
    assert settings_of(ARCHIVE, "S", "--to", "a", *words) == ArchiveSettings(
        Login(), "S", "a", subjects=("a.>", "b", "c"), partition_by=("date", "token:2")
    )


def test_switches_that_are_on_are_put_off_and_durations_have_units() -> None:
    words = ("--no-compact", "--no-fail-on-data-loss", "--follow", "--replaced-age", "2d")
    assert settings_of(ARCHIVE, "S", "--to", "a", *words) == ArchiveSettings(
        Login(), "S", "a", compact=False, fail_on_data_loss=False, follow=True,
        replaced_age_s=172_800.0,
    )  # fmt: skip


def test_the_help_has_the_defaults_of_the_settings() -> None:
    out = " ".join(Tool().run("pipeline", "archive", "--help").out.split())
    for default in ("delta", "date", "10s", "7d"):
        assert f"[default {default}]" in out
    # The settings have no default for it: it depends on two of them.
    assert "[default 500,000; with --follow, for each second of --every]" in out


# --- modules that must not be loaded ------------------------------------------------------------


def test_the_commands_load_no_spark() -> None:
    code = (
        "import sys\n"
        "import headwater.cli.pipeline.group\n"
        "print({'pyspark', 'pyarrow', 'deltalake', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    "words",
    [
        ("archive", "ORDERS", "--to", "a"),
        ("table", "prices", "--to", "a"),
        ("replay", "AGAIN", "--archive", "a"),
        ("union", "ORDERS", "--archive", "a"),
        ("stats", "--archive", "a", "--to", "b"),
        ("demo",),
    ],
    ids=lambda words: words[0],
)
def test_without_spark_a_line_says_how_to_install_it(
    words: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("pyspark", "deltalake"):
        monkeypatch.setitem(sys.modules, package, None)
    assert run(["pipeline", *words]) == 1
    assert "pyspark" in (err := capsys.readouterr().err)
    assert err.startswith("Error: Spark jobs need ")
    assert err.endswith(": pip install 'headwater[spark]'\n")
    assert err.count("\n") == 1


# --- errors in the command line -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("archive S", "Missing option '--to'"),
        ("archive S --to a --partition-by week", "Option partition_by='week' is not valid"),
        ("archive O.S --to a", "Option stream='O.S' is not valid"),
        ("archive S --to a --format orc", "'orc' is not one of 'delta', 'parquet'"),
        ("archive S --to a --conf x", "write spark.NAME=VALUE"),
        ("archive S --to a --replaced-age x", "'x' is not a duration"),
        ("archive S --to a --password x", "--password: there is no user to it"),
        ("table b --to a --as-of-revision 0", "Option as_of_revision=0 is not valid"),
        ("replay B", "Set one of the options stream and archive: neither was"),
        ("stats --to a --stream S --archive b", "Set one of the options stream and archive"),
        ("union S --archive a --to b --count", "--to and --count exclude one another"),
        ("run none.toml", "none.toml: cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_option_is_a_line_and_exit_code_2(
    line: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pipeline", *line.split()]) == 2
    assert problem in capsys.readouterr().err


# --- check --------------------------------------------------------------------------------------

FILE = """
[server]
url = "{url}"

[jobs.{name}]
kind = "archive"
stream = "{name}"
to = "archive"

[jobs.again]
kind = "stats"
archive = "archive"
to = "report"
"""


def answers(ended: Ended) -> dict[str, dict[str, str]]:
    """The checks by their names, without those that depend on the machine."""
    checks = json.loads(ended.out)["checks"]
    return {check["what"]: check for check in checks if check["what"] not in ("Spark", "Java")}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jetstream: str, name: str) -> Path:
    """A pipeline file for a stream that the test may make."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "p.toml"
    path.write_text(FILE.format(url=jetstream, name=name))
    return path


def test_a_file_whose_streams_are_there_is_good(call: Call, file: Path, name: str) -> None:
    assert call("stream", "add", name, "--subjects", f"{name}.>").code == 0
    assert call("pub", f"{name}.x", "12345").code == 0
    found = answers(call("pipeline", "check", file, "--json"))
    assert all(check["ok"] for check in found.values()), found
    assert found[f"file {file}"]["answer"] == f"{name}, again"
    assert found[f"stream {name}"]["answer"].startswith("1 message, ")
    # The archive that the second job needs is made by the first one.
    assert found["archive archive"]["answer"] == "to be made"


def test_what_is_not_there_is_told_with_what_to_do(call: Call, file: Path, name: str) -> None:
    ended = call("pipeline", "check", file, "--json")
    assert ended.code == 1
    assert answers(ended)[f"stream {name}"]["error"] == f"There is no stream {name} (stream)"
    assert "headwater stream ls" in answers(ended)[f"stream {name}"]["advice"]
    assert f"NO   stream {name}" in call("pipeline", "check", file).out


def test_only_what_the_named_jobs_need_is_asked_for(call: Call, file: Path) -> None:
    found = answers(call("pipeline", "check", file, "again", "--json"))
    assert list(found) == [f"file {file}", "archive archive"]
    assert "is not an archive" in found["archive archive"]["error"]


def test_an_archive_of_something_else_is_found_out(call: Call, file: Path, name: str) -> None:
    other = ArchiveSettings(Login(), "OTHER", str(file.with_name("archive")))
    settle_manifest(other.root, other.manifest)
    ended = call("pipeline", "check", file, name, "--json")
    assert "was made with OTHER" in answers(ended)["archive archive"]["error"]


def test_a_bucket_and_the_target_of_a_replay_are_asked_for(
    call: Call, tmp_path: Path, jetstream: str
) -> None:
    path = tmp_path / "p.toml"
    path.write_text(
        f'[server]\nurl = "{jetstream}"\n'
        '[jobs.t]\nkind = "table"\nbucket = "none"\nto = "t"\n'
        '[jobs.r]\nkind = "replay"\nstream = "NONE"\nto_stream = "NO"\n'
    )
    found = answers(call("pipeline", "check", path, "--json"))
    errors = [check.get("error") for check in found.values()]
    assert errors[2:] == [
        "There is no bucket none (bucket)",
        "There is no stream NONE (stream)",
        "There is no stream NO (to_stream)",
    ]


def test_a_server_that_does_not_answer_is_told(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(FILE.format(url="nats://127.0.0.1:1", name="X"))
    ended = call("pipeline", "check", path, "X", "--json")
    assert ended.code == 1
    assert "Connection refused" in answers(ended)["server nats://127.0.0.1:1"]["error"]


def test_credentials_that_the_server_refuses_are_told(
    start_server: Callable[..., str],
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = start_server("--user", "ada", "--pass", "right")
    credentials = f'url = "{url}"\nuser = "ada"\npassword = {{ env = "SECRET" }}'
    path = tmp_path / "p.toml"
    path.write_text(FILE.format(url=url, name="X").replace(f'url = "{url}"', credentials))
    monkeypatch.setenv("SECRET", "wrong")
    ended = call("pipeline", "check", path, "X", "--json")
    assert ended.code == 1
    assert "Authorization Violation" in answers(ended)[f"server {url}"]["error"]
    assert "wrong" not in ended.out


def test_all_that_is_wrong_in_a_file_is_told_at_once(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('[jobs.a]\nkind = "archive"\nstrem = "S"\n')
    ended = call("pipeline", "check", path)
    assert ended.code == 2
    assert ended.err.splitlines() == [
        f'Error: {path}: [jobs.a] unknown key "strem"; did you mean "stream"?',
        f'{path}: [jobs.a] needs the key "stream"',
        f'{path}: [jobs.a] needs the key "to"',
    ]
