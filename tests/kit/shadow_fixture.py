"""The fixture that gives every stream of every server in the process of a test its shadow.

A folder of tests whose servers run in the process of the test imports it into its `conftest.py`.
"""

from collections.abc import Iterator

import pytest

from tests.kit.shadows import Shadows, shadowed


@pytest.fixture(autouse=True)
def shadows() -> Iterator[Shadows]:
    """Follow every stream of every server by records alone, and compare at the end."""
    with shadowed() as found:
        yield found
