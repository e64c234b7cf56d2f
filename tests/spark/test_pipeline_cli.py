"""`headwater pipeline` with Spark: each command, the file, the guides, and Ctrl-C."""

import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Timer
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headwater.cli.commands import run
from tests.kit.stream_servers import Message, Server, header_block
from tests.spark.conftest import StartServer

HOWTO: Final = Path(__file__).resolve().parents[2] / "docs" / "howto"
GUIDE_URL: Final = "nats://127.0.0.1:4222"
ORDERS: Final = 300
PATIENCE_S: Final = 300


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a command that has ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON object of the output."""
        (line,) = self.out.splitlines()
        found: dict[str, Any] = json.loads(line)
        return found


Call = Callable[..., Ended]


@pytest.fixture
def call(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Call:
    """Run a command in this process, on the Spark of the tests, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def called(*words: str) -> Ended:
        code = run(["pipeline", *words])
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return called


def fill(server: Server, count: int = ORDERS, first: int = 0) -> None:
    """Orders from three regions."""
    server.publish(
        Message(
            f"orders.{('eu', 'us', 'asia')[number % 3]}.new",
            b'{"order": %d}' % number,
            header_block({"Sent": ["2026-01-05T09:30:00Z"], "Note": ['"urgent", he said']}),
        )
        for number in range(first, first + count)
    )


def prepare(server: Server) -> None:
    """The streams and buckets that the guides speak of."""
    server.create_stream("ORDERS", "orders.>")
    server.create_stream("AGAIN", "again.>")
    server.create_stream("COPY", "copy.>")
    server.create_stream("AUDIT", "audit.>")
    server.create_bucket("prices", history=5)
    server.create_bucket("totals")
    fill(server)
    server.publish((f"$KV.prices.{key}", b"%d" % value) for value in range(3) for key in "abc")


# --- the commands -------------------------------------------------------------------------------


def test_an_archive_grows_and_is_one_with_its_stream(
    server: Server, call: Call, tmp_path: Path
) -> None:
    prepare(server)
    words = ("archive", "ORDERS", "--to", "archive", "-s", server.url)
    first = call(*words, "--json").document
    assert (first["messages"], first["next_sequence"]) == (ORDERS, ORDERS + 1)
    fill(server, 20, first=ORDERS)
    union = ("union", "ORDERS", "--archive", "archive", "-s", server.url)
    assert call(*union, "--count", "--json").document == {
        "stream": "ORDERS", "archive": str(tmp_path / "archive"), "messages": ORDERS + 20,
        "first_sequence": 1, "last_sequence": ORDERS + 20,
    }  # fmt: skip
    assert call(*words, "--json").document["messages"] == 20
    rows = call(*union, "--limit", "2", "--json").out.splitlines()
    assert [json.loads(row)["data"] for row in rows] == ['{"order": 0}', '{"order": 1}']
    text = call(*union, "--limit", "2").out.splitlines()
    assert text[0].split() == ["sequence", "time", "subject", "data"]
    assert text[-1] == "320 messages, sequences 1 to 320"
    assert server.consumers("ORDERS") == []


def exported(folder: Path, format: str) -> list[dict[str, Any]]:
    """The rows of all files of an export, by the names of their columns."""
    rows: list[dict[str, Any]] = []
    for path in folder.glob(f"*.{format}"):
        with path.open(newline="") as file:
            rows += csv.DictReader(file) if format == "csv" else map(json.loads, file)
    return rows


def test_a_union_is_written_once_and_not_over_something(
    headwater_server: Server, call: Call
) -> None:
    prepare(headwater_server)
    connection = ("-s", headwater_server.url)
    assert call("archive", "ORDERS", "--to", "archive", *connection).code == 0
    export = ("union", "ORDERS", "--archive", "archive", "--to", "out", *connection)
    ended = call(*export, "--subjects", "orders.eu.*", "--json")
    assert ended.document["messages"] == ORDERS // 3
    assert pq.read_table("out").num_rows == ORDERS // 3
    again = call(*export)
    assert again.code == 1
    assert again.err.endswith("/out is there already (to)\nRemove it, or name another folder.\n")


@pytest.mark.parametrize("format", ["csv", "json"])
def test_an_exported_text_has_names_all_microseconds_and_quotes_that_others_can_read(
    headwater_server: Server, call: Call, format: str
) -> None:
    prepare(headwater_server)
    connection = ("-s", headwater_server.url)
    assert call("archive", "ORDERS", "--to", "archive", *connection).code == 0
    export = ("union", "ORDERS", "--archive", "archive", "--to", "out", "--format", format)
    assert call(*export, *connection).code == 0
    rows = exported(Path("out"), format)
    assert {int(row["sequence"]): datetime.fromisoformat(row["timestamp"]) for row in rows} == {
        # Python, too, cuts nanoseconds to microseconds.
        each.sequence: datetime.fromisoformat(each.time)
        for each in headwater_server.stored("ORDERS")
    }
    headers = [row["headers"] for row in rows]
    if format == "csv":
        headers = [json.loads(each) for each in headers]
    assert all(each["Note"] == ['"urgent", he said'] for each in headers)
    data = [b64decode(row["data"]) for row in rows]
    assert sorted(data) == sorted(b'{"order": %d}' % number for number in range(ORDERS))


def test_tables_a_replay_and_a_report(headwater_server: Server, call: Call) -> None:
    prepare(headwater_server)
    connection = ("-s", headwater_server.url, "--json")
    table = call("table", "prices", "--to", "tables", "--as-of-revision", "3", *connection).document
    assert (table["keys"], table["entries"], table["as_of_keys"]) == (3, 9, 3)
    change = ("--subject-from", "orders.>", "--subject-to", "again.>")
    replay = call("replay", "AGAIN", "--stream", "ORDERS", *change, *connection).document
    assert replay["published"] == ORDERS
    assert call("replay", "AGAIN", "--stream", "ORDERS", *change, *connection).document[
        "published"
    ] == 0  # fmt: skip
    assert headwater_server.state("AGAIN")["messages"] == ORDERS
    report = call("stats", "--stream", "ORDERS", "--to", "report", *connection).document
    assert report["messages"] == ORDERS
    assert "<svg" in Path(report["report"]).read_text()


def in_process_of_its_own(words: str, url: str, folder: Path) -> Ended:
    """Run a command that finds no Spark running."""
    done = subprocess.run(
        [sys.executable, "-m", "headwater", "pipeline", *words.split(), "-s", url],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("archive NONE --to a", "There is no stream NONE (stream)"),
        ("table none --to a", "There is no bucket none (bucket)"),
        ("replay NONE --stream ORDERS", "There is no stream NONE (to_stream)"),
        ("union ORDERS --archive none", "Option archive: "),
        ("stats --archive none --to a", "Option archive: "),
    ],
)
def test_what_is_not_there_is_a_line_before_spark_starts(
    headwater_server: Server, words: str, problem: str, tmp_path: Path
) -> None:
    headwater_server.create_stream("ORDERS", "orders.>")
    # This master cannot be started: had Spark been started, that would be the error.
    ended = in_process_of_its_own(f"{words} --master nonsense", headwater_server.url, tmp_path)
    assert ended.code == 1
    assert ended.err.startswith(f"Error: {problem}")
    assert ended.err.count("\n") == 2


def test_a_spark_that_does_not_start_is_told_in_a_line(
    headwater_server: Server, tmp_path: Path
) -> None:
    headwater_server.create_stream("ORDERS", "orders.>")
    ended = in_process_of_its_own(
        "archive ORDERS --to a --master nonsense", headwater_server.url, tmp_path
    )
    assert ended.code == 1
    assert ended.err.startswith("Error: ")
    assert "nonsense" in ended.err
    assert "Traceback" not in ended.err


def test_lost_messages_are_told_in_a_line(headwater_server: Server, call: Call) -> None:
    prepare(headwater_server)
    words = ("archive", "ORDERS", "--to", "archive", "-s", headwater_server.url)
    assert call(*words, "--max-messages-per-trigger", "100").code == 0
    fill(headwater_server, 50, first=ORDERS)
    headwater_server.purge("ORDERS", seq=ORDERS + 21)
    ended = call(*words)
    assert ended.code == 1
    problem, advice = ended.err.splitlines()
    assert problem.startswith("Error: archive: stream ORDERS lost 20 sequences")
    assert "--no-fail-on-data-loss" in advice
    assert call(*words, "--no-fail-on-data-loss", "--json").document["messages"] == 30


# --- Ctrl-C -------------------------------------------------------------------------------------


def seen_until_stopped(words: Sequence[str], folder: Path, mark: bytes) -> tuple[int, str]:
    """Run a command in a terminal and press Ctrl-C once it shows `mark`: exit code and output."""
    ours, theirs = pty.openpty()
    seen = b""
    with (
        os.fdopen(ours, "rb", buffering=0) as screen,
        subprocess.Popen(
            [sys.executable, "-m", "headwater", "pipeline", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"},
            # Ctrl-C goes to all processes of the terminal's job: this one and its children.
            start_new_session=True,
        ) as process,
    ):
        os.close(theirs)
        watchdog = Timer(PATIENCE_S, process.kill)
        watchdog.start()
        is_pressed = False
        while chunk := read_screen(screen.fileno()):
            seen += chunk
            if not is_pressed and mark in seen:
                is_pressed = True
                os.killpg(process.pid, signal.SIGINT)
        process.wait()
        watchdog.cancel()
    return process.returncode, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())


def read_screen(fd: int) -> bytes:
    """The next output, or nothing once the command has ended, which Linux reports as an error."""
    try:
        return os.read(fd, 4096)
    except OSError:
        return b""


def test_a_job_that_follows_is_stopped_by_ctrl_c_and_gone_on_with(
    headwater_server: Server, call: Call, tmp_path: Path
) -> None:
    prepare(headwater_server)
    words = ("archive", "ORDERS", "--to", "archive", "-s", headwater_server.url)
    spark = ("--master", "local[2]", "--memory", "1g")
    code, seen = seen_until_stopped([*words, *spark, "--follow"], tmp_path, b" 300 ")
    assert code == 0, seen
    assert "Starting Spark" in seen
    assert "Following; stop with Ctrl-C." in seen
    assert re.search(r"Messages: +300\b", seen)
    assert "Stopped." in seen
    assert "Traceback" not in seen
    fill(headwater_server, 10, first=ORDERS)
    assert call(*words, "--json").document["messages"] == 10


# --- the guides ---------------------------------------------------------------------------------


def blocks(guide: str, language: str) -> list[str]:
    text = (HOWTO / guide).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_file_of_the_guide_runs(
    start_server: StartServer, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(
        "headwater",
        config="authorization { user: pipeline, password: sesame }",
        credentials={"user": "pipeline", "pass": "sesame"},
    )
    prepare(server)
    (text,) = blocks("pipeline.md", "toml")
    assert GUIDE_URL in text
    # The jobs run on the Spark of the tests, not on one that the file could choose.
    text = text.replace(GUIDE_URL, server.url).replace('master = "local[*]"', "")
    (tmp_path / "pipelines.toml").write_text(text)
    refused = call("check", "pipelines.toml")
    assert refused.code == 2
    assert "the environment variable PIPELINE_PASSWORD is not set" in refused.err
    monkeypatch.setenv("PIPELINE_PASSWORD", "sesame")
    checked = call("check", "pipelines.toml", "--json")
    assert checked.document["ok"], checked.out
    done = call("run", "pipelines.toml", "--json")
    assert done.code == 0, done.err
    results = {each["job"]: each for each in map(json.loads, done.out.splitlines())}
    assert list(results) == ["orders", "prices", "again", "europe", "report"]
    assert results["orders"]["messages"] == results["report"]["messages"] == ORDERS
    assert results["again"]["published"] == ORDERS
    assert results["europe"]["messages"] == ORDERS // 3
    assert server.state("AGAIN")["messages"] == ORDERS


@pytest.mark.parametrize("guide", ["spark.md", "pipeline.md"])
def test_the_programs_of_the_guides_run(
    spark: SparkSession,
    headwater_server: Server,
    guide: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepare(headwater_server)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for number, program in enumerate(blocks(guide, "python")):
        text = program.replace(GUIDE_URL, headwater_server.url)
        # The Spark of the tests was started in another folder.
        text = re.sub(r'"((?:orders|audit)\.(?:parquet|checkpoint))"', rf'"{tmp_path}/\1"', text)
        exec(compile(text, f"{guide}:{number}", "exec"), names)
    if guide == "spark.md":
        assert headwater_server.state("COPY")["messages"] == ORDERS * 2 // 3
        assert headwater_server.state("AUDIT")["messages"] == ORDERS
        assert headwater_server.state("KV_totals")["messages"] == 2
