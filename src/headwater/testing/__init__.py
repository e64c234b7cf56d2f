"""The public test kit: a simulated world in which real servers and real clients run.

Start at `World`, or at `Cluster` for several servers in one; `headwater.testing.faults` lists its
faults, and which of them a program can survive.
"""

from headwater.testing.cluster import Cluster, ClusterNotReady
from headwater.testing.disk import SimDisk, crash_points
from headwater.testing.faults import Episode, FaultPlan
from headwater.testing.host import Host, HostCrashed
from headwater.testing.loop import Deadlock, Runaway, SimulationError, UnhandledException
from headwater.testing.network import SimNetwork
from headwater.testing.tcp import Connection, NetworkSettings
from headwater.testing.world import World, seeds, simulated_environment

__all__ = [
    "Cluster",
    "ClusterNotReady",
    "Connection",
    "Deadlock",
    "Episode",
    "FaultPlan",
    "Host",
    "HostCrashed",
    "NetworkSettings",
    "Runaway",
    "SimDisk",
    "SimNetwork",
    "SimulationError",
    "UnhandledException",
    "World",
    "crash_points",
    "seeds",
    "simulated_environment",
]
