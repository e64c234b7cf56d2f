"""A case of three servers: one script, the rule it shows, and the servers it needs.

The docstring of the script is the rule in words. Most cases share their servers, each with streams
of its own; one that stops servers has three of its own.

Must not know: how servers are run or trees compared.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tests.interop.jetstream import RESOURCES
from tests.interop.jetstream_trio import OWN_SETTINGS
from tests.interop.observation import Mask, Observation
from tests.interop.stage import Stage
from tests.kit.server_process import Setup

ClusterScript: TypeAlias = Callable[[Stage], Observation]

ACCOUNTS = """
accounts {
  $SYS { users: [ { user: admin, password: x } ] }
  A { jetstream: enabled, users: [ { user: a, password: x } ] }
  OTHER { jetstream: enabled, users: [ { user: other, password: x } ] }
  WITHOUT { users: [ { user: without, password: x } ] }
  TIGHT {
    jetstream { max_mem: 100000, max_file: 300000, max_streams: 3, max_consumers: 2 }
    users: [ { user: tight, password: x } ]
  }
}
no_auth_user: a
"""


def cluster_setup(settings: str = "", rest: str = "") -> Setup:
    """Servers with tags and accounts; `settings` are of JetStream, `rest` of the server."""
    return Setup(
        f'jetstream {{ store_dir: "store", {RESOURCES}{settings}{OWN_SETTINGS} }}\n'
        'server_tags: ["node:sSERVER_NUMBER", "zone:SERVER_ZONE", "ssd"]\n'
        f"{ACCOUNTS}\n{rest}"
    )


STANDARD = cluster_setup()
UNIQUE_TAG = cluster_setup(', unique_tag: "zone:"')
FEW_GROUPS = cluster_setup(", limits { max_ha_assets: 3 }")


@dataclass(frozen=True)
class ClusterCase:
    """`own_servers` is true for a script that does to servers what no other script should meet."""

    name: str
    statement: str
    script: ClusterScript
    setup: Setup
    own_servers: bool
    masks: tuple[Mask, ...]


class ClusterCatalogue:
    """The cases of one topic, in the order they are written."""

    def __init__(self, setup: Setup = STANDARD) -> None:
        self._setup = setup
        self.cases: list[ClusterCase] = []

    def case(
        self,
        *,
        setup: Setup | None = None,
        own_servers: bool = False,
        masks: tuple[Mask, ...] = (),
    ) -> Callable[[ClusterScript], ClusterScript]:
        """Register a script, whose name is the case's."""

        def register(script: ClusterScript) -> ClusterScript:
            self.add(
                script.__name__,
                script.__doc__ or "",
                script,
                setup=setup,
                own_servers=own_servers,
                masks=masks,
            )
            return script

        return register

    def add(
        self,
        name: str,
        statement: str,
        script: ClusterScript,
        *,
        setup: Setup | None = None,
        own_servers: bool = False,
        masks: tuple[Mask, ...] = (),
    ) -> None:
        """Register a script under a name, such as a line of a table has."""
        chosen = setup or self._setup
        self.cases.append(ClusterCase(name, statement, script, chosen, own_servers, masks))
