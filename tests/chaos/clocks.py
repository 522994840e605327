"""The wall clocks of a sandbox's hosts: each is wrong from the start, and may be set meanwhile.

libfaketime, from the distribution's package without installing it, stands between a process and
the C library. Elapsed clocks are left as they are, and with them every wait for a length of time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from samza_dagster.errors import MissingPrerequisite
from samza_dagster.sandbox.artifacts import artifacts_directory
from tests.rig import debian

_PACKAGE = "libfaketime"
_LIBRARY = "libfaketime.so.1"
_PREPARED = "libfaketime-without-clock_nanosleep.so.1"
_AN_HOUR_ON = "import time; began = time.time(); time.sleep(0.001); print(round(began))"


def environment(file: str) -> dict[str, str]:
    """What a process needs to look at the clock that `file` sets (`set_ahead`).

    Raises `MissingPrerequisite` where the package can't be had, or doesn't do what it is for.
    """
    return _environment(_prepared(), file)


def set_ahead(file: Path, seconds: float) -> None:
    """Its processes see the right time and so many seconds from within a second on."""
    beside = file.with_suffix(".new")
    beside.write_text(f"{seconds:+}s\n")
    beside.replace(file)


def without(library: bytes, function: str) -> bytes:
    """The shared library with this function under another name, so that the C library's own is called.

    Its name is first in the table of symbols. One letter differs, for the table holds another
    function's name as the end of this one's.
    """
    name = function.encode()
    return library.replace(b"\0" + name + b"\0", b"\0-" + name[1:] + b"\0", 1)


def _environment(library: Path, file: str) -> dict[str, str]:
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": file,
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "NO_FAKE_STAT": "1",
    }


def _prepared() -> Path:
    target = artifacts_directory().resolve() / "faketime" / _PREPARED
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        debian.unpack(_PACKAGE, Path(work))
        made = Path(work) / _PREPARED
        for library in Path(work).glob(f"unpacked/**/{_LIBRARY}"):
            # That of version 0.9.10 refuses every wait until a time of a clock that it doesn't change.
            made.write_bytes(without(library.read_bytes(), "clock_nanosleep"))
        seen = _why_not(made)
        if seen:
            raise MissingPrerequisite(
                "clocks of their own for the processes of a host",
                seen=seen,
                fix=f"apt-get and dpkg, with Debian's package {_PACKAGE} in reach; or --skew-s 0",
            )
        made.replace(target)
    return target


def _why_not(library: Path) -> str:
    """Why no process could use it: of one an hour ahead, that sleeps; empty when it can."""
    if not library.is_file():
        return f"apt-get download {_PACKAGE} and dpkg -x gave no {_LIBRARY}"
    clock = library.with_suffix(".clock")
    set_ahead(clock, 3_600)
    began = subprocess.run(
        [sys.executable, "-I", "-c", _AN_HOUR_ON],
        env={**os.environ, **_environment(library, str(clock))},
        capture_output=True,
        text=True,
        check=False,
    )
    now_s = clock.stat().st_mtime
    if began.returncode == 0 and 3_590 < int(began.stdout) - now_s < 3_660:
        return ""
    return f"a process an hour ahead said {(began.stdout or began.stderr).strip()[-200:]!r}"


SET = {"set back host": -1.0, "set ahead host": 1.0}
"""Kinds of faults, and whether a host's clock goes back or ahead; it goes where it was after that."""


class HostClocks:
    """By turns ahead and behind by `skew_s`, of all processes of a host. 0: right, and none can be set."""

    def __init__(self, directory: Path, hosts: Sequence[str], skew_s: float) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._skew_s = skew_s
        self._ahead_s = {
            host: skew_s if number % 2 == 0 else -skew_s for number, host in enumerate(hosts)
        }
        for host in hosts:
            self.set_right(host)

    def set(self, host: str, kind: str) -> None:
        """By as much again as the hosts' clocks are wrong anyway."""
        self._write(host, self._ahead_s[host] + SET[kind] * self._skew_s)

    def set_right(self, host: str) -> None:
        """As wrong as at the start."""
        self._write(host, self._ahead_s[host])

    def environment(self, host: str = "{host}") -> Mapping[str, str]:
        """Of the agent of a host, and so of its wardens; with `{host}` of every container."""
        return environment(str(self._file(host))) if self._skew_s else {}

    def _write(self, host: str, ahead_s: float) -> None:
        set_ahead(self._file(host), ahead_s)

    def _file(self, host: str) -> Path:
        return self._directory / f"{host}.clock"
