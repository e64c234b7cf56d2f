"""`headwater serve`: from a command line to a running process, and what signals mean to it."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Final

from headwater.base.errors import OperatingError
from headwater.runtime.files import SystemFiles
from headwater.runtime.loops import new_event_loop
from headwater.runtime.real import real_environment
from headwater.server import flags
from headwater.server.lifecycle import Server, StartError
from headwater.server.log_file import LogFile
from headwater.server.options import Options
from headwater.wire.info import NATS_VERSION

# Harnesses match what follows this name, and some the name itself.
PROGRAM: Final = "nats-server"

_SIGNALS: Final = {
    "ldm": signal.SIGUSR2,
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reopen": signal.SIGUSR1,
    "reload": signal.SIGHUP,
}

# Young garbage is collected this seldom: messages are bytes, which the collector does not see, and
# walking the lists that hold them is wasted.
_GC_THRESHOLD: Final = (50_000, 20, 100)


def main(argv: Sequence[str]) -> int:
    """Do what the command line says; returns the exit code."""
    files = SystemFiles()

    def parse() -> flags.Command:
        return flags.parse_command_line(argv, files.read_bytes, os.environ)

    try:
        command = parse()
    except flags.UsageError as error:
        _print_error(str(error))
        print(flags.HELP)
        return 0
    except OperatingError as error:
        _print_error(f"{PROGRAM}: {error}")
        return 1
    if isinstance(command, flags.Run):
        for warning in command.warnings:
            _print_error(warning)
        return _serve(command.options, parse)
    return _answer(command)


def _answer(command: flags.Command) -> int:
    """Everything but running a server."""
    if isinstance(command, flags.ShowVersion):
        print(f"{PROGRAM}: v{NATS_VERSION}")
    elif isinstance(command, flags.ShowHelp):
        print(flags.HELP)
    elif isinstance(command, flags.TestConfig):
        _print_error(f"{PROGRAM}: {command.message}")
    elif isinstance(command, flags.SendSignal):
        return _send_signal(command)
    return 0


def _send_signal(command: flags.SendSignal) -> int:
    if not command.target.isdigit():
        _print_error(f"{PROGRAM}: name the process: --signal {command.signal}=<pid or pid file>")
        return 1
    try:
        os.kill(int(command.target), _SIGNALS[command.signal])
    except ProcessLookupError:
        _print_error(f'{PROGRAM}: \nsignal "{command.signal}" {command.target}: no such process')
        return 1
    except PermissionError:
        _print_error(f"{PROGRAM}: not allowed to signal pid {command.target}")
        return 1
    return 0


def _serve(options: Options, parse: Callable[[], flags.Command]) -> int:
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(_Process(parse).run(options))
    except KeyboardInterrupt:
        return 0


class _Process:
    """A server, its log and the signals of one process."""

    def __init__(self, parse: Callable[[], flags.Command]) -> None:
        self._parse = parse
        self._log_file: LogFile | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, options: Options) -> int:
        """Serve until stopped; returns the exit code."""
        environment = real_environment()
        if options.log_file:
            try:
                self._log_file = LogFile(
                    environment.files,
                    environment.clock,
                    options.log_file,
                    options.log_size_limit,
                    options.log_max_num,
                )
            except OSError as error:
                _print_error(f"{PROGRAM}: error opening logfile: {error}")
                return 1
        server = Server(options, environment, self._log_line, PROGRAM)
        self._handle_signals(server)
        try:
            await server.start()
        except StartError:
            return 1
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLD)
        await server.wait_stopped()
        return 0

    def _log_line(self, line: bytes) -> None:
        if self._log_file is None:
            # Unbuffered, so that whoever waits for a line sees it at once.
            os.write(2, line)
        else:
            self._log_file.write(line)

    def _handle_signals(self, server: Server) -> None:
        loop = asyncio.get_running_loop()

        def stop(name: str) -> None:
            server.log.info(f'Trapped "{name}" signal')
            self._start(server.stop())

        loop.add_signal_handler(signal.SIGINT, stop, "interrupt")
        loop.add_signal_handler(signal.SIGTERM, stop, "terminated")
        loop.add_signal_handler(signal.SIGUSR2, lambda: self._start(server.lame_duck()))
        loop.add_signal_handler(signal.SIGUSR1, self._reopen_log)
        loop.add_signal_handler(signal.SIGHUP, self._reload, server)

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _reopen_log(self) -> None:
        if self._log_file is not None:
            self._log_file.reopen()

    def _reload(self, server: Server) -> None:
        """Read the same command line and file again; what is wrong with them changes nothing."""
        try:
            command = self._parse()
        except OperatingError as error:
            server.log.error(f"Failed to reload server configuration: {error}")
            return
        if isinstance(command, flags.Run):
            server.reload(command.options)


def _print_error(text: str) -> None:
    print(text, file=sys.stderr)
