"""Finds the JDK of Spark as Spark's launcher would, and checks it before Spark fails."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.java.releases import NEWEST, WANTED, WHY_NOT_NEWER, is_fit

_NEEDED_MODULE = "jdk.incubator.vector"  # Spark's launcher adds it for every job


def spark_java_home(environment: Mapping[str, str] | None = None) -> Path:
    """Return a JDK that Spark 4 runs on: `JAVA_HOME` if it will do, else the one on `PATH`.

    It must be of release 17 to 22 and have the module `jdk.incubator.vector`, which Java packaged
    as a wheel lacks; both are read from its `release` file. Raises `MissingPrerequisite` with the
    faults found.
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
