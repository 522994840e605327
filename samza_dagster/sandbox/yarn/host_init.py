"""The first process of a simulated host: starts its NodeManager and reaps dead processes.

`host_init.py PROGRAM ARGUMENT…`. A killed NodeManager leaves its containers running, as on a real
host; SIGUSR1 starts it again. A NodeManager that exits by itself ends the host: the kernel ends
all processes with the first one. Standard library only, as it runs by its path.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

_HEARD = (signal.SIGCHLD, signal.SIGUSR1)


def _start(command: list[str]) -> int:
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
        os.setsid()
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    return child


def _reap() -> Iterator[tuple[int, int]]:
    """Yield process id and wait status of each dead child, orphans of the host among them."""
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended
    except ChildProcessError:
        return


def _main(command: list[str]) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    running = _start(command)
    while True:
        heard = signal.sigwait(_HEARD)
        for child, status in _reap():
            if child != running:
                continue
            if os.WIFEXITED(status):
                return os.WEXITSTATUS(status)
            running = 0
        # The sender saw the death, which may not have been reaped before.
        if heard == signal.SIGUSR1 and not running:
            running = _start(command)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
