"""Worker processes end when the command that began them is gone, also by SIGKILL."""

from __future__ import annotations

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """First call of a worker: a thread waits for the parent's end, and ends this process."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "this isn't a worker"

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
