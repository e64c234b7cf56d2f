"""A Spark session that works on an unprepared machine.

Spark's defaults ask for things that a laptop or a container often lacks: a suitable `java`, a
`python3` on the path that is this one, a host name that resolves, work for 200 shuffle partitions.
`session` sets these before Spark starts, and respects the settings of the caller, the environment
and `spark-submit`.

Nothing else in the package needs a session made here: the data source and the jobs take any.

Must not know: streams, servers, jobs.
"""

import os
import re
import socket
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from headwater.base.errors import OperatingError
from headwater.spark.java import java_home
from headwater.spark.read.planning import PARALLELISM_VARIABLE

LOOPBACK: Final = "127.0.0.1"
LOCAL_MASTER: Final = "local[*]"
DRIVER_MEMORY: Final = "2g"
"""With a local master the driver does all the work; Spark's own 1g is for one that only plans."""

CONNECT_S_MAX: Final = 5.0
"""The time for a standalone master to accept a connection; Spark itself waits a minute."""

_LOCAL: Final = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")
_STANDALONE: Final = re.compile(r"spark://(.+)")
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[.+\]")
_ELSEWHERE: Final = re.compile(r"yarn|k8s://.+")

SESSION_CONFIG: Final[Mapping[str, str]] = {
    # Without this Spark refuses every reader that accepts filters, used or not.
    "spark.sql.python.filterPushdown.enabled": "true",
    # A timestamp means the same on every machine that reads the archive.
    "spark.sql.session.timeZone": "UTC",
    # No open port, and nothing drawn over the progress display of the jobs.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class SparkStartError(OperatingError):
    """Spark could not be started; the message says what to change."""


def session(
    master: str | None = None,
    app_name: str = "headwater",
    driver_memory: str = DRIVER_MEMORY,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """The running session of this process as it is, or a new one on `master`.

    Without a master it is that of spark-submit, or else all cores of this machine. `config`
    overrides all settings made here.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return _on_master(running, master)
    settings = configuration(master, driver_memory, os.environ) | dict(config or {})
    if not _is_submitted(os.environ):
        prepare_environment(os.environ, settings.get("spark.driver.host"))
    if local := _LOCAL.fullmatch(settings.get("spark.master", "")):
        # The only variable of ours that Java passes on to the processes that plan reads.
        os.environ.setdefault(PARALLELISM_VARIABLE, str(_threads(local)))
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise SparkStartError(
            f"Java ended while starting Spark, with JAVA_HOME={os.environ.get('JAVA_HOME')} and "
            f"{driver_memory} of driver memory: its own message is above; set JAVA_HOME to "
            "another Java, or another driver memory"
        ) from error


def make_active(spark: SparkSession) -> None:
    """Make the session that of this thread.

    Spark finds formats written in Python for `writeStream` only in the session of the thread, and
    only the thread that made a session has it from the start.
    """
    # There is no call for just this; making a DataFrame out of rows begins with it.
    spark.createDataFrame([], "nothing int")


def configuration(
    master: str | None, driver_memory: str, environment: Mapping[str, str]
) -> dict[str, str]:
    """The configuration of a session."""
    settings = dict(SESSION_CONFIG)
    if not _is_submitted(environment):
        master = master or LOCAL_MASTER
        settings |= {"spark.driver.memory": driver_memory, **quiet_logs(environment)}
    if master is not None:
        settings |= {"spark.master": master, **placement(master, environment)}
    return settings


def placement(master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The driver's address, and the number of shuffle partitions, for this kind of master."""
    settings = {}
    # Only this machine has to reach a local driver, so it needs no network and any host name works.
    address = LOOPBACK
    if local := _LOCAL.fullmatch(master):
        settings["spark.sql.shuffle.partitions"] = str(_threads(local))
    elif standalone := _STANDALONE.fullmatch(master):
        address = address_towards(standalone[1])
    elif _ELSEWHERE.fullmatch(master):
        return {}
    elif not _LOCAL_CLUSTER.fullmatch(master):
        raise SparkStartError(
            f"master {master!r} is unknown to Spark: name local[*], local[<threads>], "
            "spark://<host>:<port>, yarn or k8s://<url>"
        )
    if "SPARK_LOCAL_IP" not in environment:
        settings |= {"spark.driver.host": address, "spark.driver.bindAddress": address}
    return settings


def quiet_logs(environment: Mapping[str, str]) -> dict[str, str]:
    """Log errors only, unless the user has a configuration of Spark, and so maybe of its logs."""
    if "SPARK_CONF_DIR" in environment:
        return {}
    # As a URI, because Java's options are cut at spaces.
    file = Path(__file__).with_name("log4j2.properties").as_uri()
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={file}"}


def address_towards(masters: str) -> str:
    """The address of this machine that a standalone master, and so its workers, can reach.

    Spark would use the host name, which often is in no DNS. `masters` is `host:port`, or several
    with commas between them, of which the first that answers is used.
    """
    reason: OSError | ValueError
    for place in masters.split(","):
        host, _, port = place.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S_MAX) as route:
                return str(route.getsockname()[0])
        except (OSError, ValueError) as error:
            reason = error
    raise SparkStartError(
        f"master spark://{masters} does not answer ({reason}): start it, or correct its name"
    ) from reason


def prepare_environment(environment: MutableMapping[str, str], address: str | None) -> None:
    """Set the variables that Spark's scripts and Python workers read before any configuration."""
    environment["JAVA_HOME"] = str(java_home(environment))
    # Workers run this Python, with its packages, not any `python3` on the path.
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    if address is not None:
        # Read before the configuration: without it a host name that does not resolve ends the JVM.
        environment.setdefault("SPARK_LOCAL_IP", address)


def _is_submitted(environment: Mapping[str, str]) -> bool:
    """Whether spark-submit runs this program: it has started the JVM and chosen the master."""
    return "PYSPARK_GATEWAY_PORT" in environment


def _on_master(running: SparkSession, master: str | None) -> SparkSession:
    present = running.sparkContext.master
    if master is not None and master != present:
        raise SparkStartError(
            f"master {master!r} is not that of the session that runs here, {present!r}: "
            "stop it, or ask for no master"
        )
    return running


def _threads(local: re.Match[str]) -> int:
    """The number of tasks that a local master runs at once."""
    if local[1] is None:
        return 1
    return os.cpu_count() or 1 if local[1] == "*" else int(local[1])
