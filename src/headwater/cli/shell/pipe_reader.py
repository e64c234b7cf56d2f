"""The reader of a pipe: whether it has read all bytes that were written.

A pipe keeps what its reader has not taken, and throws it away when the reader closes its end. Bytes
that were flushed into a pipe have therefore not been seen by anybody yet. A terminal or a file has
no such reader: there a flush is the end.
"""

import array
import os
import select
import stat
import sys
from typing import TextIO

if sys.platform != "win32":
    import fcntl
    import termios


class PipeReader:
    """The process at the other end of a stream that is a pipe."""

    def __init__(self, stream: TextIO) -> None:
        self._fd = pipe_of(stream)
        self._poll = select.poll() if self._fd >= 0 else None
        if self._poll is not None:
            # An error is always reported: a pipe has one when it has no reader any more.
            self._poll.register(self._fd, 0)

    def has_taken_all(self) -> bool:
        """Whether all flushed bytes have been read. Raises BrokenPipeError without a reader.

        The question about the reader comes first: a reader that takes everything and leaves
        between two questions has taken everything.
        """
        if self._poll is None:
            return True
        is_gone = bool(self._poll.poll(0))
        if waiting_bytes(self._fd) == 0:
            return True
        if is_gone:
            raise BrokenPipeError("the reader of the output left before it had read all of it")
        return False


def pipe_of(stream: TextIO) -> int:
    """The descriptor of a pipe whose unread bytes can be counted, -1 for anything else."""
    try:
        fd = stream.fileno()
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return -1
        waiting_bytes(fd)
    except (OSError, ValueError):
        return -1
    return fd


def waiting_bytes(fd: int) -> int:
    """The number of bytes that the reader of a pipe has not taken. Raises OSError if unknown."""
    if sys.platform == "win32":
        raise OSError("pipes do not tell on this system")
    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]
