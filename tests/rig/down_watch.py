"""Who is down, as the agents' own records and the kernel tell it; the run isn't asked.

A container is up while its process lives, it has checked in, and nobody asked it to stop.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.rig.job import alive
from tests.rig.looking import Looking

_EVERY_S = 0.1


class DownWatch:
    """Looks ten times a second from its making until `close`.

    `processors` are those that ought to run, `hosts` the directory that holds one of each host.
    """

    def __init__(self, hosts: Path, processors: set[str]) -> None:
        self._hosts = hosts
        self._processors = processors
        self._named: dict[Path, tuple[str, int]] = {}
        self.seen: list[tuple[float, frozenset[str]]] = []
        """Seconds since the epoch and who was down from then on."""
        self._looking = Looking(self._look, _EVERY_S)

    def close(self) -> None:
        """Ends the watch; raises what ended it before."""
        self._looking.close()

    @property
    def down(self) -> frozenset[str]:
        """Who is down now."""
        return self.seen[-1][1]

    def coming(self, processor: str) -> int | None:
        """The process of an incarnation that lives and hasn't checked in yet."""
        for marks in self._hosts.glob("*/incarnations/*/marks.json"):
            named, pid = self._name(marks.parent)
            if named == processor and alive(pid) and not _read(marks).get("checked_in", True):
                return pid
        return None

    @property
    def most(self) -> int:
        """The greatest number that was down at once."""
        return max(len(down) for _, down in self.seen)

    @property
    def order(self) -> list[str]:
        """Each processor when it was first down."""
        return list(dict.fromkeys(p for _, down in self.seen for p in sorted(down)))

    @property
    def of_one_group(self) -> list[frozenset[str]]:
        """Each time when two of a group were down at once."""
        return [
            down for _, down in self.seen if len({p.partition("-")[0] for p in down}) < len(down)
        ]

    def _look(self) -> None:
        up: set[str] = set()
        for marks in self._hosts.glob("*/incarnations/*/marks.json"):
            told = _read(marks)
            if told.get("checked_in") and not told.get("stop_asked"):
                processor, pid = self._name(marks.parent)
                if pid and alive(pid):
                    up.add(processor)
        down = frozenset(self._processors - up)
        if not self.seen or self.seen[-1][1] != down:
            self.seen.append((time.time(), down))

    def _name(self, incarnation: Path) -> tuple[str, int]:
        if incarnation not in self._named:
            processor = _read(incarnation / "spec.json").get("processor_id")
            pid = _read(incarnation / "warden.json").get("container", {}).get("pid", 0)
            if not processor or not pid:
                return "", 0
            self._named[incarnation] = processor, pid
        return self._named[incarnation]


def _read(path: Path) -> dict[str, Any]:
    """Empty when it is gone, or not whole yet."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
