"""Workers of a snapshot's parts: Spark's Python workers, or this process for a single part.

The JVM hands the work out and does none.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from samza_dagster.errors import ActionFailed, MissingPrerequisite, SamzaDagsterError
from samza_dagster.java.spark_home import spark_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Part = TypeVar("Part")
Made = TypeVar("Made")
_SECRETS = "(?i)secret|password|token|access[.]?key|jaas|keystore|truststore"


class Workers:
    """Spark is started once there is work for two of its workers, and ended with this.

    What one worker would do alone, this process does itself: Spark's start takes seconds, and each of its
    jobs more than the work of such a part.
    """

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._start = session
        self._session: SparkSession | None = None
        self.started_s = 0.0
        """Seconds that Spark's start took; 0 while there was no work for it."""

    def close(self) -> None:
        """End Spark, if it was started."""
        if self._session is not None:
            self._session.stop()

    @property
    def session(self) -> SparkSession:
        """Spark's session, started if it isn't yet."""
        if self._session is None:
            began = time.monotonic()
            self._session = self._start()
            self.started_s = round(time.monotonic() - began, 3)
        return self._session

    def share(self, total: int, least: int) -> int:
        """Return how much of `total` is in each part: as much for each worker, and at least `least`."""
        if total <= least:
            return least
        return max(least, -(-total // self.session.sparkContext.defaultParallelism))

    def each(self, work: Callable[[Part], Made], parts: Sequence[Part]) -> list[Made]:
        """Return what the work makes of each part.

        Raises the first error that work raises, `ActionFailed` for one of Spark itself.
        """
        if len(parts) <= 1:
            return [work(part) for part in parts]
        dealt: Any = self.session.sparkContext.parallelize(parts, len(parts))
        try:
            outcomes = dealt.map(partial(_outcome, work)).collect()
        except Exception as error:
            if not type(error).__module__.startswith(("py4j", "pyspark")):
                raise
            seen = " ".join(str(error).split())[:300]
            raise ActionFailed(
                "a step of a snapshot on Spark", seen=seen, fix="what Spark's log says of it"
            ) from error
        made: list[Made] = []
        for found, error in outcomes:
            if error is not None:
                raise error
            made.append(found)
        return made


def _outcome(work: Callable[[Any], Any], part: Any) -> tuple[Any, SamzaDagsterError | None]:
    """An error of ours travels as a value: as an exception Spark would bury it in its own."""
    try:
        return work(part), None
    except SamzaDagsterError as error:
        return None, error


def spark_session(
    master: str = "local[2]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the session of this process: a new one, or the running one.

    `settings` go last and win. Raises `MissingPrerequisite` without pyspark or a JDK that Spark runs on.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        fix = "pip install 'samza_dagster[spark]'"
        raise MissingPrerequisite("a Spark session", seen=str(error), fix=fix) from error
    builder = SparkSession.builder
    for name, value in {**spark_settings(master), **(settings or {})}.items():
        builder = builder.config(name, value)
    with launching(master):
        return builder.getOrCreate()


def spark_settings(master: str) -> dict[str, str]:
    """Return Spark's settings for a master."""
    logging = Path(__file__).with_name("log4j2.properties").as_uri()
    chosen = {
        "spark.master": master,
        "spark.app.name": "samza_dagster snapshots",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m -Xshare:auto"
        f" -Dlog4j2.configurationFile={logging}",
        "spark.driver.memory": "512m",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.redaction.regex": _SECRETS,
    }
    if master.startswith("local"):
        chosen |= dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1")
        chosen["spark.python.daemon.module"] = "samza_dagster.snapshots.worker_daemon"
    return chosen


@contextmanager
def launching(master: str) -> Generator[None]:
    """Return the environment to start a session of this master in. Raises `MissingPrerequisite`.

    The variables are there only for the launch: pyspark takes them from this process's environment.
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
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
