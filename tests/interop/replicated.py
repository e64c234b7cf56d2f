"""The cases of JetStream on three servers, each stream of theirs with three replicas.

A case is seen as on one server, but for what belongs to a cluster: which server answers and leads
is chance, and `REPLICATED_MASKS` say what holds for it.

nats-server itself does not show everything on three servers as it does on one. `DIFFERENT` lists
these cases with the reasons. There the subject may be seen as nats-server is on three servers or
as it is on one: the difference is none that a client could rely on.

Must not know: what any case means.
"""

import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from tests.interop.case import Case
from tests.interop.cases.jetstream import catalogue
from tests.interop.jetstream_trio import CLUSTER, JetStreamTrio
from tests.interop.observation import Mask, Observation
from tests.interop.replicated_differences import ALONE, DIFFERENT
from tests.interop.trio import NAMES
from tests.kit.server_process import Program, Setup

SETUPS: Final = 2
"""The number of set-ups in a sample of the cases."""


class TrioPool:
    """Three servers by program and set-up, started when first needed, stopped together."""

    def __init__(self) -> None:
        self._running: dict[tuple[Program, Setup], JetStreamTrio] = {}
        self._workspace = tempfile.TemporaryDirectory(prefix="interop-", ignore_cleanup_errors=True)

    def shared(self, program: Program, setup: Setup) -> JetStreamTrio:
        """The servers that cases of one set-up share."""
        key = (program, setup)
        if key not in self._running:
            self._running[key] = self.start(program, setup)
        return self._running[key]

    def start(self, program: Program, setup: Setup) -> JetStreamTrio:
        """Three servers that nobody else uses."""
        trio = JetStreamTrio(program, Path(tempfile.mkdtemp(dir=self._workspace.name)), setup)
        try:
            trio.start()
        except BaseException:
            trio.stop()
            raise
        return trio

    def close(self) -> None:
        """Stop all servers."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(JetStreamTrio.stop, self._running.values()))
        self._running.clear()
        self._workspace.cleanup()


def replicated_cases() -> list[Case]:
    """The cases that mean something on three servers."""
    left_out = {rule for rules in ALONE.values() for rule in rules}
    return [
        case
        for case in catalogue.cases
        if case.setup is not None
        and has_streams(case.setup)
        and not case.own_server
        and case.rule not in left_out
    ]


def has_streams(setup: Setup) -> bool:
    """Whether JetStream is switched on."""
    return "jetstream" in setup.config or "-js" in setup.flags


def sample(cases: list[Case], share: int) -> list[Case]:
    """One of so many cases, always the same ones, of the set-ups that most cases have.

    Each further set-up costs six servers; the share 1 is all cases.
    """
    if share == 1:
        return cases
    common = [setup for setup, _ in Counter(case.setup for case in cases).most_common(SETUPS)]
    some = [case for case in cases if crc32(case.rule.encode()) % share == 0]
    return [case for case in some if case.setup in common]


def may_differ(case: Case) -> bool:
    """Whether nats-server shows the case on three servers otherwise than on one."""
    return any(case.rule in rules for rules in DIFFERENT.values())


def observe_replicated(case: Case, program: Program, pool: TrioPool) -> Observation:
    """The observation of the script by a client of one of the three servers."""
    assert case.setup is not None
    trio = pool.shared(program, case.setup)
    with trio.session(crc32(case.name.encode()) % len(NAMES)) as session:
        return case.script(session)


def observe_replicated_subject(case: Case, program: Program, pool: TrioPool) -> Observation:
    """As `observe_replicated`, but a script that could not finish is an observation too."""
    try:
        return observe_replicated(case, program, pool)
    except Exception as error:
        return {"script could not finish": f"{type(error).__name__}: {error}"}


def without_cluster(observation: Any) -> Any:
    """The observation without the documents of a cluster, its streams as if on one server."""
    if isinstance(observation, dict):
        return {
            key: 1 if key == "num_replicas" and value == len(NAMES) else without_cluster(value)
            for key, value in observation.items()
            if key != "cluster"
        }
    if isinstance(observation, list | tuple):
        return [without_cluster(each) for each in observation]
    return observation


def tells_of_cluster(value: Observation) -> bool:
    """Whether a document, or the name in the description of a client, is of the cluster.

    A group has no leader for a moment when it changes.
    """
    if isinstance(value, dict):
        return value.get("name") == CLUSTER and value.get("leader", NAMES[0]) in NAMES
    return value == CLUSTER


def is_server(value: Observation) -> bool:
    return value in NAMES


def is_list(value: Observation) -> bool:
    return isinstance(value, list)


REPLICATED_MASKS: Final = (
    Mask("**.cluster", tells_of_cluster, "chance elects the leader"),
    Mask("**.advisory.server", is_server, "chance elects the leader"),
    Mask("**.advisory.client.server", is_server, "a case has a server by its name"),
    Mask("**.INFO.server_name", is_server, "a case has a server by its name"),
    Mask("**.INFO.connect_urls", is_list, "free ports were asked for"),
)
