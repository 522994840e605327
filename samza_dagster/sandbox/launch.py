"""The launch of a demo container: command and environment, with placeholders.

The agent replaces `{agent_dir}`, `{state_dir}`, `{work_dir}` and `{host}`; the rest is literal.
No shell is involved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from samza_dagster.coordinator.fencing.principals import KAFKA_FACTORY, PROMPT_KAFKA_FACTORY
from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.sandbox import warm_start
from samza_dagster.sandbox.artifacts import jar_paths
from samza_dagster.sandbox.class_archive import ClassArchive
from samza_dagster.sandbox.java_check import Java, find_java

MAIN_CLASS = "org.apache.samza.runtime.LocalContainerRunner"
HEAP_MB = 96
STOP_GRACE_S = 20.0
STANDBY_NICENESS = 5
CONTAINER_MEMORY_MB = 256
"""A container's use of its host: heap, RocksDB and the JVM itself."""

_AGENTS_HOSTS_FILE = "{agent_dir}/hosts"

_LOG_LEVELS = (
    ("org.apache.samza.container", "info"),
    ("org.apache.samza.runtime", "info"),
    ("org.apache.samza.storage", "info"),  # logs how many records a restore read
    ("org.apache.samza.checkpoint", "error"),  # a line for each checkpoint of the other version
    ("org.apache.samza.config", "error"),
    ("org.apache.samza.execution", "error"),
    ("org.apache.samza.system.kafka", "error"),
    ("org.apache.kafka", "error"),
)


@dataclass(frozen=True)
class ContainerClasses:
    """The Java and the jars of containers, in the order of their archive's class path."""

    java: Java
    jars: tuple[Path, ...]
    warms: bool  # the last jar has the classes of `warm_start`

    @classmethod
    def of_now(cls) -> ContainerClasses:
        """Return the present Java and jars; raise as their lookups do."""
        java, jars = find_java(), jar_paths("samza")
        jar = warm_start.warm_start_jar(java, jars)
        return cls(java, (*jars, jar) if jar else jars, jar is not None)

    def config(self, plain: Mapping[str, str]) -> dict[str, str]:
        """Return a job's config for these classes, with their own Kafka system if they have one."""
        own = {KAFKA_FACTORY: PROMPT_KAFKA_FACTORY} if self.warms else {}
        return {key: own.get(value, value) for key, value in plain.items()}

    @property
    def archive(self) -> ClassArchive:
        """Return the archive, which may not exist yet."""
        return ClassArchive.of("samza-scram", self.java, self.jars)

    def template(
        self,
        archive_options: tuple[str, ...],
        *,
        hosts_file: str = _AGENTS_HOSTS_FILE,
        temporary: str = "{work_dir}/tmp",
    ) -> LaunchTemplate:
        """Return the launch of a container with a small heap, its simulated host and few logs."""
        command = (
            str(self.java.program),
            f"-Xmx{HEAP_MB}m",
            f"-Xms{HEAP_MB}m",
            "-XX:MetaspaceSize=96m",  # no full collection on the way to the first record
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *archive_options,
            f"-Djdk.net.hosts.file={hosts_file}",
            f"-Djava.io.tmpdir={temporary}",  # a killed JVM leaves unpacked files there
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *(f"-Dorg.slf4j.simpleLogger.log.{name}={level}" for name, level in _LOG_LEVELS),
            "-cp",
            ":".join(map(str, self.jars)),
            *((warm_start.MAIN_CLASS,) if self.warms else ()),
            MAIN_CLASS,
        )
        return LaunchTemplate(
            command=command, stop_grace_s=STOP_GRACE_S, standby_niceness=STANDBY_NICENESS
        )


def config_and_template(
    plain: Mapping[str, str], *, hosts_file: str = _AGENTS_HOSTS_FILE
) -> tuple[dict[str, str], LaunchTemplate]:
    """Return a job's config and its containers' launch, with the present Java and jars."""
    # Containers resolve names by `hosts_file`.
    classes = ContainerClasses.of_now()
    archive = classes.archive.use_options()
    return classes.config(plain), classes.template(archive, hosts_file=hosts_file)
