"""The agent as one file: a zip archive with a `__main__`, which any Python from 3.8 on runs.

It is the agent's closure and nothing else. Equal sources give equal bytes: no time, no
owner and no compression, which differs between releases of zlib, enters it.
"""

from __future__ import annotations

import ast
import hashlib
import io
import os
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import samza_dagster
from samza_dagster.errors import ActionFailed, MissingPrerequisite

ENTRY = "samza_dagster.agent.entry"
SHEBANG = b"#!/usr/bin/env python3\n"
_OURS = "samza_dagster"
_TIME = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16


@dataclass(frozen=True)
class AgentArchive:
    """A built archive; `modules` are the names in it, `__main__` aside."""

    content: bytes
    version: str
    modules: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """Of the whole file, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    def write(self, output: Path) -> None:
        """Puts it at `output` in one step, executable; what was there is replaced.

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
    """The archive of the `samza_dagster` directory `package`, by default the one that runs.

    Raises `MissingPrerequisite` when it lacks a module and `ActionFailed` when the agent
    imports what no host's standard library has.
    """
    package = package or Path(samza_dagster.__file__).parent
    modules = closure(package)
    content = io.BytesIO()
    content.write(SHEBANG)
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "__main__.py", _source(package, ENTRY))
        for name in sorted(modules):
            source = _source(package, name)
            _add(archive, source.relative_to(package.parent).as_posix(), source)
    return AgentArchive(content.getvalue(), _version(package), tuple(sorted(modules)))


def closure(package: Path) -> frozenset[str]:
    """Names of all modules of ours that the entry leads to, with the packages above them.

    Raises as `build` does.
    """
    found: set[str] = set()
    waiting = [ENTRY]
    while waiting:
        name = waiting.pop()
        source = _source(package, name)
        for imported in _imports(source):
            top = imported.partition(".")[0]
            if top == _OURS:
                waiting += [n for n in _with_parents(package, imported) if n not in found]
                found.update(_with_parents(package, imported))
            elif top not in sys.stdlib_module_names:
                raise ActionFailed(
                    "build the agent of the standard library alone",
                    seen=f"{source} imports {imported}",
                    fix="do without it there",
                )
    return frozenset(found)


def _imports(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_bytes(), str(source))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # Each name may be a module of the package; `_with_parents` tells.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _with_parents(package: Path, imported: str) -> list[str]:
    parts = imported.split(".")
    names = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    if _file(package, names[-1]) is None:  # what is imported from a module, not a module
        names.pop()
    return names


def _file(package: Path, name: str) -> Path | None:
    place = package.parent.joinpath(*name.split("."))
    for candidate in (place / "__init__.py", place.with_suffix(".py")):
        if candidate.is_file():
            return candidate
    return None


def _source(package: Path, name: str) -> Path:
    found = _file(package, name)
    if found is None:
        raise MissingPrerequisite(
            "build the agent", seen=f"no {name} in {package}", fix="install samza_dagster anew"
        )
    return found


def _version(package: Path) -> str:
    for node in ast.parse(_source(package, f"{_OURS}.version").read_bytes()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            return str(node.value.value)
    raise MissingPrerequisite(
        "build the agent", seen=f"no version in {package}", fix="install samza_dagster anew"
    )


def _add(archive: zipfile.ZipFile, name: str, source: Path) -> None:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.create_system = 3  # Unix, whatever builds it
    entry.external_attr = _MODE
    archive.writestr(entry, source.read_bytes())
