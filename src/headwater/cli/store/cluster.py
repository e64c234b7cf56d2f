"""`headwater store cluster`: the part of a stopped server in its cluster, and two orders to it.

A cluster that has lost a majority of its servers for good is reset on one server that is left; the
others leave and join it again. The commands only write the order. The server carries it out when it
starts (`headwater.server.cluster.consensus.orders`).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from headwater.cli.shell.confirm import confirmed
from headwater.cli.shell.exits import CommandFailed, ExitCode
from headwater.cli.shell.output import Output
from headwater.cli.shell.parameters import TeachingCommand
from headwater.cli.store.opening import (
    KEY_FILE_OPTION,
    NOT_OPENED,
    check_store,
    failures_explained,
    server_key_in,
    store_folder,
)
from headwater.cli.store.read_only_files import DecodedFiles, ReadOnlyFiles
from headwater.runtime.filesystem import SystemFileSystem
from headwater.server.cluster.consensus.birth import NEVER_RESET, Birth
from headwater.server.cluster.consensus.cluster_file import ClusterFile, Order
from headwater.server.cluster.consensus.survey import ClusterSurvey, SurveyedGroup, read_cluster
from headwater.store.disk.layout import LOCK_FILE

FORCE_OPTION: Final = click.option("-f", "--force", is_flag=True, help="Do not ask.")


@click.group("cluster")
def cluster() -> None:
    """Show the cluster that a server is in, reset it, or have the server leave it.

    For a cluster that has lost more than half of its servers for good. The server has to be
    stopped for `reset` and `leave`, which it carries out when it starts.
    """


@cluster.command(
    "show",
    cls=TeachingCommand,
    examples="""
headwater store cluster show data
headwater store cluster show data --json | jq .meta.last_index
""",
)
@click.argument("folder", metavar="DIR")
@KEY_FILE_OPTION
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show(folder: str, key_file: str | None, as_json: bool) -> ExitCode:
    """Show the cluster of the server whose store is in DIR.

    Of the servers that are left after a loss, the one whose last entry has the highest term, and
    among those the highest index, has most: reset the cluster on that one.
    """
    survey = surveyed(folder, key_file)
    output = Output()
    if as_json:
        output.result(json.dumps(survey_fields(survey), ensure_ascii=False))
    else:
        output.result(survey_text(survey))
    return ExitCode.OK


@cluster.command(
    "reset",
    cls=TeachingCommand,
    examples="""
headwater store cluster reset data            says what is given up, and asks
headwater store cluster reset data --force
""",
)
@click.argument("folder", metavar="DIR")
@FORCE_OPTION
@KEY_FILE_OPTION
def reset(folder: str, force: bool, key_file: str | None) -> ExitCode:
    """Make the server whose store is in DIR the only member of its cluster, when it starts.

    For a cluster that has lost more than half of its servers for good, and on one server only. All
    other servers of the cluster are given up, with everything that only they have.
    """
    output = Output()
    with locked(folder) as path:
        survey = surveyed(folder, key_file)
        meta = member_of(survey, path)
        if meta.last_index == 0:
            raise CommandFailed(
                f"The server of {path} was told nothing of its cluster yet",
                "Reset the cluster on a server that has a log: headwater store cluster show DIR.",
            )
        output.remark(reset_text(survey, meta))
        if not confirmed(f"Make the server of {path} the only member of its cluster?", force):
            return ExitCode.FAILED
        give_order(path, Order.RESET)
    output.result(f"{path}: the server is the only member of its cluster from its next start on")
    return ExitCode.OK


@cluster.command(
    "leave",
    cls=TeachingCommand,
    examples="""
headwater store cluster leave data            says what is given up, and asks
headwater store cluster leave data --force
""",
)
@click.argument("folder", metavar="DIR")
@FORCE_OPTION
@KEY_FILE_OPTION
def leave(folder: str, force: bool, key_file: str | None) -> ExitCode:
    """Have the server whose store is in DIR give up its cluster, when it starts.

    It joins the cluster of the servers that it is connected to then, as a new server does. For
    servers that were in a cluster before it was reset on another server.
    """
    output = Output()
    with locked(folder) as path:
        survey = surveyed(folder, key_file)
        member_of(survey, path)
        output.remark(leave_text(survey))
        if not confirmed(f"Have the server of {path} leave its cluster?", force):
            return ExitCode.FAILED
        give_order(path, Order.LEAVE)
    output.result(f"{path}: the server leaves its cluster when it starts")
    return ExitCode.OK


# --- the store ----------------------------------------------------------------------------------


def checked_folder(folder: str) -> str:
    """The folder of the store itself. Raises CommandFailed where there is none."""
    path = store_folder(folder).rstrip("/") or "/"
    check_store(ReadOnlyFiles(), path)
    return path


def surveyed(folder: str, key_file: str | None) -> ClusterSurvey:
    """The cluster of the server whose store is in a folder. Raises CommandFailed."""
    path = checked_folder(folder)
    with failures_explained(path):
        return read_cluster(ReadOnlyFiles(), path, DecodedFiles(path, server_key_in(key_file)))


@contextmanager
def locked(folder: str) -> Iterator[str]:
    """Keep servers from the store in a folder. Returns its path. Raises CommandFailed."""
    path = checked_folder(folder)
    try:
        lock = SystemFileSystem().lock(f"{path}/{LOCK_FILE}")
    except BlockingIOError as error:
        raise CommandFailed(
            f"{path} is in use: {error}", "Stop the server first.", NOT_OPENED
        ) from error
    try:
        yield path
    finally:
        lock.release()


def member_of(survey: ClusterSurvey, path: str) -> SurveyedGroup:
    """The meta group of a server. Raises CommandFailed if the server is in no cluster."""
    if survey.meta is None:
        raise CommandFailed(
            f"The server of {path} is in no cluster", "Nothing is to be reset or left there."
        )
    return survey.meta


def give_order(path: str, order: Order) -> None:
    """Write an order. Raises CommandFailed."""
    with failures_explained(path):
        file = ClusterFile(SystemFileSystem(), path)
        file.order = order
        file.save(file.birth)


# --- for people ---------------------------------------------------------------------------------


def named(names: tuple[str, ...]) -> str:
    """The names of servers, or a word for none."""
    return ", ".join(names) or "none"


def reset_text(survey: ClusterSurvey, meta: SurveyedGroup) -> str:
    """The losses that a reset brings."""
    lines = [
        f"Given up for good: servers {named(survey.others)}.",
        "They are refused if they come back, until `headwater store cluster leave` was run on "
        "their stores.",
        "",
        "Lost: all changes that were confirmed and that only those servers have. In the meta group "
        f"these are entries behind {meta.last_index}, if there are any; this server knows that "
        f"entries up to {min(meta.state.commit, meta.last_index)} were confirmed.",
    ]
    if meta.state.commit < meta.last_index:
        lines.append(
            f"Entries {meta.state.commit + 1} to {meta.last_index} of the meta group count from "
            "now on, whether they were confirmed or not."
        )
    if len(survey.groups) > 1:
        lines.append(
            f"The server becomes the only member of {len(survey.groups) - 1} other groups too."
        )
    if any(has_doubt(group) for group in survey.groups.values()):
        lines.append(
            "This server may have forgotten changes that it confirmed; it goes on with what it has."
        )
    return "\n".join(lines)


def leave_text(survey: ClusterSurvey) -> str:
    """The losses of a server that leaves its cluster."""
    return "\n".join(
        (
            f"Given up for good: the part of this server in a cluster with {named(survey.others)}, "
            f"and its logs of {len(survey.groups)} groups.",
            "Lost: all changes that only this server has.",
            "Start it when a server of the cluster that it is to join is running.",
        )
    )


def survey_text(survey: ClusterSurvey) -> str:
    """A survey in lines of a word and a value."""
    rows = [("store", survey.store.hex()), ("starts", str(survey.start_number))]
    birth, meta = survey.birth.birth, survey.meta
    if birth is None or not survey.birth.is_chosen:
        rows.append(("cluster", "none"))
    else:
        rows += (("cluster", birth.identity.hex()), ("reset", reset_of(birth) or "never"))
    if meta is not None:
        rows += (
            ("voters", named(meta.membership.electors())),
            ("learners", named(meta.membership.learners)),
            ("term", f"{meta.state.term}, vote: {meta.state.vote or 'none'}"),
            ("entries", entries_text(meta)),
            ("memory", "may have forgotten" if has_doubt(meta) else "sound"),
        )
    rows.append(("groups", str(len(survey.groups))))
    rows += (
        (f"server {name}", f"store {facts.store.hex()}, start {facts.start_number}")
        for name, facts in survey.peers.items()
    )
    if survey.order is not Order.NONE:
        rows.append(("order", f"{survey.order.name.lower()}, when the server starts"))
    width = max(len(word) for word, _ in rows)
    return "\n".join(f"{word:{width}}  {value}" for word, value in rows)


def entries_text(group: SurveyedGroup) -> str:
    """The end of a log: the last entry, and the last one that is known to be committed."""
    return (
        f"up to {group.last_index} (of term {group.last_term}), known to be confirmed up to "
        f"{group.state.commit}"
    )


def has_doubt(group: SurveyedGroup) -> bool:
    """Whether a member of a group neither votes nor confirms."""
    return group.may_have_forgotten or group.state.recovery != 0


def reset_of(birth: Birth) -> str:
    """The identity of the last reset, or an empty text."""
    return "" if birth.reset == NEVER_RESET else birth.reset.hex()


# --- for programs -------------------------------------------------------------------------------


def survey_fields(survey: ClusterSurvey) -> dict[str, Any]:
    """A survey as JSON has it."""
    birth, meta = survey.birth.birth, survey.meta
    is_born = birth is not None and survey.birth.is_chosen
    return {
        "store": survey.store.hex(),
        "start_number": survey.start_number,
        "cluster": birth.identity.hex() if birth is not None and is_born else None,
        "reset": (reset_of(birth) or None) if birth is not None and is_born else None,
        "order": None if survey.order is Order.NONE else survey.order.name.lower(),
        "meta": None if meta is None else group_fields(meta),
        "groups": len(survey.groups),
        "servers": [
            {"name": name, "store": facts.store.hex(), "start_number": facts.start_number}
            for name, facts in survey.peers.items()
        ],
    }


def group_fields(group: SurveyedGroup) -> dict[str, Any]:
    """The log of a group."""
    return {
        "term": group.state.term,
        "vote": group.state.vote or None,
        "commit": group.state.commit,
        "last_index": group.last_index,
        "last_term": group.last_term,
        "voters": [*group.membership.electors()],
        "learners": [*group.membership.learners],
        "may_have_forgotten": has_doubt(group),
    }
