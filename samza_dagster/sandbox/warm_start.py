"""The Java classes that shorten the silence of a container's tasks, compiled once.

One class warms a container's JVM while it is parked at its JobModel; the other stops Kafka
consumers at once. The sources are in `samza_dagster/java/`. They need the `javac` of the same
JDK; containers of a Java without one start and end slower.
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
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # keeps the jar equal, because the class archive checks it


def warm_start_jar(java: Java, jars: tuple[Path, ...]) -> Path | None:
    """Return the jar, compiled against `jars` on first use; None without `javac`."""
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
