"""Shadow replicas of the streams that servers run in the process of a unit test."""

from collections.abc import Iterator

import pytest

from tests.kit.shadows import Shadows, shadowed


@pytest.fixture(autouse=True)
def shadows() -> Iterator[Shadows]:
    """Follow every stream of every server by records alone, and compare at the end."""
    with shadowed() as found:
        yield found
