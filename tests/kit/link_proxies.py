"""TCP proxies on the links between the servers of a cluster: links that are cut, one-way or slow.

Each server dials every other one through a proxy of its own, so that a proxy knows both ends of a
connection. A flow is the traffic from one server to another, through whichever proxy it goes.

A flow that is cut keeps its bytes, as a network does that loses packets for a while: they arrive
when the flow is healed, unless an end has given the connection up. A link that is broken resets its
connections, and refuses new ones.

Must not know: the frames of servers. All proxies belong to the event loop that started them.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, final

HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 65_536
# The flow from the first server to the second.
Pair = tuple[str, str]


@final
class Flow:
    """The traffic from one server to another."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.is_broken = False
        self.passes = asyncio.Event()
        self.passes.set()

    def heal(self) -> None:
        """Let bytes pass, and connections be made."""
        self.delay_s, self.is_broken = 0.0, False
        self.passes.set()

    async def carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Carry bytes until an end closes its connection."""
        while data := await source.read(CHUNK_BYTES):
            await self.passes.wait()
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            target.write(data)
            await target.drain()


class LinkProxies:
    """The proxies of all links of a cluster; `route_ports` are the ports of the servers by name."""

    def __init__(self, route_ports: Mapping[str, int]) -> None:
        self._route_ports = dict(route_ports)
        pairs = [*itertools.permutations(route_ports, 2)]
        self.flows: dict[Pair, Flow] = {pair: Flow() for pair in pairs}
        self._listeners: dict[Pair, asyncio.Server] = {}
        self._connections: dict[Pair, set[asyncio.StreamWriter]] = {pair: set() for pair in pairs}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen for every server's connections to every other one."""
        for pair in self.flows:
            accept = partial(self._accept, pair)
            self._listeners[pair] = await asyncio.start_server(accept, HOST, 0)

    async def stop(self) -> None:
        """End all connections, and listen no more."""
        for listener in self._listeners.values():
            listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def routes_of(self, name: str) -> list[str]:
        """The addresses at which a server finds the others."""
        found = [each for pair, each in self._listeners.items() if pair[0] == name]
        return [f"{HOST}:{each.sockets[0].getsockname()[1]}" for each in found]

    # --- faults --------------------------------------------------------------------------------

    def outgoing(self, names: Sequence[str]) -> list[Pair]:
        """The flows from some servers to all others."""
        return [pair for pair in self.flows if pair[0] in names and pair[1] not in names]

    def incoming(self, names: Sequence[str]) -> list[Pair]:
        """The flows to some servers from all others."""
        return [(second, first) for first, second in self.outgoing(names)]

    def cut(self, pairs: Iterable[Pair]) -> None:
        """Let no bytes pass from the first server of each pair to the second one."""
        for pair in pairs:
            self.flows[pair].passes.clear()

    def slow_down(self, pairs: Iterable[Pair], delay_s: float) -> None:
        """Let every chunk of bytes wait."""
        for pair in pairs:
            self.flows[pair].delay_s = delay_s

    def break_links(self, pairs: Iterable[Pair]) -> None:
        """Reset the connections of each pair of servers, and refuse new ones."""
        for first, second in pairs:
            for pair in ((first, second), (second, first)):
                self.flows[pair].is_broken = True
                for writer in self._connections[pair]:
                    writer.transport.abort()

    def heal(self) -> None:
        """End all faults."""
        for flow in self.flows.values():
            flow.heal()

    # --- connections ---------------------------------------------------------------------------

    def _accept(
        self, pair: Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.create_task(self._join(pair, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join(
        self, pair: Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Join a connection of the dialling server to one of the proxy to the other server."""
        ends = [writer]
        try:
            there, back = self.flows[pair], self.flows[pair[1], pair[0]]
            if there.is_broken:
                return
            with contextlib.suppress(OSError):
                target_reader, target_writer = await asyncio.open_connection(
                    HOST, self._route_ports[pair[1]]
                )
                ends.append(target_writer)
                self._connections[pair].update(ends)
                carriers = [
                    asyncio.create_task(there.carry(reader, target_writer)),
                    asyncio.create_task(back.carry(target_reader, writer)),
                ]
                try:
                    await asyncio.wait(carriers, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for carrier in carriers:
                        carrier.cancel()
                    await asyncio.gather(*carriers, return_exceptions=True)
        finally:
            self._connections[pair].difference_update(ends)
            for end in ends:
                end.transport.abort()
