"""The containers' class archive, built beside other work of `sandbox up`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from pathlib import Path

from samza_dagster.errors import ActionFailed, SamzaDagsterError
from samza_dagster.interrupts import interrupts_deferred
from samza_dagster.sandbox import process, warm_up
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.progress import Phases

_ABORT_S = 5.0


@contextlib.contextmanager
def archive_built_beside(
    directory: Path, on_start: Callable[[ProcessRecord], None], phases: Phases
) -> Generator[None]:
    """Builds the archive beside the block, where there is none; a failure only costs time.

    Works in `directory`; `on_start` is told each process that this starts, and all of
    them end with a block that fails.
    """
    if warm_up.container_archive().exists:
        yield
        return
    failure: list[str] = []
    started: list[ProcessRecord] = []
    aborted = threading.Event()

    def note(record: ProcessRecord) -> None:
        on_start(record)
        started.append(record)
        if aborted.is_set():  # started while the rest was being ended
            record.stop(grace_s=0.0)
            raise ActionFailed("build the class archive", seen="the sandbox ends")

    def build() -> None:
        try:
            warm_up.ensure_container_archive(directory, on_start=note)
        except SamzaDagsterError as error:
            failure.append(str(error))

    builder = threading.Thread(target=build, daemon=True)
    builder.start()
    try:
        yield
        with phases.phase("class archive (once)") as tell:
            builder.join()
            if failure:
                tell(f"not built, containers start slower: {failure[0]}")
    except BaseException:
        aborted.set()
        with interrupts_deferred():
            process.stop_all(started, grace_s=0.0)
            builder.join(_ABORT_S)
        raise
