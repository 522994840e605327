"""Debian's Chromium, which the tests drive; installed if it isn't there and we may."""

from __future__ import annotations

import os
import shutil
import subprocess

_INSTALL = (("apt-get", "update", "-qq"), ("apt-get", "install", "-y", "-qq", "chromium"))
_DEADLINE_S = 240


def chromium() -> str:
    """The path of Chromium; raises AssertionError, which is a failure and no skip, without one."""
    if shutil.which("chromium") is None and os.geteuid() == 0:
        for command in _INSTALL:
            subprocess.run(
                command,
                check=True,
                timeout=_DEADLINE_S,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            )
    found = shutil.which("chromium")
    assert found, "Chromium is missing. Install it (Debian: apt-get install chromium)"
    return found


def flags() -> list[str]:
    """Chromium's sandbox doesn't start as root; a container's /dev/shm may be too small."""
    return ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
