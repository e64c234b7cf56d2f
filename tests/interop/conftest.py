"""Servers for the differential tests: started when first needed, stopped with the session."""

from collections.abc import Iterator

import pytest

from tests.interop.differential import ServerPool


@pytest.fixture(scope="session")
def servers() -> Iterator[ServerPool]:
    pool = ServerPool()
    yield pool
    pool.close()
