"""Single files of Debian's packages, fetched by name through apt and unpacked, not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


def unpack(package: str, directory: Path) -> None:
    """Fetches the package and unpacks it into `directory`, which stays empty where that can't be done."""
    if not _run(directory, "apt-get", "download", package):
        _run(directory, "apt-get", "update", "-q")
        _run(directory, "apt-get", "download", package)
    for fetched in directory.glob("*.deb"):
        _run(directory, "dpkg", "-x", str(fetched), "unpacked")


def _run(directory: Path, *command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, cwd=directory, env=quiet, capture_output=True, check=False)
    return done.returncode == 0
