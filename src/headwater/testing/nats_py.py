"""Real nats-py clients inside a simulated world.

nats-py reads clocks and random numbers by itself: `time.monotonic` to space reconnects, `secrets`
and `random` for inboxes and the order of servers, `uuid4` for names of pending calls,
`datetime.now` in key-value, object store and services. While a world runs, every module of the
`nats` package sees the world's clocks and random numbers instead; nothing outside that package
changes.

The functions to replace are found by identity among the globals of the package's modules, not by a
list of places, so that a new release of nats-py that imports one of them elsewhere stays
deterministic.

One bug of nats-py is tolerated here: a reconnect that fails after TCP connected drops its stream
without closing it. Python then closes it and warns; with warnings as errors, runs would fail for a
leak that is not the tested program's.
"""

import contextlib
import datetime as real_datetime
import functools
import importlib
import importlib.util
import os
import pkgutil
import random
import secrets
import sys
import time
import types
import uuid
import warnings
from collections.abc import Iterator
from typing import Any, Protocol

from headwater.base.clock import NS_PER_S
from headwater.testing.host import Host
from headwater.testing.loop import SimLoop


class NatsWorld(Protocol):
    """The part of a world that nats-py needs."""

    loop: SimLoop

    def rng(self, *label: str | int) -> random.Random: ...

    def here(self) -> Host: ...


@contextlib.contextmanager
def simulated_nats_py(world: NatsWorld) -> Iterator[None]:
    """Give the nats package, if installed, the clocks and random numbers of `world`."""
    replaced: list[tuple[types.ModuleType, str, object]] = []
    pairs = _substitutes(world)
    # Compared by identity: half of the globals cannot be hashed.
    substitutes = {id(original): substitute for original, substitute in pairs}
    for module in nats_modules():
        for name, value in list(vars(module).items()):
            substitute = substitutes.get(id(value))
            if substitute is not None:
                replaced.append((module, name, value))
                setattr(module, name, substitute)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"unclosed <StreamWriter", ResourceWarning)
            yield
    finally:
        for module, name, value in replaced:
            setattr(module, name, value)


@functools.cache
def nats_modules() -> list[types.ModuleType]:
    """Every importable module of the nats package; none if it is not installed."""
    if importlib.util.find_spec("nats") is None:
        return []
    package = importlib.import_module("nats")
    for found in pkgutil.walk_packages(package.__path__, "nats."):
        # Parts with optional dependencies that are missing here cannot be used here either.
        with contextlib.suppress(ImportError):
            importlib.import_module(found.name)
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name == "nats" or name.startswith("nats.")
    ]


def _substitutes(world: NatsWorld) -> list[tuple[object, object]]:
    """Pairs of an original and its substitute: whole modules, and functions imported from them."""
    rng = world.rng("nats-py")
    pairs: list[tuple[object, object]] = []
    for module, overrides in (
        (time, _clock_functions(world)),
        (random, _random_functions(rng)),
        (secrets, _secret_functions(rng)),
        (uuid, {"uuid1": _uuid_maker(rng), "uuid4": _uuid_maker(rng)}),
        (os, {"urandom": rng.randbytes}),
        (real_datetime, {"datetime": _datetime_class(world)}),
    ):
        pairs.append((module, _module_with(module, overrides)))
        for name, override in overrides.items():
            pairs.append((getattr(module, name), override))
    return pairs


def _module_with(module: types.ModuleType, overrides: dict[str, Any]) -> types.ModuleType:
    copy = types.ModuleType(module.__name__, module.__doc__)
    copy.__dict__.update(module.__dict__)
    copy.__dict__.update(overrides)
    return copy


def _clock_functions(world: NatsWorld) -> dict[str, Any]:
    def monotonic() -> float:
        return world.loop.time()

    def monotonic_ns() -> int:
        return round(world.loop.time() * NS_PER_S)

    def time_ns() -> int:
        return world.here().clock.wall_ns()

    def wall_time() -> float:
        return time_ns() / NS_PER_S

    def sleep(_seconds: float) -> None:
        raise RuntimeError("a blocking sleep would stop the simulated world")

    return {
        "monotonic": monotonic,
        "monotonic_ns": monotonic_ns,
        "perf_counter": monotonic,
        "perf_counter_ns": monotonic_ns,
        "time": wall_time,
        "time_ns": time_ns,
        "sleep": sleep,
    }


def _random_functions(rng: random.Random) -> dict[str, Any]:
    return {
        "SystemRandom": lambda: rng,
        "choice": rng.choice,
        "choices": rng.choices,
        "getrandbits": rng.getrandbits,
        "randbytes": rng.randbytes,
        "randint": rng.randint,
        "random": rng.random,
        "randrange": rng.randrange,
        "sample": rng.sample,
        "shuffle": rng.shuffle,
        "uniform": rng.uniform,
    }


def _secret_functions(rng: random.Random) -> dict[str, Any]:
    default_bytes = 32

    def token_bytes(nbytes: int | None = None) -> bytes:
        return rng.randbytes(default_bytes if nbytes is None else nbytes)

    def token_hex(nbytes: int | None = None) -> str:
        return token_bytes(nbytes).hex()

    return {
        "choice": rng.choice,
        "randbelow": rng.randrange,
        "randbits": rng.getrandbits,
        "token_bytes": token_bytes,
        "token_hex": token_hex,
    }


def _uuid_maker(rng: random.Random) -> Any:
    def make() -> uuid.UUID:
        return uuid.UUID(bytes=rng.randbytes(16), version=4)

    return make


def _datetime_class(world: NatsWorld) -> Any:
    class SimulatedDatetime(real_datetime.datetime):
        """A datetime whose present is the wall clock of the calling host."""

        @classmethod
        def now(cls, tz: real_datetime.tzinfo | None = None) -> "SimulatedDatetime":
            # The simulated hosts keep UTC, as servers do.
            moment = cls.fromtimestamp(world.here().clock.wall_ns() / NS_PER_S, real_datetime.UTC)
            return moment.replace(tzinfo=None) if tz is None else moment.astimezone(tz)

        @classmethod
        def utcnow(cls) -> "SimulatedDatetime":
            return cls.now()

    return SimulatedDatetime
