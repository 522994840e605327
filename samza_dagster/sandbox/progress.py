"""Reports the sandbox's progress: phases with seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator


class Phases:
    """Reports each phase of a longer action at its begin and, with seconds, at its end."""

    def __init__(self, tell: Callable[[str], None]):
        self._tell = tell
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Generator[Callable[[str], None]]:
        """Time `name`; the yielded function reports progress."""
        started = time.monotonic()
        self._tell(f"{name} …")
        try:
            yield lambda what: self._tell(f"{name}: {what}")
        except BaseException as error:
            took = time.monotonic() - started
            self._tell(f"{name} ended after {took:.1f} s: {type(error).__name__}")
            raise
        self.seconds[name] = round(time.monotonic() - started, 2)
        self._tell(f"{name}: done in {self.seconds[name]:.1f} s")
