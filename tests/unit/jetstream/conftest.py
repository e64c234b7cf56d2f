"""Streams for tests: each in memory and on disk, each with a shadow, checked when the test ends."""

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from headwater.jetstream.config.stream_config import Storage
from headwater.jetstream.streams.publishing.batch_limits import BatchLimits
from tests.kit.stream_driver import StreamDriver


class Drive(Protocol):
    """Makes a stream with a configuration."""

    def __call__(self, limits: BatchLimits | None = None, **config: Any) -> StreamDriver: ...


@pytest.fixture(params=[Storage.MEMORY, Storage.FILE], ids=["memory", "file"])
def drive(request: pytest.FixtureRequest) -> Iterator[Drive]:
    """Drivers whose stream and shadow are compared at the end, also after a restart."""
    made: list[StreamDriver] = []

    def make(limits: BatchLimits | None = None, **config: Any) -> StreamDriver:
        made.append(StreamDriver(request.param, limits, **config))
        return made[-1]

    yield make
    for driver in made:
        driver.release()
        driver.check()
        if driver.is_on_disk:
            driver.restart()
