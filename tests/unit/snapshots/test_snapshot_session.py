"""Spark's settings and the JDK it runs on, without starting it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.java.spark_home import spark_java_home
from samza_dagster.snapshots.workers import spark_settings

pytestmark = pytest.mark.unit


def jdk(home: Path, version: str, modules: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(mode=0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.mark.parametrize(
    "option", ["kafka.sasl.jaas.config", "kafka.ssl.key.password", "kafka.ssl.keystore.key"]
)
def test_secret_options_are_redacted_by_spark(option: str) -> None:
    """Spark's default pattern doesn't know the login module's line."""
    assert re.search(spark_settings("local[2]")["spark.redaction.regex"], option)


VECTOR = "java.base jdk.incubator.vector"


@pytest.mark.parametrize(
    ("java_home", "on_the_path", "taken"),
    [
        # release 17 to 22, with the module that Spark's launcher adds
        (("21.0.2", VECTOR), ("17.0.15", VECTOR), "java_home"),
        # a wheel's Java in JAVA_HOME doesn't hide the system's JDK
        (("21.0.2", "java.base"), ("17.0.15", VECTOR), "on_the_path"),
        # none: what is wrong with each is said
        (("11.0.2", VECTOR), ("21.0.2", "java.base"), "release 11.0.2"),
        (("11.0.2", VECTOR), ("21.0.2", "java.base"), "without the module jdk.incubator.vector"),
        # Hadoop can't log in there: Spark would end in a stack trace
        (("24.0.1", VECTOR), None, "release 24.0.1 (from 23 on Subject.getSubject throws"),
    ],
)
def test_the_first_java_that_spark_runs_on_is_taken(
    tmp_path: Path,
    java_home: tuple[str, str],
    on_the_path: tuple[str, str] | None,
    taken: str,
) -> None:
    """Of JAVA_HOME and PATH, in this order; before Spark starts."""
    homes = {"java_home": jdk(tmp_path / "java_home", *java_home)}
    if on_the_path is not None:
        homes["on_the_path"] = jdk(tmp_path / "on_the_path", *on_the_path)
    path = str(homes["on_the_path"] / "bin") if on_the_path else ""
    environment = {"JAVA_HOME": str(homes["java_home"]), "PATH": path}
    if taken in homes:
        assert spark_java_home(environment) == homes[taken]
        return
    with pytest.raises(MissingPrerequisite) as missing:
        spark_java_home(environment)
    assert taken in missing.value.seen
    assert "release 17 to 22" in missing.value.asked


def test_importing_the_package_imports_no_spark() -> None:
    """Its import is start latency of every Dagster run."""
    code = (
        "import sys, samza_dagster.snapshots, samza_dagster.snapshots.tables;"
        "sys.exit(str('pyspark' in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stderr.strip() == "False"
