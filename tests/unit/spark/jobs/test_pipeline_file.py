"""A pipeline file: what it may say, and how it says what is wrong with it."""

import dataclasses
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from headwater.client.link.login import Login
from headwater.spark.jobs.archive.settings import ArchiveSettings
from headwater.spark.jobs.pipeline_file import (
    KINDS,
    Pipeline,
    PipelineFileError,
    SparkSettings,
    key_of,
    parse_pipeline,
    read_pipeline,
)
from headwater.spark.jobs.table.job import TableSettings

ORDERS = """
[jobs.orders]
kind = "archive"
stream = "ORDERS"
to = "archive/orders"
"""


def parsed(text: str, environment: Mapping[str, str] | None = None) -> Pipeline:
    return parse_pipeline(text, "p.toml", environment or {})


def problems_of(text: str, environment: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(PipelineFileError) as caught:
        parsed(text, environment)
    return list(caught.value.problems)


# --- contents of a file -------------------------------------------------------------------------


def test_what_is_not_said_has_the_default_of_the_job() -> None:
    pipeline = parsed(ORDERS)
    assert pipeline.login == Login()
    assert pipeline.spark == SparkSettings()
    (job,) = pipeline.jobs
    assert (job.name, job.kind) == ("orders", "archive")
    assert job.settings == ArchiveSettings(Login(), stream="ORDERS", to="archive/orders")


def test_the_server_is_that_of_every_job() -> None:
    pipeline = parsed(
        """
        [server]
        url = "nats://a:4222,nats://b:4222"
        user = "ada"
        password = "secret"
        request_timeout_s = 3

        [jobs.orders]
        kind = "archive"
        stream = "ORDERS"
        to = "a"

        [jobs.prices]
        kind = "table"
        bucket = "prices"
        to = "t"
        """
    )
    login = Login("nats://a:4222,nats://b:4222", "ada", "secret", request_timeout_s=3.0)
    assert pipeline.login == login
    assert [job.settings.login for job in pipeline.jobs] == [login, login]  # type: ignore[attr-defined]
    assert isinstance(pipeline.jobs[1].settings, TableSettings)


def test_spark_takes_its_own_settings_as_they_are_or_as_tables() -> None:
    pipeline = parsed(
        ORDERS
        + """
        [spark]
        master = "spark://host:7077"
        memory = "4g"
        [spark.conf]
        "spark.executor.cores" = 2
        spark.ui.enabled = true
        spark.app.tag = "x"
        """
    )
    assert pipeline.spark == SparkSettings(
        "spark://host:7077",
        "4g",
        {"spark.executor.cores": "2", "spark.ui.enabled": "true", "spark.app.tag": "x"},
    )


def test_lists_and_switches_are_as_the_job_has_them() -> None:
    (job,) = parsed(
        ORDERS + 'subjects = ["orders.eu.>", "orders.us.>"]\npartition_by = ["hour"]\nfollow = true'
    ).jobs
    assert isinstance(job.settings, ArchiveSettings)
    assert job.settings.subjects == ("orders.eu.>", "orders.us.>")
    assert job.settings.partition_by == ("hour",)
    assert job.settings.follow is True


def test_a_time_may_be_written_as_toml_has_times() -> None:
    (job,) = parsed(
        '[jobs.t]\nkind = "table"\nbucket = "b"\nto = "t"\nas_of_time = 2026-01-05T09:30:00Z'
    ).jobs
    assert isinstance(job.settings, TableSettings)
    assert job.settings.as_of_time == "2026-01-05T09:30:00+00:00"


def test_a_secret_comes_from_the_environment() -> None:
    text = '[server]\nuser = "ada"\npassword = { env = "NATS_PASSWORD" }\n' + ORDERS
    assert parsed(text, {"NATS_PASSWORD": "open sesame"}).login.password == "open sesame"
    assert problems_of(text) == [
        "p.toml: [server] password: the environment variable NATS_PASSWORD is not set"
    ]


def test_a_job_may_name_the_environment_too() -> None:
    (job,) = parsed(
        '[jobs.o]\nkind = "archive"\nstream = "O"\nto = { env = "ARCHIVE" }', {"ARCHIVE": "here"}
    ).jobs
    assert isinstance(job.settings, ArchiveSettings)
    assert job.settings.to == "here"


def test_jobs_are_chosen_by_name_in_the_order_of_the_names() -> None:
    pipeline = parsed(ORDERS + ORDERS.replace("orders", "copies"))
    assert [job.name for job in pipeline.chosen([])] == ["orders", "copies"]
    assert [job.name for job in pipeline.chosen(["copies", "orders"])] == ["copies", "orders"]
    with pytest.raises(PipelineFileError) as caught:
        pipeline.chosen(["order"])
    assert str(caught.value) == 'p.toml: there is no job "order"; did you mean "orders"?'


# --- errors in a file ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no jobs; add a table such as [jobs.orders]"),
        ("[sever]\n" + ORDERS, 'unknown table [sever]; did you mean "server"?'),
        ("[x]\n" + ORDERS, "unknown table [x]; there is server, spark, jobs"),
        ("jobs = 1", "jobs must be a table: write [jobs] on a line"),
        ("[jobs]\na = 1", "[jobs] a: must be a table: write [jobs.a] on a line"),
        ("[server]\nretries = true", "[server] retries: must be a whole number, not true or false"),
        ("[server]\npasword = 1", '[server] unknown key "pasword"; did you mean "password"?'),
        ("[server]\nuser = {env = 1}", "[server] user: env must name a variable: "
         '{ env = "NATS_PASSWORD" }'),
        ("[spark]\nmemory = 4", "[spark] memory: must be a text, not a whole number"),
        ("[spark]\nconf = 4", "[spark] conf: must be a table of names and values, not 4"),
        ("[spark.conf]\na = [1]", "[spark] conf: holds [1]; its values must be texts, numbers,"
         " true or false"),
    ],
)  # fmt: skip
def test_a_problem_names_the_file_the_table_and_the_key(text: str, problem: str) -> None:
    assert problems_of(text)[0] == f"p.toml: {problem}"


@pytest.mark.parametrize(
    ("key", "line", "problem"),
    [
        ("stream", 'strem = "S"', 'unknown key "strem"; did you mean "stream"?'),
        ("stream", "", 'needs the key "stream"'),
        ("stream", "stream = 7", "stream: must be a text, not a whole number"),
        ("kind", 'kind = "archiv"', 'kind: there is no kind "archiv"; did you mean "archive"?'),
        ("kind", "kind = 1", 'kind: must be a text; write one of "archive", "table", "replay", '
         '"union", "stats"'),
        ("kind", "", 'kind: is missing; write one of "archive", "table", "replay", "union", '
         '"stats"'),
        ("", "follow = 1", "follow: must be true or false, not a whole number"),
        ("", 'subjects = "a.>"', 'subjects: must be a list, not "a.>"; write ["a.>"]'),
        ("", "subjects = [1]", "subjects: must be a text, not a whole number"),
        ("", 'format = "dleta"', 'format: must be one of "delta", "parquet", not "dleta"; did you '
         'mean "delta"?'),
        ("", "file_mb = 1.5", "file_mb: must be a whole number, not a number"),
    ],
)  # fmt: skip
def test_a_problem_of_a_job_names_the_job(key: str, line: str, problem: str) -> None:
    kept = [each for each in ORDERS.splitlines() if not key or not each.startswith(key)]
    assert problems_of("\n".join([*kept, line]))[0] == f"p.toml: [jobs.orders] {problem}"


def test_a_wrong_type_does_not_show_what_may_be_a_secret() -> None:
    (problem,) = problems_of("[server]\npassword = 123456\n" + ORDERS)
    assert "123456" not in problem


def test_all_problems_are_told_at_once() -> None:
    found = problems_of("[server]\nusr = 1\n[jobs.a]\n[jobs.b]\nkind = 'table'\n[jobz]\n")
    assert len(found) == 5, found


def test_what_the_settings_refuse_is_a_problem_of_their_table() -> None:
    (problem,) = problems_of(ORDERS + 'partition_by = ["week"]')
    assert problem.startswith("p.toml: [jobs.orders] option partition_by")
    (problem,) = problems_of('[server]\npassword = "x"\n' + ORDERS)
    assert problem == "p.toml: [server] password: there is no user to it; give a user as well"
    (problem,) = problems_of("[server]\nconnect_timeout_s = -1\n" + ORDERS)
    assert problem.startswith("p.toml: [server] connect_timeout_s: ")


def test_a_file_that_is_no_toml_says_where() -> None:
    (problem,) = problems_of("[jobs\n")
    assert problem.startswith("p.toml: is not TOML: ")
    assert "line 1" in problem


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match=r"none\.toml: cannot be read: No such file"):
        read_pipeline(tmp_path / "none.toml", {})
    (tmp_path / "latin.toml").write_bytes(b"# \xff")
    with pytest.raises(PipelineFileError, match=r"latin\.toml: is not UTF-8 text"):
        read_pipeline(tmp_path / "latin.toml", {})


def test_an_option_of_the_data_source_is_found_among_the_keys() -> None:
    keys = [each.name for each in dataclasses.fields(Login)]
    assert key_of("connectTimeout", keys) == "connect_timeout_s"
    assert key_of("tlsCa", keys) == "tls_ca"
    assert key_of("else", keys) == "else"


# --- independence of Spark ----------------------------------------------------------------------


def test_reading_a_file_loads_no_spark() -> None:
    code = (
        "import sys\n"
        "from headwater.spark.jobs.pipeline_file import parse_pipeline\n"
        f"parse_pipeline({ORDERS!r}, 'p.toml', {{}})\n"
        "print({'pyspark', 'pyarrow', 'deltalake', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_job_has_a_login_from_the_server(kind: str) -> None:
    assert "login" in {each.name for each in dataclasses.fields(KINDS[kind])}  # type: ignore[arg-type]
