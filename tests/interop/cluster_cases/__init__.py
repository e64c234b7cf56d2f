"""The cases of three servers, one module per topic."""

import importlib
import pkgutil

from tests.interop.cluster_case import ClusterCase


def all_cluster_cases() -> list[ClusterCase]:
    """Every case of every module here, in the order of their modules' names."""
    cases: list[ClusterCase] = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda found: found.name):
        cases.extend(importlib.import_module(f"{__name__}.{module.name}").catalogue.cases)
    return cases
