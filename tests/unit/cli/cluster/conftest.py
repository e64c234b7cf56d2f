"""A server for the fake clusters of these tests."""

from collections.abc import Iterator

import pytest

from tests.kit.command_line import serving


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of a server that is called the cluster `trio`, for a fake API."""
    with serving("headwater", "--cluster", "nats://127.0.0.1:-1", "--cluster_name", "trio") as url:
        yield url
