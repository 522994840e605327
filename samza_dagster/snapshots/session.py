"""The Spark session for snapshots: one JVM, small data, quick answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.java.releases import NEWEST, WANTED, WHY_NOT_NEWER, is_fit
from samza_dagster.snapshots.connector import EXCLUDED_PACKAGES, PACKAGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INSTALL = "pip install 'samza_dagster[spark]'"
_NEEDED_MODULE = "jdk.incubator.vector"  # Spark's launcher adds it, whatever the job
_SECRETS = "(?i)secret|password|token|access[.]?key|jaas|keystore|truststore"


def spark_session(
    jars: Sequence[Path],
    master: str = "local[2]",
    *,
    app_name: str = "samza_dagster snapshots",
    driver_memory: str = "512m",
    class_archive: Path | None = None,
    many_records: bool = False,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session of this process: a new one, or the running one with these SQL settings.

    `jars` is the Kafka connector (`connector.connector_jars()`); empty: Spark resolves
    it, which takes some 10 s the first time. `class_archive` is the file of
    `class_archive.archive_path`; while it isn't there the JVM only starts slower. `many_records`: for
    a whole fleet and not for one job. `settings` go last and win. Raises `MissingPrerequisite` without pyspark or a JDK that Spark runs on.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingPrerequisite("a Spark session", seen=str(error), fix=_INSTALL) from error
    chosen = spark_settings(
        jars,
        master,
        driver_memory=driver_memory,
        class_archive=class_archive,
        many_records=many_records,
    )
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in {**chosen, **(settings or {})}.items():
        builder = builder.config(name, value)
    with _java_home(spark_java_home(environment)):
        return builder.getOrCreate()


def spark_settings(
    jars: Sequence[Path],
    master: str,
    *,
    driver_memory: str = "512m",
    class_archive: Path | None = None,
    many_records: bool = False,
) -> dict[str, str]:
    """Spark's settings for a master, each for a reason told here."""
    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": _java_options(class_archive, many_records),
        "spark.driver.memory": driver_memory,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.redaction.regex": _SECRETS,
        "spark.sql.redaction.options.regex": f"{_SECRETS}|url",
    }
    names = [str(jar) for jar in jars]
    if not names:
        chosen["spark.jars.packages"] = PACKAGE
        chosen["spark.jars.excludes"] = ",".join(EXCLUDED_PACKAGES)
    if not master.startswith("local"):
        if names:
            chosen["spark.jars"] = ",".join(names)
        return chosen
    chosen.update(_LOCAL)
    if many_records:
        chosen.update(_COMPILED)
    if names:
        # On the class path of the one JVM there is: spark.jars would copy them twice.
        chosen["spark.driver.extraClassPath"] = os.pathsep.join(names)
    return chosen


# A snapshot is some thousand rows in one process. What a plan costs there is stages and
# compiled classes, not rows: one shuffle partition, no re-planning between stages (AQE),
# expressions interpreted rather than compiled, sort-merge joins inside one task rather
# than a broadcast job for each, no job to list a few directories.
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}

# Of a hundred thousand records it is the rows that cost.
_COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}


def _java_options(class_archive: Path | None, many_records: bool) -> str:
    logging = Path(__file__).with_name("log4j2.properties")
    options = [
        "-XX:+UseSerialGC",
        *(() if many_records else ("-XX:TieredStopAtLevel=1",)),
        "-Xss4m",
        "-Xshare:auto",
        f"-Dlog4j2.configurationFile={logging.as_uri()}",
    ]
    if class_archive is not None and class_archive.is_file():
        options += [
            f"-XX:SharedArchiveFile={class_archive}",
            "-Xlog:cds=off",
            "-Xlog:cds+dynamic=off",
        ]
    return " ".join(options)


def pyspark_home() -> Path:
    """Where pyspark is installed, without importing it. Raises `MissingPrerequisite`."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise MissingPrerequisite("pyspark", seen="not installed", fix=_INSTALL)
    return Path(found.origin).parent


def spark_java_home(environment: Mapping[str, str] | None = None) -> Path:
    """A JDK that Spark 4 runs on: `JAVA_HOME` if it will do, else the one on `PATH`.

    It must be of release 17 to 22 and hold the module `jdk.incubator.vector`, which
    Java packaged as a wheel lacks; both are read from its `release` file. Raises
    `MissingPrerequisite` with what was found wrong.
    """
    environment = os.environ if environment is None else environment
    seen: list[str] = []
    for candidate in _java_homes(environment):
        wrong = _wrong_with(candidate)
        if wrong is None:
            return candidate
        seen.append(f"{candidate}: {wrong}")
    raise MissingPrerequisite(
        f"{WANTED}, for Spark",
        seen="; ".join(seen) or "neither JAVA_HOME nor java on PATH",
        fix="a JDK of release 17 or 21 (Debian: apt-get install openjdk-17-jdk-headless)",
    )


def _java_homes(environment: Mapping[str, str]) -> list[Path]:
    homes: list[Path] = []
    if environment.get("JAVA_HOME"):
        homes.append(Path(environment["JAVA_HOME"]))
    java = shutil.which("java", path=environment.get("PATH"))
    if java is not None:
        homes.append(Path(java).resolve().parent.parent)
    return homes


def _wrong_with(home: Path) -> str | None:
    if not (home / "bin" / "java").is_file():
        return "no bin/java"
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return "no 'release' file"
    release = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    version = release.get("JAVA_VERSION", "").strip('"')
    major = version.split(".", 1)[0]
    if not major.isdigit() or not is_fit(int(major)):
        too_new = f" ({WHY_NOT_NEWER})" if major.isdigit() and int(major) > NEWEST else ""
        return f"release {version or 'unknown'}{too_new}"
    if _NEEDED_MODULE not in release.get("MODULES", "").strip('"').split():
        return f"without the module {_NEEDED_MODULE}"
    return None


@contextmanager
def _java_home(home: Path) -> Generator[None]:
    """`JAVA_HOME` for the launch alone: pyspark takes it from this process's environment."""
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before
