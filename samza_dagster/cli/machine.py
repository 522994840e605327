"""What this machine has of what the commands need: versions, extras, Java."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import metadata, util

from samza_dagster.coordinator.fencing.examination import Finding
from samza_dagster.errors import MissingPrerequisite
from samza_dagster.version import __version__

_VERSIONS = ("dagster", "confluent-kafka", "click", "pydantic")
_EXTRAS = {
    "spark": "pyspark",
    "coordinator": "prometheus_client",
    "postgres": "dagster_postgres",
    "zookeeper": "kazoo",
    "sandbox": "dagster_webserver",
}
"""Extra → a module that it brings."""


def machine_findings() -> Iterator[Finding]:
    """Nothing is asked of anybody else."""
    from confluent_kafka import libversion

    versions = [f"samza_dagster {__version__}", f"Python {platform.python_version()}"]
    versions += [f"{name} {metadata.version(name)}" for name in _VERSIONS]
    versions.append(f"librdkafka {libversion()[0]}")
    yield Finding("what is installed is known", True, ", ".join(versions))
    there = [extra for extra, module in _EXTRAS.items() if util.find_spec(module) is not None]
    absent = [extra for extra in _EXTRAS if extra not in there]
    seen = f"{', '.join(there) or 'none'}" + (f"; not {', '.join(absent)}" if absent else "")
    yield Finding("the extras that are installed are known", True, seen)
    yield _java(is_needed="spark" in there or "sandbox" in there)


def _java(*, is_needed: bool) -> Finding:
    from samza_dagster.sandbox.java_check import find_java

    check = "a Java that Spark, the sandbox and containers run on is on this machine"
    try:
        java = find_java()
    except MissingPrerequisite as error:
        needed_by = "" if is_needed else "; no extra is installed that needs one"
        return Finding(check, not is_needed, f"{error.seen}{needed_by}", error.fix)
    return Finding(check, True, f"{java.version} by {java.found_by}")
