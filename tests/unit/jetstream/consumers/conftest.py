"""Streams with consumers for tests: in memory and on disk, each with a shadow.

When a test ends, stream and shadow are compared; on disk also after a restart, after the journal
was rewritten, and after one more restart.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from headwater.jetstream.config.stream_config import Storage
from tests.kit.consumer_driver import ConsumerDriver


class Consume(Protocol):
    """Makes a stream with a configuration, whose consumers are driven."""

    def __call__(self, **config: Any) -> ConsumerDriver: ...


@pytest.fixture(params=[Storage.MEMORY, Storage.FILE], ids=["memory", "file"])
def consume(request: pytest.FixtureRequest) -> Iterator[Consume]:
    made: list[ConsumerDriver] = []

    def make(**config: Any) -> ConsumerDriver:
        made.append(ConsumerDriver(request.param, **config))
        return made[-1]

    yield make
    for driver in made:
        driver.release()
        driver.check()
        if driver.is_on_disk:
            driver.restart()
            driver.rewrite_journal()
            driver.restart()
