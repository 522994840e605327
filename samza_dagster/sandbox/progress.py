"""How the sandbox shows what it does: phases with seconds, and jars as they arrive."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass


@dataclass(frozen=True)
class ArtifactProgress:
    """`done` of `total` jars of `set_name` are here; `current` is the one that came last."""

    set_name: str
    done: int
    total: int
    current: str = ""


@contextlib.contextmanager
def artifact_progress(title: str) -> Generator[Callable[[ArtifactProgress], None]]:
    """A bar on standard error that follows `jar_paths`."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[current]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"jars of {title}", total=None, current="")

        def show(progress: ArtifactProgress) -> None:
            bar.update(
                task, total=progress.total, completed=progress.done, current=progress.current
            )

        yield show


def every_tenth_jar(tell: Callable[[str], None]) -> Callable[[ArtifactProgress], None]:
    """Tells one line for ten jars that came, where there is no room for a bar."""

    def show(progress: ArtifactProgress) -> None:
        if progress.current and progress.done % 10 == 0:
            tell(f"{progress.done} of {progress.total} jars of {progress.set_name}")

    return show


class Phases:
    """Tells each phase of a longer action when it begins and, with seconds, when it ends."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic):
        self._tell = tell
        self._clock = clock
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Generator[Callable[[str], None]]:
        """Times `name`; the yielded function tells how far it is."""
        started = self._clock()
        self._tell(f"{name} …")
        try:
            yield lambda what: self._tell(f"{name}: {what}")
        except BaseException as error:
            self._tell(
                f"{name} ended after {self._clock() - started:.1f} s: {type(error).__name__}"
            )
            raise
        self.seconds[name] = round(self._clock() - started, 2)
        self._tell(f"{name}: done in {self.seconds[name]:.1f} s")
