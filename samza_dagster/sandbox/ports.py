"""Free ports, on the loopback address by default."""

from __future__ import annotations

import contextlib
import os
import random
import socket

LOOPBACK = "127.0.0.1"
# Below the kernel's range for outgoing connections: a client could take such a port between the
# choice and the server's start, which takes seconds. Below the agents' ports, too.
_PORTS = range(10_000, 17_000)
_given: set[int] = set()


def free_ports(count: int, host: str = LOOPBACK) -> tuple[int, ...]:
    """Return `count` different ports that were free a moment ago: start, verify, try again."""
    # A server takes seconds to reach its port. So no port is given twice while there are others,
    # and each process tries first a hundred ports that few others try.
    own = os.getpid() % (len(_PORTS) // 100)

    def is_of_others(port: int) -> tuple[bool, bool]:
        return port in _given, (port - _PORTS.start) // 100 != own

    with contextlib.ExitStack() as held:
        found: list[int] = []
        for port in sorted(random.SystemRandom().sample(_PORTS, len(_PORTS)), key=is_of_others):
            if len(found) == count:
                break
            with contextlib.suppress(OSError):
                held.enter_context(socket.socket()).bind((host, port))
                found.append(port)
        _given.update(found)
        return tuple(found)


def is_taken(port: int) -> bool:
    """Return whether a process listens on the port of the loopback address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False
