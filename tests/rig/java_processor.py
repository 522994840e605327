"""Samza's own standalone processors, in Java: `LocalApplicationRunner` with `ZkJobCoordinator`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from samza_dagster.sandbox import process
from samza_dagster.sandbox.artifacts import class_path
from samza_dagster.sandbox.java_check import find_java
from samza_dagster.sandbox.process import ProcessRecord

SETTINGS = {
    "app.runner.class": "org.apache.samza.runtime.LocalApplicationRunner",
    "job.coordinator.factory": "org.apache.samza.zk.ZkJobCoordinatorFactory",
    "task.name.grouper.factory": "org.apache.samza.container.grouper.task.GroupByContainerIdsFactory",
    "job.standbytasks.replication.factor": "1",
    "task.transactional.state.restore.enabled": "false",
}
"""What they need beside the job's config: see `docs/howto/standalone.md`."""
_LOGGED = ("zk", "processor", "container", "storage", "runtime")
_OF_KAFKA = "org.apache.kafka.common.utils.AppInfoParser"
"""It warns, with an exception, of each second client of a JVM that has the name of a first."""


class JavaProcessors:
    """Those of one job's `config`; `directory` has the compiled `main`."""

    def __init__(self, config: Path, directory: Path) -> None:
        self._config = config
        self._java = find_java().program
        self._class_path = f"{class_path('samza')}:{class_path('samza-zookeeper')}:{directory}"
        source = Path(__file__).with_name("JavaProcessor.java")
        compiler = self._java.resolve().with_name("javac")
        subprocess.run([compiler, "-cp", self._class_path, "-d", directory, source], check=True)

    def start(self, processor_id: str, directory: Path, log: Path) -> ProcessRecord:
        """A processor whose stores are below `directory`."""
        directory.mkdir(parents=True, exist_ok=True)
        logger = "-Dorg.slf4j.simpleLogger"
        command = [
            *(str(self._java), "-Xmx96m", "-Xms96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(f"{logger}.showDateTime=true", f"{logger}.dateTimeFormat=HH:mm:ss.SSS"),
            *(f"{logger}.defaultLogLevel=warn", f"{logger}.log.{_OF_KAFKA}=error"),
            *(f"{logger}.log.org.apache.samza.{name}=info" for name in _LOGGED),
            *("-cp", self._class_path, "JavaProcessor", "--config-path", str(self._config)),
        ]
        for key, value in {**SETTINGS, "processor.id": processor_id}.items():
            command += ["--config", f"{key}={value}"]
        return process.spawn(processor_id, command, log=log, directory=directory)


_IN_ITS_STOP = "Commit cleanup did not complete"
"""A container that is stopped while it clears up after a commit warns so, whoever stops it."""


def exceptions(log: Path) -> list[str]:
    """The lines of its log that name an exception or an error, without those of a stack."""
    return [
        line
        for line in log.read_text(errors="replace").splitlines()
        if ("Exception" in line or " ERROR " in line) and _IN_ITS_STOP not in line
    ]


def runs(log: Path, version: int) -> bool:
    """Whether the processor has taken a version up, and the newest container that it began to start runs."""
    text = log.read_text(errors="replace")
    confirmed = text.find(f"new version {version} of the job model got confirmed")
    if confirmed < 0 or text.find("BarrierAction completed", confirmed) < 0:
        return False
    return text.rfind("Starting the container") <= text.rfind("container start notification")
