"""Which Pythons of this machine an agent can be tried on: the one that runs, and the oldest.

The oldest that the agent promises is no package of every distribution. Where it isn't installed
the run says so: what it shows is less.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

OLDER = ("3.8", "3.9", "3.10")
_SAY = "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2])"


def oldest() -> dict[str, str]:
    """Version → program of the oldest of `OLDER` that starts; empty when there is none."""
    for version in OLDER:
        for candidate in _candidates(f"python{version}"):
            said = _output(candidate, "-I", "-c", _SAY)
            if len(said) == 2 and said[1] == version:
                return {version: said[0]}
    return {}


def tried() -> dict[str, str]:
    """Version → program: the oldest that is found, and the one that runs this."""
    return {**oldest(), "running": sys.executable}


def parameters(found: Mapping[str, str]) -> list[Any]:
    """One for each of what `tried` found, and a skipped one for the oldest where it isn't there."""
    made = [pytest.param(program, id=version) for version, program in found.items()]
    promised = OLDER[0]
    if promised not in found:
        shown = [version for version in found if version != "running"]
        running = "the running {}.{}".format(*sys.version_info)
        reason = (
            f"no python{promised} is installed here: that the agent works on it is shown by the "
            f"checkers of `make lint` alone; tried on {' and '.join([*shown, running])}"
        )
        made.insert(0, pytest.param("", id=promised, marks=pytest.mark.skip(reason=reason)))
    return made


def _candidates(name: str) -> Iterator[str]:
    found = shutil.which(name)
    if found is not None:
        yield found
    # A shim of pyenv starts only what is chosen for this directory; others are installed.
    pyenv = shutil.which("pyenv") if found is not None else None
    if pyenv is not None:
        for version in _output(pyenv, "whence", name):
            for prefix in _output(pyenv, "prefix", version):
                yield f"{prefix}/bin/{name}"


def _output(*command: str) -> list[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return []
    return done.stdout.split() if done.returncode == 0 else []
