"""The command line as a person sees it at a terminal."""

import os
import pty
import re
import signal
import subprocess
from threading import Timer
from typing import Final

from tests.kit.command_line import ENVIRONMENT, HEADWATER, PATIENCE_S

ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
CTRL_C_AGAIN_S: Final = 3


def in_terminal(*arguments: str, url: str = "") -> str:
    """The output of a command at a terminal."""
    ours, theirs = pty.openpty()
    with (
        os.fdopen(ours, "rb", buffering=0) as screen,
        subprocess.Popen(
            [*HEADWATER, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env=ENVIRONMENT | {"NATS_URL": url},
        ),
    ):
        os.close(theirs)
        seen = b""
        while chunk := read_screen(screen.fileno()):
            seen += chunk
    return seen.decode()


def read_screen(fd: int) -> bytes:
    """The next output, or nothing once the command has ended, which Linux reports as an error."""
    try:
        return os.read(fd, 4096)
    except OSError:
        return b""


def at_terminal(
    url: str, *arguments: str, answer: str = "", interrupt: bool = False, columns: int = 80
) -> tuple[int, str]:
    """The exit code and the screen of a command whose question is answered or interrupted."""
    ours, theirs = pty.openpty()
    environment = ENVIRONMENT | {"NATS_URL": url, "COLUMNS": str(columns), "NO_COLOR": "1"}
    with (
        os.fdopen(ours, "r+b", buffering=0) as screen,
        subprocess.Popen(
            [*HEADWATER, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
        ) as process,
    ):
        os.close(theirs)
        watchdog = Timer(PATIENCE_S, process.kill)
        watchdog.start()
        seen = b""
        while chunk := read_screen(screen.fileno()):
            seen += chunk
            if seen.endswith(b"[y/N]: "):
                if interrupt:
                    press_ctrl_c(process)
                screen.write(answer.encode())
        watchdog.cancel()
        return process.wait(PATIENCE_S), ESCAPES.sub("", seen.decode())


def press_ctrl_c(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a command that asks something.

    Between showing the question and waiting for the answer the interpreter does not look at
    signals; a person is not that fast, and would press again.
    """
    for _ in range(PATIENCE_S // CTRL_C_AGAIN_S):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(CTRL_C_AGAIN_S)
            return
        except subprocess.TimeoutExpired:
            continue
