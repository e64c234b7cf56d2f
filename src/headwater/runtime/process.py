"""The operating system's figures about this process."""

import os
import resource
import sys
import tempfile
import time


class SystemProcess:
    """Process protocol on the operating system."""

    __slots__ = ("_cpu_s", "_taken_s")

    def __init__(self) -> None:
        self._cpu_s = time.process_time()
        self._taken_s = time.monotonic()

    def pid(self) -> int:
        """The process id."""
        return os.getpid()

    def rss_bytes(self) -> int:
        """Resident memory now; its peak if the system does not have it."""
        try:
            with open("/proc/self/statm", "rb") as file:
                return int(file.read().split()[1]) * resource.getpagesize()
        except OSError:
            unit = 1 if sys.platform == "darwin" else 1024
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    def cpu_percent(self) -> float:
        """Processor time since the last call, 100 for one busy core."""
        cpu_s, now_s = time.process_time(), time.monotonic()
        spent_s, passed_s = cpu_s - self._cpu_s, now_s - self._taken_s
        self._cpu_s, self._taken_s = cpu_s, now_s
        return 100 * spent_s / passed_s if passed_s > 0 else 0.0

    def cores(self) -> int:
        """Processor cores of the machine."""
        return os.cpu_count() or 1

    def memory_bytes(self) -> int:
        """Physical memory of the machine; 0 if unknown."""
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError):
            return 0

    def temporary_folder(self) -> str:
        """The folder that the environment names, or the system's own."""
        return tempfile.gettempdir()
