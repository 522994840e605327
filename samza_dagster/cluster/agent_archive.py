"""The agent as one file: a zip archive with a `__main__`, which any Python from 3.8 on runs.

It is the agent's package and our version, and nothing else: the agent imports only these and the
standard library. Equal sources give equal bytes: no time, no owner and no compression, which
differs between releases of zlib, enters it.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import samza_dagster
from samza_dagster.errors import ActionFailed, MissingPrerequisite

SHEBANG = b"#!/usr/bin/env python3\n"
_TIME = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16


@dataclass(frozen=True)
class AgentArchive:
    """A built archive."""

    content: bytes

    @property
    def sha256(self) -> str:
        """The SHA-256 of the whole file, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    def write(self, output: Path) -> None:
        """Write the archive to `output` in one step, executable; an earlier file is replaced.

        Raises `ActionFailed` when the place can't be written.
        """
        beside = output.with_name(f".{output.name}.{os.getpid()}")
        try:
            beside.write_bytes(self.content)
            beside.chmod(0o755)
            beside.replace(output)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise ActionFailed(
                f"write {output}", seen=str(error), fix="name a place that can be written"
            ) from error


def build(package: Path | None = None) -> AgentArchive:
    """Return the archive of the `samza_dagster` directory `package`, by default the one that runs.

    Raises `MissingPrerequisite` when it lacks the agent's entry or the version.
    """
    package = package or Path(samza_dagster.__file__).parent
    entry = package / "agent" / "entry.py"
    sources = {package / "__init__.py", package / "version.py", *package.glob("agent/*.py")}
    content = io.BytesIO()
    content.write(SHEBANG)
    try:
        with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
            _add(archive, "__main__.py", entry)
            for source in sorted(sources - {entry}):
                _add(archive, source.relative_to(package.parent).as_posix(), source)
    except FileNotFoundError as error:
        raise MissingPrerequisite(
            "build the agent", seen=f"no {error.filename}", fix="install samza_dagster anew"
        ) from error
    return AgentArchive(content.getvalue())


def _add(archive: zipfile.ZipFile, name: str, source: Path) -> None:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.create_system = 3  # Unix, whatever builds it
    entry.external_attr = _MODE
    archive.writestr(entry, source.read_bytes())
