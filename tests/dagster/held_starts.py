"""Holds the processes that a code server starts for runs, before they have begun their run.

That is while whoever launches the run waits for the code server's answer. Each such process
looks for a `sitecustomize` module first of all, as any Python does.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_SITE = """
import os, sys, time
from pathlib import Path
if "--multiprocessing-fork" in sys.orig_argv:
    told = Path({directory!r})
    held = told / "hold"
    if held.exists():
        (told / str(os.getpid())).touch()
        while held.exists():
            time.sleep(0.05)
"""


class HeldStarts:
    """`environment` is what the code server needs."""

    def __init__(self, directory: Path) -> None:
        self._told = directory / "held"
        site = directory / "site"
        self._told.mkdir()
        site.mkdir()
        (site / "sitecustomize.py").write_text(_SITE.format(directory=str(self._told)))
        path = (str(site), os.environ.get("PYTHONPATH", ""))
        self.environment = {"PYTHONPATH": os.pathsep.join(part for part in path if part)}

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Those who are started meanwhile, until its end."""
        held = self._told / "hold"
        held.touch()
        try:
            yield
        finally:
            held.unlink()
            for told in self._told.iterdir():
                told.unlink()

    def newly_held(self) -> int | None:
        """The process that is held; None as long as there is none."""
        named = [path.name for path in self._told.iterdir() if path.name.isdigit()]
        return int(named[0]) if named else None
