"""Prometheus' own `promtool`, by which alert rules are tested without a server.

`python -m tests.rig.promtool` fetches it (20 MB) and prints its path.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from samza_dagster.directories import artifacts_directory
from samza_dagster.errors import MissingPrerequisite
from tests.rig import debian

_PACKAGE = "prometheus"
OLDEST = (2, 42)
"""Debian 12 has it. No single version is asked for: the archive keeps a release's newest alone."""


@cache
def promtool() -> Path:
    """The program: one on the PATH, else out of Debian's package, which stays in the cache.

    Raises `MissingPrerequisite` where there is none, or one that is too old.
    """
    on_path = shutil.which("promtool")
    found = Path(on_path) if on_path else _fetched()
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"promtool, version (\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        raise _missing(f"{found} says {said.partition(chr(10))[0] or 'nothing'!r}")
    return found


def _fetched() -> Path:
    target = artifacts_directory().resolve() / "promtool" / "promtool"
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        debian.unpack(_PACKAGE, Path(work))
        made = Path(work) / "unpacked" / "usr" / "bin" / "promtool"
        if not made.is_file():
            raise _missing(f"apt-get download {_PACKAGE} and dpkg -x gave none")
        made.replace(target)
    return target


def _missing(seen: str) -> MissingPrerequisite:
    wanted = f"promtool {OLDEST[0]}.{OLDEST[1]} or later, for the tests of the alert rules"
    return MissingPrerequisite(
        wanted, seen=seen, fix=f"Prometheus' promtool on the PATH, or Debian's package {_PACKAGE}"
    )


if __name__ == "__main__":
    print(promtool())
