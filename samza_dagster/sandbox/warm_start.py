"""The classes by which a container's tasks are silent for less long, compiled once.

One warms its JVM while that is parked at its JobModel, by the other its Kafka consumers stop at once. The sources
are in `samza_dagster/java/`. They need the `javac` of the same JDK; a Java without one runs containers that
start and end slower.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import zipfile
from importlib import resources
from pathlib import Path

from samza_dagster.directories import artifacts_directory
from samza_dagster.java.releases import OLDEST
from samza_dagster.sandbox.class_archive import keep_file
from samza_dagster.sandbox.java_check import Java

MAIN_CLASS = "samza_dagster.WarmStart"
_SOURCES = ("WarmStart.java", "PromptKafkaSystemFactory.java")
_COMPILE_S = 120.0
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same jar each time: the class archive checks its content


def warm_start_jar(java: Java, jars: tuple[Path, ...]) -> Path | None:
    """The jar among the artifacts, compiled against `jars` where it isn't there; None without `javac`."""
    directory = resources.files("samza_dagster").joinpath("java")
    sources = {name: directory.joinpath(name).read_bytes() for name in _SOURCES}
    digest = hashlib.sha256(b"".join(sources.values()) + java.version.encode()).hexdigest()[:16]
    target = artifacts_directory().resolve() / "warm-start" / f"warm-start-{digest}.jar"
    if target.is_file():
        return target
    compiler = java.program.resolve().with_name("javac")
    if not compiler.is_file():
        return None
    with tempfile.TemporaryDirectory() as work:
        for name, source in sources.items():
            (Path(work) / name).write_bytes(source)
        classes = Path(work) / "classes"
        command = [
            str(compiler), "--release", str(OLDEST), "-Xlint:-options",
            "-cp", ":".join(map(str, jars)), "-d", str(classes),
            *(str(Path(work) / name) for name in sources),
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
