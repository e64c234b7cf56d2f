"""`headwater serve`: from a command line to a running process, and the signals to it."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Final

from headwater import __version__
from headwater.base.errors import OperatingError
from headwater.runtime.environment import Environment
from headwater.runtime.files import SystemFiles
from headwater.runtime.loops import new_event_loop
from headwater.runtime.memory_upkeep import MemoryUpkeep, SystemHeap
from headwater.runtime.real import real_environment
from headwater.runtime.sockets.tls import load_context
from headwater.server.configuration import flags
from headwater.server.configuration.options import Options
from headwater.server.lifecycle import Server, StartError
from headwater.server.log_file import LogFile
from headwater.wire.info import NATS_VERSION

# Harnesses match what follows this name, and some the name itself.
PROGRAM: Final = "nats-server"
# nats-server ends with 0. A script that mistypes a flag has to notice that no server is running.
USAGE_EXIT: Final = 2

_SIGNALS: Final = {
    "ldm": signal.SIGUSR2,
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reopen": signal.SIGUSR1,
    "reload": signal.SIGHUP,
}

_NO_FILE: Final = "can only reload config when a file is provided using -c or --config"


def main(argv: Sequence[str]) -> int:
    """Do what the command line says; returns the exit code."""
    files = SystemFiles()

    def parse() -> flags.Command:
        return flags.parse_command_line(argv, files.read_bytes, os.environ, load_context)

    try:
        command = parse()
    except flags.UsageError as error:
        _print_error(str(error))
        print(flags.HELP)
        return USAGE_EXIT
    except OperatingError as error:
        _print_error(f"{PROGRAM}: {error}")
        return 1
    if isinstance(command, flags.RunServer):
        for warning in command.warnings:
            _print_error(warning)
        return _serve(command.options, parse)
    return _answer(command)


def _answer(command: flags.Command) -> int:
    """Do what a command other than running a server asks for; returns the exit code."""
    if isinstance(command, flags.ShowVersion):
        # Harnesses read the first line; the second tells a person which server this is.
        print(f"{PROGRAM}: v{NATS_VERSION}")
        print(f"headwater: v{__version__}")
    elif isinstance(command, flags.ShowHelp):
        print(command.text or flags.HELP)
    elif isinstance(command, flags.TestConfig):
        _print_error(f"{PROGRAM}: {command.message}")
    elif isinstance(command, flags.SendSignal):
        return _send_signal(command)
    return 0


def _send_signal(command: flags.SendSignal) -> int:
    # Process 0 would be this one and everything started with it.
    if not command.target.isdigit() or int(command.target) == 0:
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
        try:
            self._open_log(options, environment)
        except OSError as error:
            _print_error(f"{PROGRAM}: error opening logfile: {error}")
            return 1
        server = Server(options, environment, self._log_line, PROGRAM)
        self._handle_signals(server, environment)
        heap = SystemHeap()
        heap.bound_passes()
        try:
            await server.start()
        except StartError:
            return 1
        upkeep = MemoryUpkeep(
            heap,
            environment.scheduler,
            environment.process,
            is_alone=lambda: not server.node.roster.open,
        )
        upkeep.start()
        await server.wait_stopped()
        upkeep.stop()
        return 0

    def _open_log(self, options: Options, environment: Environment) -> None:
        """Open the log file that options name. Raises OSError, and then keeps the one before."""
        log_file = None
        if options.log_file:
            log_file = LogFile(
                environment.files,
                environment.clock,
                options.log_file,
                options.log_size_limit,
                options.log_max_num,
            )
        if self._log_file is not None:
            self._log_file.close()
        self._log_file = log_file

    def _log_line(self, line: bytes) -> None:
        # A full disk or a closed pipe costs the log, not the clients it speaks of.
        with contextlib.suppress(OSError):
            if self._log_file is None:
                # Unbuffered, so that programs that wait for a line see it at once.
                os.write(2, line)
            else:
                self._log_file.write(line)

    def _handle_signals(self, server: Server, environment: Environment) -> None:
        def stop() -> None:
            self._start(server.stop())

        def reload() -> None:
            self._reload(server, environment)

        actions: dict[signal.Signals, tuple[str, Callable[[], None]]] = {
            signal.SIGINT: ("interrupt", stop),
            signal.SIGTERM: ("terminated", stop),
            signal.SIGUSR1: ("user defined signal 1", lambda: self._reopen_log(server)),
            signal.SIGUSR2: ("user defined signal 2", lambda: self._start(server.lame_duck())),
            signal.SIGHUP: ("hangup", reload),
        }

        def trapped(number: signal.Signals) -> None:
            name, action = actions[number]
            server.log.info(f'Trapped "{name}" signal')
            action()

        loop = asyncio.get_running_loop()
        for number in actions:
            loop.add_signal_handler(number, trapped, number)

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _reopen_log(self, server: Server) -> None:
        if self._log_file is None:
            server.log.info("File log re-open ignored, not a file logger")
        else:
            try:
                self._log_file.reopen()
            except OSError as error:
                server.log.error(f"Can not log to {server.options.log_file}: {error}")
            else:
                server.log.info("File log re-opened")

    def _reload(self, server: Server, environment: Environment) -> None:
        """Read the command line and the file again; an error in them changes nothing."""
        if not server.options.config_file:
            server.refuse_reload(_NO_FILE)
            return
        try:
            command = self._parse()
        except OperatingError as error:
            server.refuse_reload(str(error))
            return
        if not isinstance(command, flags.RunServer):
            return
        logging = _log_settings(server.options)
        server.reload(command.options)
        if logging != _log_settings(server.options):
            try:
                self._open_log(server.options, environment)
            except OSError as error:
                server.log.error(f"Can not log to {server.options.log_file}: {error}")


def _log_settings(options: Options) -> tuple[str, int, int]:
    return options.log_file, options.log_size_limit, options.log_max_num


def _print_error(text: str) -> None:
    print(text, file=sys.stderr)
