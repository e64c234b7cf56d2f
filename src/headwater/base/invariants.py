"""Assertions that stay on: `python -O` strips `assert`, it does not strip a call."""

from headwater.base.errors import ProgrammerError


class InvariantViolation(ProgrammerError):
    """A condition that must always hold does not."""


def check(condition: bool, message: str) -> None:
    """Crash with `message` when `condition` does not hold."""
    if not condition:
        raise InvariantViolation(message)
