"""The source of the agent's own code: a package tree, or the one file that has it all.

That file may be replaced, overwritten or removed under a running agent, which goes on as
the version that it is: its modules are imported at the start, their source is at hand for
tracebacks, and its wardens are started from a copy that no other process can reach.
"""

from __future__ import annotations

import linecache
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple, Optional, Tuple
from zipimport import zipimporter

from samza_dagster.agent import warden


class Replaced(Exception):
    """The one file changed while the agent started from it; its text names the file."""


class Program(NamedTuple):
    """Python's arguments to run a warden, and the descriptors that it inherits for that."""

    arguments: Tuple[str, ...]
    descriptors: Tuple[int, ...] = ()


def packaged() -> Program:
    """Return the program of a warden from the package tree."""
    return Program((warden.__file__,))


def archive() -> Optional[Path]:
    """Return the one file; None when this runs from a package tree."""
    loader = globals().get("__loader__")
    return Path(loader.archive) if isinstance(loader, zipimporter) else None


def of_wardens(directory: Path) -> Program:
    """Return the program by which this agent starts its wardens, for its whole life.

    From an archive they get a copy without a name on the disk of `directory`, which ends
    with the last process that holds it. Raises `Replaced` when that isn't whole.
    """
    source = archive()
    if source is None:
        return packaged()
    with tempfile.TemporaryFile(dir=str(directory)) as copy:
        try:
            with source.open("rb") as stream:
                shutil.copyfileobj(stream, copy)
            copy.flush()
            with zipfile.ZipFile(copy) as read_back:
                torn = read_back.testzip()
        except (FileNotFoundError, zipfile.BadZipFile) as error:
            raise Replaced("{}: {}".format(source, error)) from error
        if torn is not None:
            raise Replaced("{}: {} in it is torn".format(source, torn))
        descriptor = os.dup(copy.fileno())
    return Program(("/proc/self/fd/{}".format(descriptor), "--warden"), (descriptor,))


def keep_source() -> None:
    """Read the lines that a traceback may show, while the archive is the one that runs.

    Later they would be read from whatever is in its place, and what writes the traceback
    would fail on that. Raises `Replaced` when it does so already.
    """
    source = archive()
    if source is None:
        return
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.split(".")[0] in ("samza_dagster", "__main__") and file:
            try:
                linecache.getlines(file, module.__dict__)
            except (EOFError, ValueError) as error:
                raise Replaced("{}: {}".format(source, error)) from error
