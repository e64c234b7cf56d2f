"""Clients that are held back until work that they caused is done.

Some work takes many turns of the loop, and the operations that a client sends meanwhile would pile
up. So the client is held back: its socket is not read and its backlog is not performed until the
work is done. Pieces of work are counted, because a client may wait for several.
"""

from collections.abc import Callable, Iterable
from typing import final

from headwater.server.core.client import Client


@final
class Holding:
    """Holds clients back. `resume` is called with a client when work for it is done."""

    __slots__ = ("_resume",)

    def __init__(self, resume: Callable[[Client], None]) -> None:
        self._resume = resume

    def hold(self, clients: Iterable[Client]) -> None:
        """Hold clients back for one more piece of work."""
        for client in clients:
            client.awaited += 1
            client.connection.pause_reading()

    def release(self, clients: Iterable[Client]) -> None:
        """End one piece of work that clients waited for."""
        for client in clients:
            client.awaited -= 1
            self._resume(client)


@final
class Waiting:
    """Work that waits for one thing, and the clients that have to wait because it is too much.

    The first `count_max` pieces of work, or `bytes_max` bytes of it, cost no client anything; those
    that bring more are held back until `release`.
    """

    __slots__ = ("_bytes_max", "_count_max", "_held", "_holding", "count", "size")

    def __init__(self, holding: Holding, count_max: int, bytes_max: int) -> None:
        self._holding = holding
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._held: list[Client] = []
        self.count = 0
        self.size = 0

    def add(self, size: int, clients: Iterable[Client], count: int = 1) -> None:
        """Count pieces of work that wait, and hold back the clients that brought too much."""
        self.count += count
        self.size += size
        if self.count > self._count_max or self.size > self._bytes_max:
            held = [*dict.fromkeys(clients)]
            self._holding.hold(held)
            self._held += held

    def release(self) -> None:
        """Count nothing any more, and release the clients that were held back."""
        self.count = self.size = 0
        held, self._held = self._held, []
        self._holding.release(held)


@final
class Deferred:
    """Requests that clients sent and that are answered in later turns, counted by client.

    A client with more of them than `count_max`, or `bytes_max` bytes, is held back until some of
    them have been answered. So requests that wait for a stream do not fill the memory.
    """

    __slots__ = ("_bytes_max", "_count_max", "_holding", "_shares")

    def __init__(self, holding: Holding, count_max: int, bytes_max: int) -> None:
        self._holding = holding
        self._count_max = count_max
        self._bytes_max = bytes_max
        # Requests and bytes of each client that has any.
        self._shares: dict[Client, tuple[int, int]] = {}

    def add(self, client: Client, size: int) -> None:
        """Count a request that is answered later."""
        self._change(client, 1, size)

    def remove(self, client: Client, size: int) -> None:
        """Count a request no more: it has been answered."""
        self._change(client, -1, -size)

    def _change(self, client: Client, count: int, size: int) -> None:
        before = self._shares.get(client, (0, 0))
        after = before[0] + count, before[1] + size
        if after[0]:
            self._shares[client] = after
        else:
            # A client without requests is not kept, so that it can be freed.
            self._shares.pop(client, None)
        if self._is_much(after) and not self._is_much(before):
            self._holding.hold([client])
        elif self._is_much(before) and not self._is_much(after):
            self._holding.release([client])

    def _is_much(self, share: tuple[int, int]) -> bool:
        return share[0] > self._count_max or share[1] > self._bytes_max
