"""A Spark session that works on a machine nobody has prepared.

Spark's defaults ask for things a laptop or a container often lacks: a `java` that fits, a
`python3` on the path that is this one, a host name that resolves, 200 shuffle partitions' worth of
patience. `session` settles these before Spark starts, and leaves alone whatever the caller, the
environment or `spark-submit` has settled already.

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
"""With a local master the driver does all the work; Spark's own default of 1g is for one that
only plans."""

CONNECT_S_MAX: Final = 5.0
"""How long a standalone master may take to accept a connection; Spark itself waits a minute."""

_LOCAL: Final = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")
_STANDALONE: Final = re.compile(r"spark://(.+)")
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[.+\]")
_ELSEWHERE: Final = re.compile(r"yarn|k8s://.+")

SESSION_CONFIG: Final[Mapping[str, str]] = {
    # Without this Spark refuses every reader that understands filters, used or not.
    "spark.sql.python.filterPushdown.enabled": "true",
    # A timestamp means the same on every machine that reads the archive.
    "spark.sql.session.timeZone": "UTC",
    # No port to open, and nothing drawn over the progress display of the jobs.
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

    Without a master it is that of spark-submit, or else all cores of this machine. `config` wins
    over everything decided here.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return _on_master(running, master)
    settings = configuration(master, driver_memory, os.environ) | dict(config or {})
    if not _is_submitted(os.environ):
        prepare_environment(os.environ, settings.get("spark.driver.host"))
    if local := _LOCAL.fullmatch(settings.get("spark.master", "")):
        # Of what Java hands on to the processes that plan reads, this is all we can add to.
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

    Spark finds the formats that are written in Python for `writeStream` in no other session than
    that of the thread, and only the thread that made a session has it from the start.
    """
    # There is no call for just this; making a DataFrame out of rows begins with it.
    spark.createDataFrame([], "nothing int")


def configuration(
    master: str | None, driver_memory: str, environment: Mapping[str, str]
) -> dict[str, str]:
    """What a session is configured with."""
    settings = dict(SESSION_CONFIG)
    if not _is_submitted(environment):
        master = master or LOCAL_MASTER
        settings |= {"spark.driver.memory": driver_memory, **quiet_logs(environment)}
    if master is not None:
        settings |= {"spark.master": master, **placement(master, environment)}
    return settings


def placement(master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Where the driver listens, and into how many parts it cuts, for this kind of master."""
    settings = {}
    # Nobody else has to reach a local driver, so it works with no network and any host name.
    address = LOOPBACK
    if local := _LOCAL.fullmatch(master):
        settings["spark.sql.shuffle.partitions"] = str(_threads(local))
    elif standalone := _STANDALONE.fullmatch(master):
        address = address_towards(standalone[1])
    elif _ELSEWHERE.fullmatch(master):
        return {}
    elif not _LOCAL_CLUSTER.fullmatch(master):
        raise SparkStartError(
            f"master {master!r} is none that Spark knows: name local[*], local[<threads>], "
            "spark://<host>:<port>, yarn or k8s://<url>"
        )
    if "SPARK_LOCAL_IP" not in environment:
        settings |= {"spark.driver.host": address, "spark.driver.bindAddress": address}
    return settings


def quiet_logs(environment: Mapping[str, str]) -> dict[str, str]:
    """Errors only, unless somebody has a configuration of Spark, and so maybe of its logs."""
    if "SPARK_CONF_DIR" in environment:
        return {}
    # As a URI, because Java's options are cut at spaces.
    file = Path(__file__).with_name("log4j2.properties").as_uri()
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={file}"}


def address_towards(masters: str) -> str:
    """The address of this machine that a standalone master, and so its workers, can reach.

    Spark would ask the host name, which often is in no DNS. `masters` is `host:port`, or several
    with commas between them, of which the first that answers is asked.
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
    """What Spark's scripts and its Python workers read before any configuration."""
    environment["JAVA_HOME"] = str(java_home(environment))
    # Workers run this Python, with the packages installed here, not any `python3` of the path.
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    if address is not None:
        # Asked for before the configuration is: without it a host name that does not resolve
        # ends the JVM.
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
    """How many tasks a local master runs at once."""
    if local[1] is None:
        return 1
    return os.cpu_count() or 1 if local[1] == "*" else int(local[1])
