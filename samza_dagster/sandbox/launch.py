"""How a container of the demo is launched: command and environment, with placeholders.

The agent fills `{agent_dir}`, `{state_dir}`, `{work_dir}` and `{host}` in; the rest is
literal. No shell is involved.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.directories import artifacts_directory
from samza_dagster.java.releases import OLDEST
from samza_dagster.sandbox.artifacts import jar_paths
from samza_dagster.sandbox.class_archive import ClassArchive, keep_file
from samza_dagster.sandbox.java_check import Java, find_java

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

WARM_START = "samza_dagster.WarmStart"
_SOURCE = "WarmStart.java"
_COMPILE_S = 120.0
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same jar each time: the class archive checks its content


def warm_start_jar(java: Java, jars: tuple[Path, ...]) -> Path | None:
    """The jar of what warms a parked container's JVM, compiled against `jars` where it isn't kept.

    None without a `javac` of the same JDK: containers start colder.
    """
    source = resources.files("samza_dagster").joinpath("java", _SOURCE).read_bytes()
    digest = hashlib.sha256(source + java.version.encode()).hexdigest()[:16]
    target = artifacts_directory().resolve() / "warm-start" / f"warm-start-{digest}.jar"
    if target.is_file():
        return target
    compiler = java.program.resolve().with_name("javac")
    if not compiler.is_file():
        return None
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / _SOURCE).write_bytes(source)
        classes = Path(work) / "classes"
        command = [
            str(compiler), "--release", str(OLDEST), "-Xlint:-options",
            "-cp", ":".join(map(str, jars)), "-d", str(classes), str(Path(work) / _SOURCE),
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, timeout=_COMPILE_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode != 0:
            return None
        jar = Path(work) / target.name
        with zipfile.ZipFile(jar, "w") as archive:
            for path in sorted(classes.rglob("*.class")):
                entry = zipfile.ZipInfo(str(path.relative_to(classes)), _LONG_AGO)
                archive.writestr(entry, path.read_bytes())
        keep_file(jar, target)
    return target


@dataclass(frozen=True)
class ContainerClasses:
    """What containers run: Java, and the jars of their class path, in the order of their archive.

    `warms`: the last jar has the class that warms a JVM while it is parked.
    """

    java: Java
    jars: tuple[Path, ...]
    warms: bool

    @classmethod
    def of_now(cls) -> ContainerClasses:
        """With the Java and the jars of now; raises what finds them."""
        java, jars = find_java(), jar_paths("samza")
        warm_start = warm_start_jar(java, jars)
        return cls(java, (*jars, warm_start) if warm_start else jars, warm_start is not None)

    @property
    def archive(self) -> ClassArchive:
        """Whether it exists or not."""
        return ClassArchive.of("samza-scram", self.java, self.jars)

    def template(
        self,
        archive_options: tuple[str, ...],
        *,
        hosts_file: str = "{agent_dir}/hosts",
        temporary: str = "{work_dir}/tmp",
    ) -> LaunchTemplate:
        """A container with a small heap that reports its simulated host and logs what matters."""
        command = (
            str(self.java.program),
            f"-Xmx{HEAP_MB}m",
            f"-Xms{HEAP_MB}m",
            "-XX:MetaspaceSize=96m",  # no full collection on the way to the first record
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *archive_options,
            f"-Djdk.net.hosts.file={hosts_file}",
            f"-Djava.io.tmpdir={temporary}",  # a killed JVM leaves there what it unpacked
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *(f"-Dorg.slf4j.simpleLogger.log.{name}={level}" for name, level in _LOG_LEVELS),
            "-cp",
            ":".join(map(str, self.jars)),
            *((WARM_START,) if self.warms else ()),
            MAIN_CLASS,
        )
        return LaunchTemplate(
            command=command, stop_grace_s=STOP_GRACE_S, standby_niceness=STANDBY_NICENESS
        )


def container_template() -> LaunchTemplate:
    """How containers are launched with the Java and jars of now, by their archive where there is one."""
    classes = ContainerClasses.of_now()
    return classes.template(classes.archive.use_options())
