"""Checks before Spark starts, which takes seconds.

They ask whether Spark and a Java are installed, whether the server answers and accepts the login,
and whether the streams, buckets and archives exist. Each failed check names the problem and the
next step in a line.
"""

import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Final

from headwater.base.errors import OperatingError
from headwater.cli.connection.failures import UNKNOWN_HOST_ADVICE
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.render import count_text, size_text
from headwater.client.api.answers import STREAM_NOT_FOUND
from headwater.client.link.api import ApiClient
from headwater.client.link.connection import Connection
from headwater.client.link.errors import (
    ApiRefusedError,
    NoRespondersError,
    RefusedError,
    UnknownHostError,
    UnreachableError,
)
from headwater.client.link.login import Login
from headwater.spark.java import java_home
from headwater.spark.jobs.archive.manifest import check_place, read_manifest, settle_manifest
from headwater.spark.jobs.archive.settings import ArchiveSettings
from headwater.spark.jobs.pipeline_file import LOGIN_FIELD, Job
from headwater.spark.jobs.replay.job import ReplaySettings

CLIENT_NAME: Final = "headwater-pipeline"
# The packages of the extra `spark`.
SPARK_PACKAGES: Final = ("pyspark", "pyarrow", "pandas", "deltalake")
INSTALL_ADVICE: Final = "pip install 'headwater[spark]'"
# The settings that name something that must exist, and its kind.
NEEDS: Final = {"stream": "stream", "bucket": "bucket", "to_stream": "stream", "archive": "archive"}


@dataclass(frozen=True)
class Check:
    """One question and its answer: `failure` where the answer is no."""

    what: str
    answer: str = ""
    failure: CommandFailed | None = None


@dataclass(frozen=True)
class Need:
    """A stream, bucket or archive that a job needs; `option` is the setting that names it."""

    option: str
    kind: str
    name: str

    @property
    def stream(self) -> str:
        """The stream itself, or the stream of the bucket."""
        return f"KV_{self.name}" if self.kind == "bucket" else self.name

    @property
    def text(self) -> str:
        return f"{self.kind} {self.name}"


def require(checks: Iterable[Check]) -> None:
    """Raise the first failure; later checks are not made."""
    for check in checks:
        if check.failure is not None:
            raise check.failure


def spark_checks() -> Iterator[Check]:
    """Look for Spark and for a Java to run it, without loading either."""
    missing = [name for name in SPARK_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        failure = CommandFailed(f"Spark jobs need {', '.join(missing)}: {INSTALL_ADVICE}")
        yield Check("Spark", failure=failure)
    else:
        yield Check("Spark", metadata.version("pyspark"))
    try:
        yield Check("Java", str(java_home()))
    except OperatingError as error:
        yield Check("Java", failure=CommandFailed(str(error)))


def checks_of(jobs: Sequence[Job]) -> Iterator[Check]:
    """Ask for all that the jobs need, each thing once."""
    logins: dict[Login, dict[Need, None]] = {}
    archives: dict[str, Need] = {}
    for job in jobs:
        for need in needs_of(job.settings):
            if need.kind == "archive":
                archives[need.name] = need
            else:
                logins.setdefault(login_for(job, need), {})[need] = None
    for login, needs in logins.items():
        yield from server_checks(login, list(needs))
    yield from (manifest_check(job) for job in jobs if isinstance(job.settings, ArchiveSettings))
    made_here = {job.settings.to for job in jobs if isinstance(job.settings, ArchiveSettings)}
    yield from (archive_check(need) for name, need in archives.items() if name not in made_here)


def needs_of(settings: object) -> Iterator[Need]:
    """The streams, buckets and archives that a job needs, by the fields that name them."""
    for option, kind in NEEDS.items():
        name = getattr(settings, option, None)
        if isinstance(name, str):
            yield Need(option, kind, name)


def login_for(job: Job, need: Need) -> Login:
    """The login by which a job reaches a stream that it needs."""
    settings = job.settings
    if isinstance(settings, ReplaySettings) and need.option == "to_stream":
        return settings.to_login
    login = getattr(settings, LOGIN_FIELD)
    assert isinstance(login, Login)
    return login


def server_checks(login: Login, needs: Sequence[Need]) -> Iterator[Check]:
    """Ask the server whether it is there, and for each stream."""
    what = f"server {login.shown_url}"
    try:
        # A person waits: a missing server is reported at once.
        connection = Connection(replace(login, retries=0), CLIENT_NAME)
    except OperatingError as error:
        yield Check(what, failure=connection_failure(error))
        return
    with connection:
        version = connection.info.get("version", "?")
        name = connection.info.get("server_name", "")
        yield Check(what, f"{name} {version}".strip())
        for need in needs:
            yield stream_check(ApiClient(connection), need)


def connection_failure(error: OperatingError) -> CommandFailed:
    """The failure for a connection that was not made, with advice."""
    advice = ""
    if isinstance(error, UnknownHostError):
        advice = UNKNOWN_HOST_ADVICE
    elif isinstance(error, UnreachableError):
        advice = "Is it running, and is this its address? Start one here with: headwater serve -js"
    elif isinstance(error, RefusedError):
        advice = "Say who you are with --user, --token, --nkey or --creds, or in [server]."
    return CommandFailed(sentence(str(error)), advice, ExitCode.NOT_CONNECTED)


def stream_check(api: ApiClient, need: Need) -> Check:
    """Ask for one stream or bucket."""
    try:
        info = api.stream_info(need.stream)
    except NoRespondersError as error:
        failure = CommandFailed(
            "JetStream is not enabled on this server", "Start it with -js: headwater serve -js"
        )
        if api.connection.login.api_option is not None:
            failure = CommandFailed(sentence(str(error)), "Look at --domain and --api-prefix.")
        return Check(need.text, failure=failure)
    except ApiRefusedError as error:
        if error.err_code != STREAM_NOT_FOUND:
            return Check(need.text, failure=CommandFailed(f"{need.text}: {error}"))
        failure = CommandFailed(
            f"There is no {need.text} ({need.option})",
            "See what there is with: headwater stream ls",
        )
        return Check(need.text, failure=failure)
    except OperatingError as error:
        return Check(need.text, failure=CommandFailed(f"{need.text}: {error}"))
    return Check(need.text, f"{count_text(info.messages, 'message')}, {size_text(info.bytes)}")


def archive_check(need: Need) -> Check:
    """Look whether there is an archive."""
    try:
        manifest = read_manifest(Path(need.name).absolute(), need.option)
    except OperatingError as error:
        advice = "Make one with: headwater pipeline archive STREAM --to FOLDER"
        return Check(need.text, failure=CommandFailed(sentence(str(error)), advice))
    return Check(need.text, f"of stream {manifest.stream}, {manifest.format}")


def manifest_check(job: Job) -> Check:
    """Look whether an archive that is there already was made with the same settings."""
    settings = job.settings
    assert isinstance(settings, ArchiveSettings)
    what = f"archive {settings.to}"
    try:
        if check_place(settings.root) is None:
            return Check(what, "to be made")
        # It is there, so this only compares.
        settle_manifest(settings.root, settings.manifest)
    except OperatingError as error:
        return Check(what, failure=CommandFailed(sentence(str(error))))
    return Check(what, "goes on")


def sentence(text: str) -> str:
    """A text that begins a message."""
    return text[:1].upper() + text[1:]
