"""Network and scheduler on a real asyncio loop."""

import asyncio
import threading

import pytest

from headwater.runtime.environment import Listener, Network, Scheduler
from headwater.runtime.loop_adapters import LoopNetwork, LoopScheduler
from headwater.runtime.sockets.client_connection import ClientConnection


class Echo(asyncio.Protocol):
    """A connection that sends back all bytes it gets."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class TestNetwork:
    @pytest.mark.parametrize("port", [0, -1])
    def test_a_free_port_is_found_and_told(self, port: int) -> None:
        async def run() -> bytes:
            network: Network = LoopNetwork()
            listener: Listener = await network.listen("127.0.0.1", port, Echo)
            assert listener.port > 0
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(b"hello")
            echoed = await reader.readexactly(5)
            listener.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", listener.port)
            # Connections that were accepted before go on.
            writer.write(b"again")
            echoed += await reader.readexactly(5)
            writer.close()
            await writer.wait_closed()
            return echoed

        assert asyncio.run(run()) == b"helloagain"

    def test_a_port_in_use_is_an_error_of_the_system(self) -> None:
        async def run() -> None:
            network = LoopNetwork()
            first = await network.listen("127.0.0.1", 0, Echo)
            with pytest.raises(OSError, match="in use"):
                await network.listen("127.0.0.1", first.port, Echo)
            first.close()

        asyncio.run(run())


class TestScheduler:
    def test_soon_is_in_order_and_not_at_once(self) -> None:
        async def run() -> list[int]:
            scheduler: Scheduler = LoopScheduler()
            calls: list[int] = []
            for number in range(3):
                scheduler.call_soon(lambda number=number: calls.append(number))  # type: ignore[misc]
            assert calls == []
            await asyncio.sleep(0)
            return calls

        assert asyncio.run(run()) == [0, 1, 2]

    def test_later_comes_unless_it_is_cancelled(self) -> None:
        async def run() -> list[str]:
            scheduler = LoopScheduler()
            calls: list[str] = []
            done = asyncio.get_running_loop().create_future()
            scheduler.call_later(0.001, lambda: calls.append("cancelled")).cancel()
            scheduler.call_later(0.002, lambda: calls.append("kept"))
            scheduler.call_later(0.003, lambda: done.set_result(None))
            await done
            return calls

        assert asyncio.run(run()) == ["kept"]

    def test_offloaded_work_runs_elsewhere_and_its_result_comes_back(self) -> None:
        async def run() -> tuple[int, int]:
            done: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
            LoopScheduler().offload(
                threading.get_ident,
                lambda worker: done.set_result((worker, threading.get_ident())),
            )
            return await done

        worker, loop_thread = asyncio.run(run())
        assert worker != loop_thread
        assert loop_thread == threading.get_ident()


class Recorder:
    """A handler that keeps what its connection does."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.is_accepted = asyncio.Event()
        self.is_lost = asyncio.Event()
        self.connection: ClientConnection | None = None

    def accept(self, connection: ClientConnection) -> ClientConnection:
        self.events.append("accepted")
        self.connection = connection
        self.is_accepted.set()
        return connection

    def receive(self, connection: ClientConnection, data: bytes) -> None:
        self.events.append(data)

    def lost(self, connection: ClientConnection, was_broken: bool) -> None:
        self.is_lost.set()

    def writable(self, connection: ClientConnection) -> None: ...

    def unwritable(self, connection: ClientConnection) -> None: ...


def test_a_connection_is_dialled() -> None:
    async def main() -> None:
        network = LoopNetwork()
        here, there = Recorder(), Recorder()
        listener = await network.listen("127.0.0.1", 0, lambda: ClientConnection(there))
        network.dial("127.0.0.1", listener.port, here, 5.0, here.events.append)
        await here.is_accepted.wait()
        await there.is_accepted.wait()
        listener.close()
        assert here.connection is not None
        here.connection.close()
        await here.is_lost.wait()
        await there.is_lost.wait()
        assert here.events == there.events == ["accepted"]

    asyncio.run(main())


def test_a_dial_that_fails_is_reported_as_go_reports_it() -> None:
    async def main() -> list[str]:
        network = LoopNetwork()
        listener = await network.listen("127.0.0.1", 0, lambda: ClientConnection(Recorder()))
        listener.close()
        failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        network.dial("127.0.0.1", listener.port, Recorder(), 5.0, failed.set_result)
        return [(await failed).replace(str(listener.port), "PORT")]

    assert asyncio.run(main()) == ["dial tcp 127.0.0.1:PORT: connect: connection refused"]


@pytest.mark.parametrize(
    ("host", "port"), [("h" * 64 + ".example", 1), ("h" * 100_000, 1), ("127.0.0.1", -1)]
)
def test_a_dial_of_an_impossible_address_fails_like_another(host: str, port: int) -> None:
    async def main() -> str:
        failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        LoopNetwork().dial(host, port, Recorder(), 5.0, failed.set_result)
        return await failed

    assert asyncio.run(main()).startswith(f"dial tcp {host}:{port}: ")


def test_the_addresses_of_a_network_are_those_that_were_found() -> None:
    async def main() -> list[str]:
        return LoopNetwork(lambda: ["10.0.0.1"]).addresses()

    assert asyncio.run(main()) == ["10.0.0.1"]
