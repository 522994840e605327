"""Spark's settings and the JDK it runs on, without starting it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.snapshots.session import spark_java_home, spark_settings

pytestmark = pytest.mark.unit

JARS = (Path("/j/a.jar"), Path("/j/b.jar"))


def jdk(home: Path, version: str, modules: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(mode=0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


def test_a_local_master_takes_the_jars_by_class_path() -> None:
    """Nothing is resolved over the network, nothing is copied."""
    chosen = spark_settings(JARS, "local[2]")
    assert chosen["spark.driver.extraClassPath"] == "/j/a.jar:/j/b.jar"
    assert not {"spark.jars", "spark.jars.packages"} & set(chosen)


def test_a_cluster_gets_the_jars_and_keeps_its_own_planning() -> None:
    """What makes small local data quick would make large data slow."""
    chosen = spark_settings(JARS, "spark://host:7077")
    assert chosen["spark.jars"] == "/j/a.jar,/j/b.jar"
    assert "spark.sql.shuffle.partitions" not in chosen
    assert "spark.sql.adaptive.enabled" not in chosen


def test_without_jars_spark_resolves_the_package_without_what_it_has() -> None:
    """The excludes keep a half-filled local repository from deciding."""
    chosen = spark_settings((), "local[2]")
    assert chosen["spark.jars.packages"].startswith("org.apache.spark:spark-sql-kafka-0-10_2.13:")
    assert "org.slf4j:slf4j-api" in chosen["spark.jars.excludes"].split(",")


def test_a_class_archive_is_used_only_when_it_is_there(tmp_path: Path) -> None:
    """Without it the JVM starts slower, no more."""
    archive = tmp_path / "spark.jsa"

    def options() -> str:
        chosen = spark_settings(JARS, "local[2]", class_archive=archive)
        return chosen["spark.driver.extraJavaOptions"]

    assert "SharedArchiveFile" not in options()
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in options()


@pytest.mark.parametrize(
    "option", ["kafka.sasl.jaas.config", "kafka.ssl.key.password", "kafka.ssl.keystore.key"]
)
def test_secret_options_are_redacted_by_spark(option: str) -> None:
    """Spark's default pattern doesn't know the login module's line."""
    chosen = spark_settings(JARS, "local[2]")
    for name in ("spark.redaction.regex", "spark.sql.redaction.options.regex"):
        assert re.search(chosen[name], option)


def test_java_home_is_taken_when_spark_runs_on_it(tmp_path: Path) -> None:
    """Release 17 to 22, with the module that Spark's launcher adds."""
    home = jdk(tmp_path / "21", "21.0.2", "java.base jdk.incubator.vector")
    assert spark_java_home({"JAVA_HOME": str(home), "PATH": ""}) == home


def test_a_java_that_will_not_do_is_passed_over_for_the_one_on_the_path(tmp_path: Path) -> None:
    """A wheel's Java in JAVA_HOME doesn't hide the system's JDK."""
    wheel = jdk(tmp_path / "wheel", "21.0.2", "java.base")
    system = jdk(tmp_path / "system", "17.0.15", "java.base jdk.incubator.vector")
    environment = {"JAVA_HOME": str(wheel), "PATH": str(system / "bin")}
    assert spark_java_home(environment) == system


def test_no_java_that_will_do_says_what_is_wrong_with_each(tmp_path: Path) -> None:
    """Too old, and without the module: both are named."""
    old = jdk(tmp_path / "old", "11.0.2", "java.base jdk.incubator.vector")
    wheel = jdk(tmp_path / "wheel", "21.0.2", "java.base")
    with pytest.raises(MissingPrerequisite) as missing:
        spark_java_home({"JAVA_HOME": str(old), "PATH": str(wheel / "bin")})
    assert "release 11.0.2" in missing.value.seen
    assert "without the module jdk.incubator.vector" in missing.value.seen


def test_a_java_on_which_hadoop_cant_log_in_is_refused_before_spark_starts(tmp_path: Path) -> None:
    """`Subject.getSubject` throws there: Spark would end in a stack trace."""
    new = jdk(tmp_path / "new", "24.0.1", "java.base jdk.incubator.vector")
    with pytest.raises(MissingPrerequisite) as missing:
        spark_java_home({"JAVA_HOME": str(new), "PATH": ""})
    assert "release 17 to 22" in missing.value.asked
    assert "release 24.0.1 (from 23 on Subject.getSubject throws" in missing.value.seen


def test_importing_the_package_imports_no_spark() -> None:
    """Its import is start latency of every Dagster run."""
    code = (
        "import sys, samza_dagster.snapshots, samza_dagster.snapshots.tables;"
        "sys.exit(str([m for m in ('pyspark', 'confluent_kafka') if m in sys.modules]))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stderr.strip() == "[]"
