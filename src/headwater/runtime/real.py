"""The real world, assembled."""

from headwater.runtime.addresses import own_addresses
from headwater.runtime.clock import SystemClock
from headwater.runtime.entropy import SystemEntropy
from headwater.runtime.environment import Environment
from headwater.runtime.files import SystemFiles
from headwater.runtime.filesystem import SystemFileSystem, boot_id
from headwater.runtime.loop_adapters import LoopNetwork, LoopScheduler
from headwater.runtime.marks import SystemMarks
from headwater.runtime.open_files import OpenFiles, open_files_max
from headwater.runtime.process import SystemProcess
from headwater.runtime.sockets.tls import load_context
from headwater.runtime.time_zones import find_zone
from headwater.store.disk.wal import number_of


def real_environment() -> Environment:
    """The operating system's clock, random numbers, files and network, for a running loop."""
    return Environment(
        clock=SystemClock(),
        entropy=SystemEntropy(),
        files=SystemFiles(),
        network=LoopNetwork(own_addresses),
        scheduler=LoopScheduler(),
        process=SystemProcess(),
        disk=OpenFiles(SystemFileSystem(), open_files_max(), stays_open=_is_write_ahead),
        boot_id=boot_id(),
        marks_in=SystemMarks,
        find_zone=find_zone,
        load_tls=load_context,
    )


def _is_write_ahead(path: str) -> bool:
    """Whether the file is a write-ahead file, which every commit needs and so stays open."""
    return number_of(path.rpartition("/")[2]) > 0
