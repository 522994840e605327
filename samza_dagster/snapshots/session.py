"""The Spark session for snapshots: Python's workers do the work, the JVM hands it out."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.java.spark_home import spark_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
_INSTALL = "pip install 'samza_dagster[spark]'"
_SECRETS = "(?i)secret|password|token|access[.]?key|jaas|keystore|truststore"


def spark_session(
    master: str = "local[2]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the session of this process: a new one, or the running one.

    `settings` go last and win. Raises `MissingPrerequisite` without pyspark or a JDK that Spark runs on.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingPrerequisite("a Spark session", seen=str(error), fix=_INSTALL) from error
    builder = SparkSession.builder
    for name, value in {**spark_settings(master), **(settings or {})}.items():
        builder = builder.config(name, value)
    with launching(master):
        return builder.getOrCreate()


def spark_settings(master: str) -> dict[str, str]:
    """Return Spark's settings for a master."""
    chosen = {
        "spark.master": master,
        "spark.app.name": "samza_dagster snapshots",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": _java_options(),
        "spark.driver.memory": "512m",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.redaction.regex": _SECRETS,
    }
    if master.startswith("local"):
        chosen |= dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), _LOOPBACK)
        chosen["spark.python.daemon.module"] = "samza_dagster.snapshots.worker_daemon"
    return chosen


def _java_options() -> str:
    logging = Path(__file__).with_name("log4j2.properties")
    options = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss4m", "-Xshare:auto")
    return " ".join((*options, f"-Dlog4j2.configurationFile={logging.as_uri()}"))


def pyspark_home() -> Path:
    """Where pyspark is installed, without importing it. Raises `MissingPrerequisite`."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise MissingPrerequisite("pyspark", seen="not installed", fix=_INSTALL)
    return Path(found.origin).parent


@contextmanager
def launching(master: str) -> Generator[None]:
    """The environment in which a session of this master is started. Raises `MissingPrerequisite`.

    The variables are there for the launch alone: pyspark takes them from this process's environment.
    """
    values = {"JAVA_HOME": str(spark_java_home())}
    if master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        values["PYSPARK_PYTHON"] = sys.executable  # its own workers have what this process has
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
