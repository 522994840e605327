"""A real Dagster, and all rows of its storage in it: its start is what takes the time."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import yaml
from judged_runs import MOVE
from killed_rows import CODE, DAEMON, WEBSERVER, Row
from served_placement import Gate, PlacementServer

from samza_dagster.errors import InvalidInput
from samza_dagster.orchestration.chain import ROOT
from samza_dagster.orchestration.names import named
from samza_dagster.sandbox import graphql
from samza_dagster.sandbox.dagster_stack import DagsterStack
from tests.rig.pace import PACE
from tests.rig.waiting import until

QUEUED = "queued"
"""The row of a run that is launched while there is no daemon."""
DEQUEUED = "dequeued"
"""That of a run which is in the queue when the code server is killed: the daemon, which lives,
tries to launch it and fails."""
NO_ROWS = {QUEUED: MOVE, DEQUEUED: MOVE}
"""Runs beside the rows, each in a world of its own."""
DEADLINE_S = 900.0
LOST_S = 60.0
"""Dagster's daemon passes over a failure for ever that it reads from the events before the run has
its status, which is written after it: its retry is lost then, and somebody re-executes by hand."""
_REEXECUTE = """mutation Reexecute($params: ReexecutionParams!) {
  launchRunReexecution(reexecutionParams: $params) { __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on Error { message } }
}"""
KEPT = "re-submitting the run into the queue"
"""Dagster's own word at a run that stays in the queue, its code server being away."""
AT_WORK = 4
"""Runs that go on while others are held. Two stacks share two processors."""


def row_key(number: int) -> str:
    """What the world of a row, and its jobs' prefix, is named."""
    return f"row{number}"


@dataclass
class Ended:
    """The newest run of a row in the end."""

    root: str
    run_id: str
    status: dg.DagsterRunStatus
    parent: str = ""
    why: str = ""


@dataclass
class Killed:
    """What the kills on one storage left: the worlds, and the runs of each row.

    `refused` has Dagster's word on what it doesn't re-execute from failure.
    """

    stack: DagsterStack
    server: PlacementServer
    rows: Sequence[Row]
    roots: dict[str, str] = field(default_factory=dict)
    ends: dict[str, Ended] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    _failed: dict[str, float] = field(default_factory=dict)

    def go(self) -> None:
        """All rows side by side; those whose worker alone is killed, while the others are held."""
        for number, row in enumerate(self.rows):
            gate = Gate(row.point, kills=row.who == "worker", goes_on=row.by_hand)
            self.server.gates[row_key(number)] = gate
        for number, row in enumerate(self.rows):
            self._launch(row_key(number), row)
        held = [row_key(n) for n, row in enumerate(self.rows) if row.who != "worker"]
        for key in held:
            until(
                f"the run for the {self._row(key)} came to its boundary",
                self.server.gates[key].arrived.is_set,
                seconds=DEADLINE_S,
            )
        self._see_ends([key for key in self.roots if key not in held])
        self._kill_server(WEBSERVER)
        # A launch that is on its way as its code server is killed fails for good.
        self._see_ends(self._rows_of(WEBSERVER))
        self._kill_server(CODE)
        self.stack.wait_ready(DEADLINE_S)  # a run is launched by the web server
        self._kill_server(DAEMON)
        self._see_ends(list(self.roots))

    def _row(self, key: str) -> Row | None:
        return None if key in NO_ROWS else self.rows[int(key.removeprefix("row"))]

    def _rows_of(self, who: str) -> list[str]:
        return [row_key(n) for n, row in enumerate(self.rows) if row.who == who]

    def _launch(self, key: str, row: Row | None = None) -> None:
        judged_run, tags = (NO_ROWS[key], {}) if row is None else (row.judged_run, row.tags)
        job = named(key, judged_run.job)
        self.roots[key] = self.stack.runs.launch(job, judged_run.run_config, tags)

    def _kill_server(self, name: str) -> None:
        """SIGKILL, as the kernel gives it when memory is short."""
        record = self.stack.record(name)
        with self._queue_before_the_end_of(name):
            os.kill(record.pid, signal.SIGKILL)
            assert record.wait(30)
        if name == DAEMON:
            self._launch(QUEUED)
        for key in self._rows_of(name):
            self.server.gates[key].open()
        for key in self._rows_of(name):
            until(
                f"the run of {self._row(key)} went on without the {name}",
                lambda key=key: self._is_done(key),
                seconds=DEADLINE_S,
            )
        if name == DAEMON:
            assert not self.server.worlds[QUEUED].requests
        if name == CODE:
            self._see_the_queue_try()
        self.stack.restart(name)

    @contextlib.contextmanager
    def _queue_before_the_end_of(self, name: str) -> Iterator[None]:
        """A code server ends when a run is in the queue that the daemon hasn't looked at."""
        if name != CODE:
            yield
            return
        self.stack.wait_ready(DEADLINE_S)  # the web server, which launches it, was just restarted
        daemon = self.stack.record(DAEMON).pid
        try:
            until(
                "the daemon was halted while it held no lock that a launch needs",
                lambda: self._launches_beside_halted(daemon),
                seconds=DEADLINE_S,
            )
            yield
        finally:
            os.kill(daemon, signal.SIGCONT)

    def _launches_beside_halted(self, daemon: int) -> bool:
        os.kill(daemon, signal.SIGSTOP)
        try:
            self._launch(DEQUEUED)
        except InvalidInput as refused:
            os.kill(daemon, signal.SIGCONT)
            if "database is locked" not in str(refused):  # SQLite has one lock for all writers
                raise
            return False
        return True

    def _see_the_queue_try(self) -> None:
        self._see_said(DEQUEUED, KEPT)
        assert not self.server.worlds[DEQUEUED].requests

    def _see_said(self, key: str, what: str) -> None:
        """Waits until the events of the newest run of its chain have a word."""
        with dg.DagsterInstance.from_config(str(self.stack.home)) as instance:
            until(
                f"a run of {key!r} says {what!r}",
                lambda: any(
                    what in entry.message
                    for entry in instance.all_logs(_newest(instance)[self.roots[key]].run_id)
                ),
                seconds=DEADLINE_S,
                every=1.0,
            )

    def _is_done(self, key: str) -> bool:
        row = self._row(key)
        return row is not None and row.judged_run.is_done(self.server.worlds[key])

    def _see_ends(self, keys: Sequence[str]) -> None:
        """Waits until each is over, and re-executes what nobody else goes on with."""
        with dg.DagsterInstance.from_config(str(self.stack.home)) as instance:
            until(
                f"all of {len(keys)} runs, or those that went on with them, ended",
                lambda: self._are_over(instance, keys),
                seconds=DEADLINE_S,
                every=1.0,
            )

    def _are_over(self, instance: dg.DagsterInstance, keys: Sequence[str]) -> bool:
        newest = _newest(instance)
        over = [self._is_over(instance, key, newest[self.roots[key]]) for key in keys]
        return all(over)

    def _is_over(self, instance: dg.DagsterInstance, key: str, run: dg.DagsterRun) -> bool:
        row = self._row(key)
        if not run.is_finished:
            return False
        failed = run.status is dg.DagsterRunStatus.FAILURE
        if failed and row is not None and row.worker_dies and run.parent_run_id is None:
            since = self._failed.setdefault(run.run_id, time.monotonic())
            if row.by_hand or time.monotonic() - since > LOST_S * PACE:
                self._failed[run.run_id] = math.inf  # once
                self._reexecute(key, run.run_id)
            return False
        events = instance.all_logs(run.run_id) if failed else []
        why = "\n".join(entry.user_message or entry.message for entry in events)
        parent = run.parent_run_id or ""
        self.ends[key] = Ended(self.roots[key], run.run_id, run.status, parent, why)
        return True

    def _reexecute(self, key: str, root: str) -> None:
        def launch(strategy: str) -> None:
            params = {"params": {"parentRunId": root, "strategy": strategy}}
            answer = graphql.ask(self.stack.url, _REEXECUTE, params)["launchRunReexecution"]
            graphql.run_id_of(answer, f"re-execute run {root}: {strategy}")

        try:
            launch("FROM_FAILURE")
        except InvalidInput as refused:
            self.refused[key] = str(refused)
            launch("ALL_STEPS")


def _newest(instance: dg.DagsterInstance) -> dict[str, dg.DagsterRun]:
    """By the root of its chain."""
    runs = reversed(instance.get_runs())
    return {run.tags.get(ROOT) or run.root_run_id or run.run_id: run for run in runs}


def patient(settings: Path, held: int) -> None:
    """A machine that is busy with other tests takes minutes to start a run: no start times out.

    Nor does a code server stay away for too long. And several runs start at a time beside those
    that are held.
    """
    read = yaml.safe_load(settings.read_text())
    queue = read["run_coordinator"]["config"]
    queue["max_user_code_failure_retries"] = int(
        DEADLINE_S / queue["user_code_failure_retry_delay"]
    )
    read["concurrency"]["runs"]["max_concurrent_runs"] = held + AT_WORK
    read["run_monitoring"]["start_timeout_seconds"] = int(DEADLINE_S)
    settings.write_text(yaml.safe_dump(read))
