"""A wall clock of their own for single processes, which may be set while they run.

libfaketime, from the distribution's package without installing it, stands between a process and
the C library. Elapsed clocks are left as they are, and with them every wait for a length of time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.sandbox.artifacts import artifacts_directory

_PACKAGE = "libfaketime"
_LIBRARY = "libfaketime.so.1"
_SLEEP = "sleep.so"
# That of version 0.9.10 refuses every wait until a time of a clock that it doesn't change.
_SLEEP_SOURCE = """
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    return syscall(SYS_clock_nanosleep, clock, flags, until, left) ? errno : 0;
}
"""


def environment(file: str) -> dict[str, str]:
    """What a process needs to look at the clock that `file` sets (`set_ahead`).

    Raises `MissingPrerequisite` where there is neither the package nor a C compiler.
    """
    directory = _prepared()
    return {
        "LD_PRELOAD": f"{directory / _SLEEP}:{directory / _LIBRARY}",
        "FAKETIME_TIMESTAMP_FILE": file,
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "NO_FAKE_STAT": "1",
    }


def set_ahead(file: Path, seconds: float) -> None:
    """Its processes see the right time and so many seconds from within a second on."""
    beside = file.with_suffix(".new")
    beside.write_text(f"{seconds:+}s\n")
    beside.replace(file)


def _prepared() -> Path:
    target = artifacts_directory().resolve() / "faketime"
    if (target / _LIBRARY).is_file() and (target / _SLEEP).is_file():
        return target
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as work:
        if not _run(work, "apt-get", "download", _PACKAGE):
            _run(work, "apt-get", "update", "-q")
            _run(work, "apt-get", "download", _PACKAGE)
        for package in Path(work).glob("*.deb"):
            _run(work, "dpkg", "-x", str(package), "unpacked")
        (Path(work) / "sleep.c").write_text(_SLEEP_SOURCE)
        _run(work, "cc", "-shared", "-fPIC", "-O1", "-o", _SLEEP, "sleep.c")
        found = [*Path(work).glob(f"unpacked/**/{_LIBRARY}"), *Path(work).glob(_SLEEP)]
        if {file.name for file in found} != {_LIBRARY, _SLEEP}:
            raise MissingPrerequisite(
                "clocks of their own for the processes of a host",
                seen=f"of {_LIBRARY} and {_SLEEP} only {[file.name for file in found]}",
                fix=f"apt-get, dpkg and cc, and the package {_PACKAGE} in reach",
            )
        for file in found:
            file.replace(target / file.name)
    return target


def _run(directory: str, *command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, cwd=directory, env=quiet, capture_output=True, check=False)
    return done.returncode == 0
