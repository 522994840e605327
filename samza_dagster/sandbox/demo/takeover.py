"""`make demo STANDALONE=1`: a processor dies, and its tasks continue at their standbys.

Sandbox up, standbys caught up. A host is lost with its processor and both its containers. An
independent judge checks that nothing was lost, and the broker's log shows the writers.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from samza_dagster.errors import DeadlineExceeded
from samza_dagster.model.naming import standby_task_name
from samza_dagster.sandbox import broker_log
from samza_dagster.sandbox.broker import BROKER
from samza_dagster.sandbox.demo.findings import TakeoverFindings
from samza_dagster.sandbox.demo_job import CHANGELOG_TOPIC, TASKS_PER_CONTAINER
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Options, Sandbox
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.readiness import RUNNING
from samza_dagster.sandbox.registry import wait_until
from samza_dagster.sandbox.standalone import SESSION_MS

_TASK = "Partition 0"
"""The demo kills the processor that runs this task."""
_AGREED_S = 180.0


class TakeoverDemo:
    """A run on a sandbox of these options; `tell` shows a line to a person."""

    def __init__(self, options: Options, tell: Callable[[str], None]) -> None:
        self._options = options
        self._tell = tell
        self._sandbox = Sandbox(options.name)
        self._phases = Phases(tell)
        self.findings = TakeoverFindings(session_s=SESSION_MS / 1_000)
        self.links: dict[str, str] = {}

    @property
    def seconds(self) -> dict[str, float]:
        """Return the seconds of each phase that has ended."""
        return self._phases.seconds

    def run(self) -> None:
        """Run the demo from nothing to the verdict; its processes keep running afterwards."""
        servers = self._sandbox.up(self._options, self._phases)["bootstrap_servers"]
        with contextlib.closing(Judge(servers)) as judge:
            with self._phases.phase("outsider reads inputs and outputs"):
                judge.judge(deadline_s=300)
            before = self._sandbox.standalone.processors()
            lost = next(pid for pid, each in before.items() if _TASK in each["active_tasks"])
            places = self.findings.locality_before = _places(before)
            self._tell(f"before: {_in_words(before)}")
            with self._phases.phase(f"{lost} is killed, its group agrees"):
                died_ms = time.time_ns() // 1_000_000
                self._sandbox.standalone.lose(before[lost]["host"])
                after = self._agreed_without(lost, len(_actives(before)))
                self.findings.agreed_s = (time.time_ns() // 1_000_000 - died_ms) / 1_000
            self._tell(f"after: {_in_words(after)}")
            self.findings.locality_after = _places(after)
            tasks: Sequence[str] = before[lost]["active_tasks"]
            self.findings.moved = all(
                self.findings.locality_after.get(task) == places[standby_task_name(task, 0)]
                for task in tasks
            )
            with self._phases.phase("verdict"):
                self._judge(judge, [int(task.rpartition(" ")[2]) for task in tasks], died_ms)

    def close(self) -> None:
        """Stop everything that the demo started, and confirm it."""
        self._sandbox.close()

    def _agreed_without(self, lost: str, tasks: int) -> Mapping[str, Mapping[str, Any]]:
        found: Mapping[str, Mapping[str, Any]] = {}

        def is_agreed() -> bool:
            nonlocal found
            found = self._sandbox.standalone.processors()
            are_running = all(each["state"] == RUNNING for each in found.values())
            return lost not in found and are_running and len(_actives(found)) == tasks

        if not wait_until(is_agreed, time.monotonic() + _AGREED_S):
            raise DeadlineExceeded(f"a version without {lost}", seen=_in_words(found))
        return found

    def _judge(self, judge: Judge, partitions: Sequence[int], died_ms: int) -> None:
        verdict = judge.judge(
            deadline_s=180,
            partitions=partitions,
            window_ms=(died_ms - 5_000, time.time_ns() // 1_000_000),
        )
        findings = self.findings
        findings.missing, findings.unexplained = verdict.missing, verdict.unexplained
        if verdict.gaps:
            findings.downtime_s = max(gap.gap_ms for gap in verdict.gaps) / 1_000
        data = self._sandbox.directory / BROKER / "data"
        count = self._options.actives * TASKS_PER_CONTAINER
        logs = {n: broker_log.batches(data, CHANGELOG_TOPIC, n) for n in range(count)}
        findings.owners = {n: len({batch.producer_id for batch in logs[n]}) for n in logs}
        findings.two_owners = sum(
            len(broker_log.overlaps(CHANGELOG_TOPIC, n, log)) for n, log in logs.items()
        )
        first_ms = [broker_log.next_owner_ms(logs[n], died_ms) for n in partitions]
        if None not in first_ms:
            findings.took_over_s = (max(filter(None, first_ms)) - died_ms) / 1_000
            self._tell(
                f"{findings.took_over_s:.1f} s after the death all its tasks had written again: session "
                f"{findings.session_s:g} s, agreed after {findings.agreed_s:.1f} s"
            )
        self._tell(
            f"{verdict.completed:,} (key, epoch) completed by the inputs, {verdict.missing} missing "
            f"in the outputs, {verdict.duplicates} twice"
        )


def _actives(processors: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [task for each in processors.values() for task in each["active_tasks"]]


def _places(processors: Mapping[str, Mapping[str, Any]]) -> dict[str, str | None]:
    """Return task → host, standbys included."""
    return {
        task: each["host"]
        for each in processors.values()
        for task in (*each["active_tasks"], *each["standby_tasks"])
    }


def _in_words(processors: Mapping[str, Mapping[str, Any]]) -> str:
    return "; ".join(
        f"{pid} {each['state']} on {each['host']}: {', '.join(each['active_tasks']) or '-'}"
        for pid, each in sorted(processors.items())
    )
