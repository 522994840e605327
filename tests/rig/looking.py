"""Looks again and again, by a thread of its own, at what a test is not to miss."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Looking:
    """From its making until `close`; what ended it before is raised then, or by `check`."""

    def __init__(self, look: Callable[[], None], every_s: float) -> None:
        look()
        self._failure: BaseException | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, args=(look, every_s), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends after the look that it is at."""
        self._over.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raises `AssertionError` when nobody looks any more."""
        if self._failure is not None:
            raise AssertionError("nobody looks any more") from self._failure

    def _go_on(self, look: Callable[[], None], every_s: float) -> None:
        try:
            while not self._over.wait(every_s):
                look()
        except BaseException as error:
            self._failure = error
