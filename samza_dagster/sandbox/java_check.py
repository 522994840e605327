"""Finds the Java for the broker, Samza's containers and Spark; checks for Linux too.

`python -m samza_dagster.sandbox.java_check` prints the result, or what is missing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.java.releases import NEWEST, WANTED, WHY_NOT_NEWER, is_fit

_VERSION = re.compile(r'version "([^"]+)"')


@dataclass(frozen=True)
class Java:
    """A Java: the `java` program (absolute), its version and where it was found."""

    program: Path
    version: str
    found_by: str

    @property
    def feature(self) -> int:
        """Return the feature release: 17 for `17.0.15`, 8 for `1.8.0_292`."""
        return feature_release(self.version)


def feature_release(version: str) -> int:
    """Return 17 for `17.0.15`, 8 for `1.8.0_292`, 0 for any other text."""
    numbers = [int(part) for part in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    java_home = environment.get("JAVA_HOME", "")
    if java_home:
        program = Path(java_home) / "bin" / "java"
        yield f"JAVA_HOME={java_home}", program if os.access(program, os.X_OK) else None
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    yield "PATH", Path(found) if found else None


def _version_of(program: Path) -> str:
    try:
        result = subprocess.run(
            [str(program), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown ({error})"
    match = _VERSION.search(result.stderr + result.stdout)
    return match.group(1) if match else "unknown"


def require_prerequisites() -> None:
    """Raise `MissingPrerequisite` elsewhere than on Linux, and without the extra `sandbox`."""
    if sys.platform != "linux":
        raise MissingPrerequisite(
            "Linux (/proc, pidfd_open, parent-death signals), for the sandbox's processes",
            seen=f"platform {sys.platform}",
            fix="a Linux machine, virtual machine or container",
        )
    if find_spec("prometheus_client") is None:  # its coordinator would end in a process of its own
        raise MissingPrerequisite(
            "the coordinator that a sandbox runs",
            seen="no module prometheus_client",
            fix="pip install 'samza_dagster[sandbox]'",
        )


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the first Java of release 17 to 22: `JAVA_HOME`'s, then the one on `PATH`.

    Raises `MissingPrerequisite` that names every place and version seen.
    """
    given = os.environ if environment is None else environment
    seen: list[str] = []
    for found_by, program in _candidates(given):
        if program is None:
            where = "" if found_by == "PATH" else "/bin"
            seen.append(f"no java program in {found_by}{where}")
            continue
        java = Java(program.absolute(), _version_of(program), found_by)
        if is_fit(java.feature):
            return java
        too_new = f": {WHY_NOT_NEWER}" if java.feature > NEWEST else ""
        seen.append(f"Java {java.version} at {program} (by {found_by}){too_new}")
    raise MissingPrerequisite(
        WANTED,
        seen=", ".join(seen),
        fix="install one (Debian: apt-get install openjdk-17-jdk-headless), or point JAVA_HOME at one",
    )


def main() -> int:
    """Print the Java found; return 2 without a fit one, or on another system than Linux."""
    try:
        require_prerequisites()
        java = find_java()
    except MissingPrerequisite as missing:
        print(f"samza-dagster: {missing}", file=sys.stderr)
        return missing.exit_code
    print(f"Java {java.version} at {java.program} (by {java.found_by})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
