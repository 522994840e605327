"""Free ports, on the loopback address unless told otherwise."""

from __future__ import annotations

import contextlib
import random
import socket

LOOPBACK = "127.0.0.1"
# Below the range from which kernels pick the ports of outgoing connections: a client's could
# have it between the choice and the server's start, which takes seconds. Below the agents', too.
_PORTS = range(10_000, 17_000)


def free_ports(count: int, host: str = LOOPBACK) -> tuple[int, ...]:
    """`count` different ports that were free a moment ago: start, verify, try again."""
    with contextlib.ExitStack() as held:
        found: list[int] = []
        for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
            if len(found) == count:
                break
            with contextlib.suppress(OSError):
                held.enter_context(socket.socket()).bind((host, port))
                found.append(port)
        return tuple(found)


def is_taken(port: int) -> bool:
    """Somebody listens on the port of the loopback address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False
