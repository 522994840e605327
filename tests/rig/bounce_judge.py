"""What a bounce did, by others' word: agents' records, the kernel, the topics, and a consumer of its own."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Self

from samza_dagster.model.naming import is_standby
from tests.rig.cockpit import Cockpit
from tests.rig.down_watch import DownWatch
from tests.rig.stream_times import Placed, placements
from tests.rig.waiting import until


class BounceJudge:
    """Watches while its block runs; `expect` judges what was seen then. `began` in ms since the epoch."""

    def __init__(self, cockpit: Cockpit) -> None:
        self._cockpit = cockpit
        self.began = time.time_ns() // 1_000_000

    def __enter__(self) -> Self:
        self._before = self._cockpit.incarnations()
        self.watch = DownWatch(self._cockpit.sandbox.directory / "hosts", set(self._before))
        assert self.watch.down == frozenset()
        return self

    def __exit__(self, *_: object) -> None:
        self.watch.close()

    def until_down(self, count: int) -> None:
        """So many containers have been down since it began, the last of them now."""
        self._cockpit.until(
            f"{count} container(s) went down",
            lambda: self.watch.down and len(self.watch.order) >= count,
            every=0.05,
        )

    @contextmanager
    def held_in_flight(self, processor: str) -> Generator[None]:
        """The process that is to replace this one stands still while the block runs."""
        pid = until(
            f"{processor} comes back", lambda: self.watch.coming(processor), seconds=60, every=0.02
        )
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def starts(self) -> Counter[str]:
        """How often each processor was started since it began, as the kernel showed it."""
        known = {execution for execution, _ in self._before.values()}
        return Counter(
            line["processor"]
            for line in self._cockpit.job.journal()
            if line["what"] == "started"
            and line["at"] * 1000 >= self.began
            and line["execution"] not in known
        )

    def placements(self) -> list[Placed]:
        """What was asked for since it began."""
        made = placements(self._cockpit.job.connection)
        return [placed for placed in made if placed.asked_ms >= self.began]

    def requests(self) -> dict[str, int]:
        """How often each was asked for since it began."""
        return dict(Counter(placed.processor for placed in self.placements()))

    def expect(self, processors: list[str], *, at_once: int) -> None:
        """Each of these was bounced once, the others weren't; within the limits; nothing is missing."""
        self._cockpit.until_all_run()
        assert self.starts() == dict.fromkeys(processors, 1)
        after = self._cockpit.incarnations()
        changed = {p for p, was in self._before.items() if after[p] != was}
        assert changed == set(processors)
        told: list[Any] = [
            line for line in self._cockpit.job.journal() if line["what"] == "VIOLATION"
        ]
        assert told == []
        assert self.watch.of_one_group == []
        assert 1 <= self.watch.most <= at_once, self.watch.seen
        went = [placed.processor for placed in self.placements()]
        assert went == sorted(went, key=lambda p: not is_standby(p)), "standbys go first"
        self._cockpit.until_nothing_is_held()
        verdict = self._cockpit.judge()
        assert verdict.is_good, verdict
