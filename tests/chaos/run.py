"""One chaos run: a sandbox, one fault after another, and the outsiders' judgement."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from samza_dagster.client.audit_history import read_history
from samza_dagster.errors import SamzaDagsterError
from samza_dagster.placement.audit_codec import audit_from_json
from samza_dagster.placement.verification import verify
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from tests.chaos.acts import Acts
from tests.chaos.broker_log import batches, overlaps
from tests.chaos.report import Befallen, Report
from tests.chaos.schedule import Fault
from tests.rig.job import alive, until
from tests.rig.replacement import partitions_of
from tests.rig.sandbox_job import SandboxJob
from tests.rig.topic_records import records_of

REST_S = 240.0
"""Lease, a cold start of everything, and a machine that does all of it at once."""
JUDGED_S = 240.0
_LOOK_S = 0.3


class ChaosRun:
    """`say` is told each fault as it happens."""

    def __init__(self, job: SandboxJob, report: Report, say: Callable[[str], None]) -> None:
        self._job = job
        self._report = report
        self._say = say
        self._acts = Acts(job)
        self._judge = Judge(job.connection.bootstrap_servers)

    def go(self, faults: Iterable[Fault]) -> Report:
        """All of them, then the judgement; whatever happens everything is let go."""
        began = time.monotonic()
        wanted = self._job.actives * (1 + self._job.standbys)
        until("all that run are seen", lambda: len(self._job.journal()) >= wanted)
        try:
            open_: list[tuple[Fault, str, float, int]] = []
            for fault in faults:
                at, known = time.time(), len(self._job.journal())
                victim, undo = self._acts.carry_out(fault)
                self._say(f"{fault}: {victim}")
                time.sleep(fault.hold_s)  # the fault's own length: nothing is waited for
                undo()
                open_.append((fault, victim, at, known))
                if fault.joined:
                    continue
                self._rest(open_)
                open_ = []
            self._rest(open_)
        finally:
            self._acts.heal()
        self._end()
        self._report.seconds = round(time.monotonic() - began, 1)
        self._judge.close()
        return self._report

    def _rest(self, open_: list[tuple[Fault, str, float, int]]) -> None:
        if not open_:
            return
        since = time.monotonic()
        deadline, rest_s = since + REST_S, None
        while rest_s is None and time.monotonic() < deadline:
            if self._is_at_rest():
                rest_s = time.monotonic() - since
            else:
                time.sleep(_LOOK_S)
        if rest_s is None:
            self._say(f"not at rest after {REST_S:.0f} s: {json.dumps(self._job.status())[:2000]}")
        silences = self._silences(open_[0][2])
        for fault, victim, _, known in open_:
            starts = self._job.journal()
            new = {s["processor"] for s in starts[known:] if s["what"] == "started"}
            actives = tuple(sorted(name for name in new if name.isdigit()))
            moved = tuple(name for name in actives if self._moved(starts, known, name))
            silent = [silences[p] for name in actives for p in partitions_of(name)]
            told = Befallen(
                fault.number,
                fault.kind,
                victim,
                None if rest_s is None else round(rest_s, 1),
                actives,
                moved,
                max(silent, default=None),
            )
            self._report.faults.append(told)
            if actives:
                self._say(f"   {', '.join(actives)} replaced, silent {told.downtime_ms} ms")

    def _is_at_rest(self) -> bool:
        status = self._job.status()
        if status is None or status["actions"] or status["failovers"]:
            return False
        found = status["processors"].values()
        hosts = {name for name, host in status["hosts"].items() if "free_memory_mb" in host}
        return (
            len(found) == self._job.actives * (1 + self._job.standbys)
            and all(p["state"] == "running" and p["pid"] and alive(p["pid"]) for p in found)
            and hosts == set(self._job.host_names)
            and all(ghost["ended"] is not None for ghost in status["ghosts"])
            and self._nothing_missing()
        )

    def _nothing_missing(self) -> bool:
        try:
            return self._judge.judge(deadline_s=20).missing == 0
        except SamzaDagsterError:
            return False

    def _silences(self, since_s: float) -> list[int]:
        window = (int(since_s * 1000), int(time.time() * 1000))
        try:
            gaps = self._judge.judge(deadline_s=30, window_ms=window).gaps
        except SamzaDagsterError:
            gaps = ()
        found = {gap.partition: gap.gap_ms for gap in gaps}
        return [found.get(partition, 0) for partition in range(4)]

    @staticmethod
    def _moved(starts: list[dict[str, Any]], known: int, name: str) -> bool:
        hosts = [s["host"] for s in starts if s["what"] == "started" and s["processor"] == name]
        since = [s for s in starts[known:] if s["what"] == "started" and s["processor"] == name]
        return len(hosts) > len(since) and hosts[-1] != hosts[-len(since) - 1]

    def _end(self) -> None:
        """What is missing, who wrote in turns, and whether the history holds."""
        verdict = self._judge.judge(deadline_s=JUDGED_S)
        report = self._report
        report.inputs, report.completed = verdict.inputs, verdict.completed
        report.missing, report.unexplained = verdict.missing, verdict.unexplained
        report.duplicates = verdict.duplicates
        data = self._job.sandbox.directory / "broker" / "data"
        for partition in range(self._job.actives * demo_job.TASKS_PER_CONTAINER):
            report.overlaps += _overlaps_of(data, demo_job.CHANGELOG_TOPIC, partition)
        connection = self._job.connection
        history = [
            audit_from_json(json.loads(value), f"record {number}")
            for number, (_, value) in enumerate(records_of(connection, connection.audit_topic))
            if value is not None
        ]
        verified = verify(history, read_history(connection).head)
        if not (verified.ok and verified.complete):
            report.history = str(verified.violation or "incomplete")


def _overlaps_of(data: Path, topic: str, partition: int) -> list[Any]:
    return list(overlaps(topic, partition, batches(data, topic, partition)))
