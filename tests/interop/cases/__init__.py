"""The cases, one module per topic.

Reading a case teaches its rule: the docstring states it, the script shows how a client meets it.
"""

import importlib
import pkgutil

from tests.interop.case import Case


def all_cases() -> list[Case]:
    """Every case of every module here, in the order of their modules' names."""
    cases: list[Case] = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda found: found.name):
        cases.extend(importlib.import_module(f"{__name__}.{module.name}").catalogue.cases)
    return cases
