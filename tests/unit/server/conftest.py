"""A node in a world without sockets or time of its own, for every test of the server's core."""

from collections.abc import Callable

import pytest

from headwater.server.configuration.options import Options
from tests.kit.world import World

MakeWorld = Callable[..., World]


@pytest.fixture
def world() -> World:
    """A server with default options."""
    return World()


@pytest.fixture
def make_world() -> MakeWorld:
    """A server with options of the test's choosing, checked as at a real start."""

    def make(**options: object) -> World:
        chosen = Options(**options)  # type: ignore[arg-type]
        chosen.validate()
        return World(chosen)

    return make
