"""The world of the server's tests, with a process to look at."""

from typing import Final

from headwater.server.configuration.options import Options
from tests.kit.world import World

RSS_BYTES: Final = 12_345_678
CPU_PERCENT: Final = 1.25
CORES: Final = 4
MEMORY_BYTES: Final = 1 << 30
TEMPORARY_FOLDER: Final = "/temporary"


class FixedProcess:
    """A process that never changes."""

    def pid(self) -> int:
        return 7

    def rss_bytes(self) -> int:
        return RSS_BYTES

    def cpu_percent(self) -> float:
        return CPU_PERCENT

    def cores(self) -> int:
        return CORES

    def memory_bytes(self) -> int:
        return MEMORY_BYTES

    def temporary_folder(self) -> str:
        return TEMPORARY_FOLDER


def monitored_world(options: Options | None = None) -> World:
    """A server that can say what it costs the machine."""
    return World(options, process=FixedProcess())
