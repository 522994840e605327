"""How a container of the demo is launched: command and environment, with placeholders.

The agent fills `{agent_dir}`, `{state_dir}`, `{work_dir}` and `{host}` in; the rest is
literal. No shell is involved.
"""

from __future__ import annotations

from pathlib import Path

from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.sandbox.class_archive import ClassArchive
from samza_dagster.sandbox.java_check import Java
from samza_dagster.sandbox.warm_start import MAIN_CLASS as WARM_START

MAIN_CLASS = "org.apache.samza.runtime.LocalContainerRunner"
HEAP_MB = 96
STOP_GRACE_S = 20.0
STANDBY_NICENESS = 5
CONTAINER_MEMORY_MB = 256
"""What a container takes of its host: heap, RocksDB and the JVM itself."""

_LOG_LEVELS = (
    ("org.apache.samza.container", "info"),
    ("org.apache.samza.runtime", "info"),
    ("org.apache.samza.storage", "info"),  # says how many records a restore read
    ("org.apache.samza.checkpoint", "error"),  # a line for each checkpoint of the other version
    ("org.apache.samza.config", "error"),
    ("org.apache.samza.execution", "error"),
    ("org.apache.samza.system.kafka", "error"),
    ("org.apache.kafka", "error"),
)


def class_path(jars: tuple[Path, ...], warm_start: Path | None) -> tuple[Path, ...]:
    """Of a container: a class archive fits this one, in this order."""
    return jars if warm_start is None else (*jars, warm_start)


def launch_template(
    java: Java,
    jars: tuple[Path, ...],
    *,
    archive: ClassArchive | None = None,
    hosts_file: str = "{agent_dir}/hosts",
    temporary: str = "{work_dir}/tmp",
    archive_options: tuple[str, ...] | None = None,
    warm_start: Path | None = None,
) -> LaunchTemplate:
    """A container with a small heap that reports its simulated host and logs what matters.

    `archive` is used when it exists; `archive_options` stand in its place (to write one).
    `warm_start` is the jar of the class that warms the JVM while it is parked.
    """
    given = archive_options
    if given is None:
        given = archive.use_options() if archive is not None else ()
    command = (
        str(java.program),
        f"-Xmx{HEAP_MB}m",
        f"-Xms{HEAP_MB}m",
        "-XX:MetaspaceSize=96m",  # no full collection on the way to the first record
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *given,
        f"-Djdk.net.hosts.file={hosts_file}",
        f"-Djava.io.tmpdir={temporary}",  # a killed JVM leaves there what it unpacked
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        *(f"-Dorg.slf4j.simpleLogger.log.{name}={level}" for name, level in _LOG_LEVELS),
        "-cp",
        ":".join(str(jar) for jar in class_path(jars, warm_start)),
        *((WARM_START,) if warm_start is not None else ()),
        MAIN_CLASS,
    )
    return LaunchTemplate(
        command=command, stop_grace_s=STOP_GRACE_S, standby_niceness=STANDBY_NICENESS
    )
