"""An event loop in a thread of its own, for programs that have no loop."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar, final

from headwater.base.errors import ProgrammerError
from headwater.runtime.loops import new_event_loop

T = TypeVar("T")


@final
class LoopThread:
    """Runs coroutines on its own loop until closed."""

    __slots__ = ("_loop", "_thread")

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and wait for its result."""
        if threading.current_thread() is self._thread:
            raise ProgrammerError("LoopThread.run called on its own loop: await instead")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Stop the loop and wait for the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
