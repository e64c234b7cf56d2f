"""A case: one script, the one rule it covers, and the setup it needs.

The docstring of the script is the rule in words; `rule` is its id, which no other case may carry.
A case that is about an error names the `text`, which the oracle must be seen to send: a script that
stopped provoking its error would otherwise go on passing.

Must not know: how servers are run or trees compared.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tests.interop.observation import Mask, Observation
from tests.interop.session import Session
from tests.kit.server_process import Setup

Script: TypeAlias = Callable[[Session], Observation]

PLAIN = Setup()
"""A server with nothing configured; most cases share it."""


@dataclass(frozen=True)
class Case:
    """`setup` is None for a case that runs the program itself, to its end."""

    rule: str
    script: Script
    setup: Setup | None
    own_server: bool
    masks: tuple[Mask, ...]
    text: str

    @property
    def statement(self) -> str:
        return inspect.getdoc(self.script) or ""

    @property
    def name(self) -> str:
        return f"{self.script.__module__.rsplit('.', 1)[-1]}.{self.script.__name__}"


class Catalogue:
    """The cases of one topic, in the order they are written."""

    def __init__(self, setup: Setup | None = PLAIN) -> None:
        self._setup = setup
        self.cases: list[Case] = []

    def case(
        self,
        rule: str,
        *,
        setup: Setup | None = None,
        own_server: bool = False,
        masks: tuple[Mask, ...] = (),
        text: str = "",
    ) -> Callable[[Script], Script]:
        """Register a script. Without a `setup` of its own it uses the one of the catalogue."""

        def register(script: Script) -> Script:
            chosen = setup or self._setup
            self.cases.append(Case(rule, script, chosen, own_server, masks, text))
            return script

        return register
