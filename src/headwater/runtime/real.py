"""The real world, assembled."""

from headwater.runtime.clock import SystemClock
from headwater.runtime.entropy import SystemEntropy
from headwater.runtime.environment import Environment
from headwater.runtime.files import SystemFiles
from headwater.runtime.loop_adapters import LoopNetwork, LoopScheduler
from headwater.runtime.process import SystemProcess


def real_environment() -> Environment:
    """The operating system's clock, dice, files and network. Call it on a running loop."""
    return Environment(
        clock=SystemClock(),
        entropy=SystemEntropy(),
        files=SystemFiles(),
        network=LoopNetwork(),
        scheduler=LoopScheduler(),
        process=SystemProcess(),
    )
