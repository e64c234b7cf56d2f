"""`pytest tests/scenarios --rewrite` writes what happens into the scenario files.

The streams of the servers of a scenario have shadow replicas.
"""

import pytest

from tests.kit.shadow_fixture import shadows

__all__ = ["pytest_addoption", "rewrite", "shadows"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        default=False,
        help="write what really happens into the scenario files; read the diff before you commit",
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether outcomes are written instead of compared."""
    return bool(request.config.getoption("--rewrite", default=False))
