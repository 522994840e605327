"""The wall clocks of a sandbox's hosts: each is wrong from the start, and may be set meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.rig import faketime

SET = {"set back host": -1.0, "set ahead host": 1.0}
"""Kinds of faults, and whether a host's clock goes back or ahead; it goes where it was after that."""


class HostClocks:
    """By turns ahead and behind by `skew_s`, of all processes of a host. 0: right, and none can be set."""

    def __init__(self, directory: Path, hosts: Sequence[str], skew_s: float) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._skew_s = skew_s
        self._ahead_s = {
            host: skew_s if number % 2 == 0 else -skew_s for number, host in enumerate(hosts)
        }
        for host in hosts:
            self.set_right(host)

    def set(self, host: str, kind: str) -> None:
        """By as much again as the hosts' clocks are wrong anyway."""
        self._write(host, self._ahead_s[host] + SET[kind] * self._skew_s)

    def set_right(self, host: str) -> None:
        """As wrong as at the start."""
        self._write(host, self._ahead_s[host])

    def environment(self, host: str = "{host}") -> Mapping[str, str]:
        """Of the agent of a host, and so of its wardens; with `{host}` of every container."""
        return faketime.environment(str(self._file(host))) if self._skew_s else {}

    def _write(self, host: str, ahead_s: float) -> None:
        faketime.set_ahead(self._file(host), ahead_s)

    def _file(self, host: str) -> Path:
        return self._directory / f"{host}.clock"
