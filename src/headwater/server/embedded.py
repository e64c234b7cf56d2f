"""A server inside a Python program, in one line.

In a coroutine:

    async with running(jetstream=True) as server:
        client = await nats.connect(server.url)

Anywhere else, where the server gets a thread of its own:

    with EmbeddedServer(jetstream=True) as server:
        print(server.url)

Both start when they are entered. Both listen on a free port of the loopback address unless a
keyword says otherwise; a keyword is the name of an option, such as `max_payload=1024`. Streams are
kept in a temporary folder, which is removed at the end, unless `store_dir` names one.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, final

from headwater.base.errors import ProgrammerError
from headwater.runtime.loop_thread import LoopThread
from headwater.runtime.real import real_environment
from headwater.runtime.scratch import scratch_folder
from headwater.server.configuration.options import JetStreamOptions, Options
from headwater.server.lifecycle import Server

LOOPBACK: Final = Options(host="127.0.0.1", port=-1)

LogLine = Callable[[bytes], None]


def _silent(line: bytes) -> None:
    """Drop a log line: the caller did not ask for the log."""


def options_with(
    options: Options, jetstream: bool | JetStreamOptions, store_dir: str, settings: dict[str, Any]
) -> Options:
    """`options` with what the keywords of an embedded server say. Raises OptionsError."""
    if store_dir and jetstream is False:
        # A folder that nothing is written to would be a silent mistake.
        jetstream = True
    if jetstream is True:
        jetstream = replace(options.jetstream, enabled=True)
    if jetstream is not False:
        store_dir = store_dir or jetstream.store_dir
        settings = settings | {"jetstream": replace(jetstream, store_dir=store_dir)}
    options = replace(options, **settings)
    options.validate()
    return options


def placed(options: Options, stack: ExitStack) -> Options:
    """`options` with a folder for the streams, which `stack` removes if it is a temporary one."""
    jetstream = options.jetstream
    if not jetstream.enabled or jetstream.store_dir:
        return options
    folder = stack.enter_context(scratch_folder())
    return replace(options, jetstream=replace(jetstream, store_dir=folder))


async def start_server(options: Options = LOOPBACK, log: LogLine = _silent) -> Server:
    """Start a server on the running loop; `await server.stop()` ends it."""
    server = Server(options, real_environment(), log)
    await server.start()
    return server


@asynccontextmanager
async def running(
    options: Options = LOOPBACK,
    log: LogLine = _silent,
    *,
    jetstream: bool | JetStreamOptions = False,
    store_dir: str = "",
    **settings: Any,
) -> AsyncIterator[Server]:
    """A server for the length of an `async with` block."""
    options = options_with(options, jetstream, store_dir, settings)
    with ExitStack() as stack:
        server = await start_server(placed(options, stack), log)
        try:
            yield server
        finally:
            await server.stop()


@final
class EmbeddedServer:
    """A server with a thread of its own, for programs without an event loop.

    It runs from `with` to the end of the block, or from `start` to `stop`.
    """

    def __init__(
        self,
        options: Options = LOOPBACK,
        log: LogLine = _silent,
        *,
        jetstream: bool | JetStreamOptions = False,
        store_dir: str = "",
        **settings: Any,
    ) -> None:
        self._options = options_with(options, jetstream, store_dir, settings)
        self._log = log
        self._ending: ExitStack | None = None
        self._started: Server | None = None

    @property
    def url(self) -> str:
        """The URL by which clients connect."""
        return self._server.url

    @property
    def port(self) -> int:
        """The port clients connect to."""
        return self._server.client_port

    @property
    def monitoring_port(self) -> int:
        """The HTTP port, 0 if the options ask for none."""
        return self._server.monitoring_port

    @property
    def _server(self) -> Server:
        if self._started is None:
            raise ProgrammerError(
                "the embedded server has not been started: use it in a with statement"
            )
        return self._started

    def start(self) -> None:
        """Start the server in a thread of its own. Raises StartError and leaves nothing behind."""
        if self._ending is not None:
            raise ProgrammerError("the embedded server is running already")
        with ExitStack() as stack:
            options = placed(self._options, stack)
            thread = LoopThread("headwater-server")
            stack.callback(thread.close)
            server = thread.run(start_server(options, self._log))
            stack.callback(lambda: thread.run(server.stop()))
            self._started, self._ending = server, stack.pop_all()

    def stop(self) -> None:
        """Stop the server and its thread; a server that is not running stays as it is."""
        ending, self._ending = self._ending, None
        if ending is not None:
            ending.close()

    def __enter__(self) -> "EmbeddedServer":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
