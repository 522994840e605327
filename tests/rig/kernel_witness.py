"""Sees containers come and go by the kernel's process table alone, and remembers it.

Real containers keep no journal. Any process below the sandbox's directory that carries an
execution id in its environment is one; a JVM lives for seconds, the table is read 20
times a second. One that is parked (launched before its start) owns nothing: it counts from
the release of its JobModel, which its record has before it gets a byte of it. Two of a
processor at once, or two of a group on one host, are told.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samza_dagster.agent.procfs import Stat, all_processes
from tests.rig.looking import Looking

_EVERY_S = 0.05
_FORKED_S = 2.0
"""A process may still be its parent's copy, before it becomes what it is to be."""
_Key = tuple[int, int]


@dataclass(frozen=True)
class _Seen:
    processor: str
    execution: str
    host: str
    pid: int
    at: float
    released: bool = False


class KernelWitness:
    """Watches the hosts below `directory` (`<host>/state`) from its making until `close`.

    `agent` is where agents keep their records, below each host's directory.
    """

    def __init__(self, directory: Path, agent: str = "") -> None:
        self._directory = str(directory)
        self._agent = agent
        self._strangers: dict[_Key, float] = {}
        self._containers: dict[_Key, _Seen] = {}
        self._sessions: set[tuple[str, int]] = set()
        self._violations: dict[tuple[int, ...], dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._looking = Looking(self._look, _EVERY_S)

    def close(self) -> None:
        """Ends the watch; raises what ended it before."""
        self._looking.close()

    def journal(self) -> list[dict[str, Any]]:
        """`started` for each container in the order seen, then each `VIOLATION`."""
        self._looking.check()
        with self._lock:
            starts = [
                {
                    "what": "started",
                    "processor": seen.processor,
                    "execution": seen.execution,
                    "host": seen.host,
                    "pid": seen.pid,
                    "at": seen.at,
                }
                for seen in self._containers.values()
                if seen.released
            ]
            return sorted([*starts, *self._violations.values()], key=lambda line: line["at"])

    def _look(self) -> None:
        now = time.time()
        # Before the table is read: who is in it then was released while it lived.
        with self._lock:
            for key, seen in self._containers.items():
                if not seen.released and self._is_released(seen):
                    self._containers[key] = replace(seen, released=True, at=now)
        live = {(stat.pid, stat.start_ticks): stat for stat in all_processes() if not stat.is_dead}
        with self._lock:
            for key, stat in live.items():
                since = self._strangers.get(key)
                if key in self._containers or (since is not None and now - since > _FORKED_S):
                    continue
                self._strangers.setdefault(key, now)
                self._identify(key, stat, now)
            for key in self._strangers.keys() - live.keys():
                del self._strangers[key]
            released = [s for key, s in self._containers.items() if key in live and s.released]
            self._compare(released, now)

    def _is_released(self, seen: _Seen) -> bool:
        record = Path(self._directory, seen.host, self._agent, "incarnations", seen.execution)
        try:
            return bool(json.loads((record / "marks.json").read_text())["released"])
        except (OSError, ValueError):
            return False

    def _identify(self, key: _Key, stat: Stat, now: float) -> None:
        try:
            raw = Path(f"/proc/{stat.pid}/environ").read_bytes()
        except OSError:
            return
        named = dict(
            part.partition("=")[::2] for part in raw.decode(errors="replace").split("\0") if part
        )
        state, execution = (
            named.get("LOGGED_STORE_BASE_DIR"),
            named.get("EXECUTION_ENV_CONTAINER_ID"),
        )
        if state is None or execution is None or not state.startswith(self._directory):
            return
        # What a container runs itself is in the session that its warden opened for it.
        if (execution, stat.session) in self._sessions:
            return
        self._sessions.add((execution, stat.session))
        host = Path(state).parent.name
        self._containers[key] = _Seen(named["SAMZA_CONTAINER_ID"], execution, host, stat.pid, now)

    def _compare(self, running: list[_Seen], now: float) -> None:
        for number, one in enumerate(running):
            for other in running[number + 1 :]:
                same = one.processor == other.processor
                beside = one.host == other.host and _group(one) == _group(other)
                if same or beside:
                    self._violations.setdefault(
                        (one.pid, other.pid),
                        {"what": "VIOLATION", "one": one, "other": other, "at": now},
                    )


def _group(seen: _Seen) -> str:
    return seen.processor.partition("-")[0]
