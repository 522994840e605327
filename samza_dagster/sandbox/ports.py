"""Free ports, on the loopback address unless told otherwise."""

from __future__ import annotations

import contextlib
import socket

LOOPBACK = "127.0.0.1"


def free_ports(count: int, host: str = LOOPBACK) -> tuple[int, ...]:
    """`count` different ports that were free a moment ago: start, verify, try again."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((host, 0))
        return tuple(int(each.getsockname()[1]) for each in sockets)


def is_taken(port: int) -> bool:
    """Somebody listens on the port of the loopback address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False
