"""A network namespace in which each simulated host has a name and an address of its own.

Samza takes a machine's first address that isn't loopback for its containers' host, so that all
hosts on one machine would report the same. In a network with loopback alone, Samza reports each
host's own address. Ports are free too: a second sandbox has a namespace of its own.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from samza_dagster.errors import ActionFailed, DeadlineExceeded, MissingPrerequisite
from samza_dagster.sandbox import process
from samza_dagster.sandbox.ports import LOOPBACK, free_ports
from samza_dagster.sandbox.process import ProcessRecord, log_tail
from samza_dagster.sandbox.registry import wait_until

_RELAY = Path(__file__).with_name("relay.py")
_READY_S = 20.0
HOLDER = "network namespace"
RELAY = "relay"


class Namespace:
    """A namespace below `directory`, with forwarded addresses.

    `servers` (`host:port,…`) outside have the same address inside. `outside[i]` is the outer
    address of `inside[i]`. The addresses of `both_sides` are inside, and equal outside.
    """

    def __init__(
        self,
        directory: Path,
        *,
        servers: str,
        inside: Sequence[str],
        both_sides: Sequence[str] = (),
        on_spawn: Callable[[ProcessRecord], None] | None = None,
    ) -> None:
        self._directory = directory
        self._servers = tuple(dict.fromkeys(servers.split(",")))
        self._inside = tuple(inside)
        self._both_sides = tuple(both_sides)
        self._on_spawn = on_spawn
        self.outside: tuple[str, ...] = ()
        self._holder: ProcessRecord | None = None

    def start(self) -> None:
        """Start it; raise `MissingPrerequisite` where kernel or tools don't allow namespaces."""
        for tool in ("unshare", "nsenter"):
            if shutil.which(tool) is None:
                raise MissingPrerequisite(
                    f"{tool}, for hosts with names of their own",
                    seen="not on PATH",
                    fix="install it (Debian: apt-get install util-linux)",
                )
        self._directory.mkdir(parents=True, exist_ok=True)
        ports = free_ports(len(self._inside))
        self.outside = tuple(f"{LOOPBACK}:{port}" for port in ports)
        out = [(address, self._socket(f"out-{n}")) for n, address in enumerate(self._servers)]
        served = (*self._inside, *self._both_sides)
        into = [(self._socket(f"in-{n}"), address) for n, address in enumerate(served)]
        reached = (*self.outside, *self._both_sides)
        relay = (sys.executable, "-I", str(_RELAY))
        mapped = () if os.geteuid() == 0 else ("--map-root-user",)
        self._holder = self._spawn(
            HOLDER,
            ("unshare", *mapped, "--net", *relay, "--loopback", *map("=".join, (*out, *into))),
        )
        self._spawn(
            RELAY,
            (
                *relay,
                *(f"{path}={address}" for address, path in out),
                *(f"{at}={path}" for at, (path, _) in zip(reached, into, strict=True)),
            ),
        )

    def command(self, command: Sequence[str], *, host: str = "") -> tuple[str, ...]:
        """Return the command that runs `command` inside, see `entering`."""
        if self._holder is None:
            raise ActionFailed("enter the network namespace", seen="it wasn't started")
        return entering(self._holder.pid, command, host=host)

    def _socket(self, name: str) -> str:
        path = self._directory / name
        path.unlink(missing_ok=True)
        return str(path)

    def _spawn(self, role: str, command: Sequence[str]) -> ProcessRecord:
        log = self._directory / f"{role.replace(' ', '-')}.log"
        log.unlink(missing_ok=True)
        record = process.spawn(role, command, log=log, on_spawn=self._on_spawn)

        def is_ready() -> bool:
            if not record.is_alive:
                raise ActionFailed(
                    f"start the {role}",
                    seen=log_tail(log),
                    fix="allow namespaces (unshare --net --pid --uts true must work)",
                )
            return "ready" in log.read_text(errors="replace")

        if not wait_until(is_ready, time.monotonic() + _READY_S):
            raise DeadlineExceeded(f"start the {role}", seen=log_tail(log), fix=f"see {log}")
        return record


def entering(holder: int, command: Sequence[str], *, host: str = "") -> tuple[str, ...]:
    """Return the command that runs `command` in the namespace of process `holder`.

    With `host` it has that name, and a process namespace of its own: when the first process,
    which this command starts, ends, the kernel ends all others.
    """
    user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
    enter = ("nsenter", "--target", str(holder), *user, "--net")
    if not host:
        return (*enter, *command)
    return (
        *(*enter, "unshare", "--uts", "--pid", "--fork", "--kill-child=SIGKILL"),
        *("--mount-proc", "sh", "-c", 'hostname "$0" && exec "$@"', host, *command),
    )
