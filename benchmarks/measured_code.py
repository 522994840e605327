"""Of which code, commit and machine a figure is: what differs in them isn't of one distribution."""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_OURS = ("samza_dagster", "tests", "benchmarks")


def closure(modules: Iterable[str], without: Collection[str] = ()) -> dict[str, Path]:
    """These modules of ours and all that they import, functions' own imports too, by name.

    Of `without`, and what only they import, nothing: names of modules or packages.
    """
    found: dict[str, Path] = {}
    left = list(modules)
    while left:
        name = left.pop()
        file = _file_of(name)
        if name in found or file is None or any(f"{name}.".startswith(f"{w}.") for w in without):
            continue
        found[name] = file
        left += _imported(file)
    return found


def digest(files: Iterable[Path]) -> str:
    """Of their paths and contents, in hexadecimal."""
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return whole.hexdigest()[:12]


def this_commit() -> str:
    """The commit checked out, with `, changed` when files differ from it; "" without git."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    commit = git("rev-parse", "--short=12", "HEAD")
    return f"{commit}, changed" if commit and git("status", "--porcelain") else commit


def this_machine() -> str:
    """Its processor, cores, memory and kernel."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = model or platform.machine()
    return f"{processor}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, {platform.release()}"


def _file_of(name: str) -> Path | None:
    path = ROOT.joinpath(*name.split("."))
    files = (path / "__init__.py", path.with_suffix(".py"))
    return next((file for file in files if file.exists()), None)


def _imported(file: Path) -> set[str]:
    """Names that it may import, with the packages that they are in; not each is a module."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    parts = [name.split(".") for name in names if name.split(".")[0] in _OURS]
    return {".".join(part[:end]) for part in parts for end in range(1, len(part) + 1)}
