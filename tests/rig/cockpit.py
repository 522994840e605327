"""The whole cockpit: a sandbox's job with real Samza containers, and a real Dagster on it.

The definitions are the repository's own, its component's YAML with attributes of the test's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from samza_dagster.agent.files import read_json
from samza_dagster.orchestration.operations import runs as bounce_record
from samza_dagster.orchestration.operations import runs as bounce_runs
from samza_dagster.orchestration.operations.schedule import Progress
from samza_dagster.sandbox import demo_job, graphql
from samza_dagster.sandbox.dagster_stack import DagsterStack
from samza_dagster.sandbox.judge import Judge, OutputVerdict
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.demo_sandbox import demo_sandbox
from tests.rig.job import alive, kill, runs
from tests.rig.pace import PACE
from tests.rig.sandbox_job import SandboxJob
from tests.rig.stalls import stall, that_dump
from tests.rig.waiting import Value, until

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 600.0
"""Bounds what never comes; on a machine with work of its own most of it takes a tenth."""
HELD_S = 30.0
_REEXECUTE = """mutation Reexecute($params: ReexecutionParams!) {
  launchRunReexecution(reexecutionParams: $params) { __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on Error { message } }
}"""
_STARTED = re.compile(r"Started process for run \(pid: (\d+)\)")
_START = """mutation Start($selector: ScheduleSelector!) {
  startSchedule(scheduleSelector: $selector) { __typename
    ... on ScheduleStateResult { scheduleState { id status } } ... on PythonError { message } } }"""
_STOP = """mutation Stop($id: String!) {
  stopRunningSchedule(id: $id) { __typename
    ... on ScheduleStateResult { scheduleState { id status } } ... on PythonError { message } } }"""
_TICKS = """query Ticks($selector: ScheduleSelector!) {
  scheduleOrError(scheduleSelector: $selector) { __typename
    ... on Schedule { scheduleState { ticks { timestamp status runIds skipReason } } } } }"""
COMPONENT, DEFINITIONS = "samza_job.yaml", "definitions.py"


class Cockpit:
    """A job and its Dagster, both up. `witness` of the job remembers every container that ran."""

    def __init__(self, sandbox: Sandbox, stack: DagsterStack) -> None:
        self.sandbox = sandbox
        self.stack = stack
        self.runs = stack.runs
        self.job = SandboxJob(sandbox, "tests.rig.crashing_coordinator")
        self.instance = dg.DagsterInstance.from_config(str(stack.home))
        self._judge = Judge(self.job.connection.bootstrap_servers)

    def close(self) -> None:
        """Lets go of everything; what runs is ended by who started it."""
        self._judge.close()
        self.instance.dispose()
        self.job.close()

    def judge(self) -> OutputVerdict:
        """An outsider on all inputs of until now and their outputs."""
        return self._judge.judge(deadline_s=60 * PACE)

    def incarnations(self) -> dict[str, tuple[str, int]]:
        """Processor → execution id and pid, by the kernel's process table; who runs now."""
        return {
            line["processor"]: (line["execution"], line["pid"])
            for line in self.job.journal()
            if line["what"] == "started" and alive(line["pid"])
        }

    def started_since(self, began_ms: int) -> list[str]:
        """Processors that were started from then on, in order, as the kernel showed it."""
        return [
            line["processor"]
            for line in self.job.journal()
            if line["what"] == "started" and line["at"] * 1000 >= began_ms
        ]

    def kill(self, name: str) -> None:
        """SIGKILL of `code-server`, `webserver` or `daemon`, and its death awaited."""
        pid = self.stack.pids[name]
        kill(pid)

    def worker_of(self, run_id: str) -> int:
        """The pid of the process that works on a run, as Dagster's own event names it."""
        told = [entry.message for entry in self.instance.all_logs(run_id)]
        pids = [int(found[1]) for text in told if (found := _STARTED.search(text))]
        assert pids, told[-5:]
        return pids[-1]

    def bounce_of(self, root: str) -> dg.DagsterRun:
        """The newest run of a bounce's chain."""
        found = bounce_runs.chain(self.instance, root)
        run = found[0] if found else self.instance.get_run_by_id(root)
        assert run is not None
        return run

    def until_bounce(self, root: str, end: str, *, seconds: float = PATIENCE_S) -> dg.DagsterRun:
        """The newest run of a chain once it has ended so (tag `samza/bounce`)."""

        def ended() -> dg.DagsterRun | None:
            run = self.bounce_of(root)
            is_end = run.is_finished and run.tags.get(bounce_runs.BOUNCE) == end
            return run if is_end else None

        return self.until(
            f"bounce {root} is {end}", ended, seconds=seconds, every=0.5, roots=(root,)
        )

    def until(
        self,
        what: str,
        condition: Callable[[], Value | None],
        *,
        seconds: float = PATIENCE_S,
        every: float = 0.2,
        roots: Sequence[str] = (),
    ) -> Value:
        """As the rig's `until`; in vain it tells what Dagster is at, and of these chains their logs."""
        try:
            return until(what, condition, seconds=seconds, every=every)
        except AssertionError as error:
            logs = [self.told(root) for root in roots]
            now = stall(self.instance, self.stack)
            raise AssertionError("\n".join([str(error), *logs, now])) from None

    def status_of(self, run_id: str) -> str:
        """How a run has ended, once it has."""

        def ended() -> str | None:
            run = self.instance.get_run_by_id(run_id)
            return run.status.value if run is not None and run.is_finished else None

        return self.until(f"run {run_id} has ended", ended, every=0.5, roots=(run_id,))

    def told(self, root: str, last: int = 40) -> str:
        """The end of the logs of a chain's runs, for who reads why a test failed."""
        runs = reversed(bounce_runs.chain(self.instance, root))
        lines = [
            f"{run.run_id[:8]} {run.status.value} {(entry.message or entry.user_message)[:300]}"
            for run in runs
            for entry in self.instance.all_logs(run.run_id)
        ]
        return "\n".join(lines[-last:])

    def recorded(self, root: str) -> list[Progress]:
        """The containers that a chain's runs have recorded, the oldest record first."""
        return bounce_record.recorded(
            self.instance, reversed(bounce_runs.chain(self.instance, root))
        )

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """GraphQL of the web server."""
        return graphql.ask(self.stack.url, query, variables)

    def until_ready(self, *, since: float = 0.0, seconds: float = PATIENCE_S) -> None:
        """Code location loaded, and daemons that have told so since then (s since the epoch)."""

        def ready() -> bool:
            data = graphql.run(self.stack.url, "Ready")
            beats = data["instance"]["daemonHealth"]["allDaemonStatuses"]
            fresh = all((b["lastHeartbeatTime"] or 0) >= since for b in beats if b["required"])
            return fresh and not graphql.not_ready(data)

        self.until("the cockpit is ready again", ready, seconds=seconds)

    def held(self) -> list[str]:
        """What agents hold for nobody who runs, and what the coordinator is at."""
        running = {execution for execution, _ in self.incarnations().values()}
        kept = [
            f"{host}: {each['request_id']} for {each['execution_id']}"
            for host in self.job.host_names
            for each in (read_json(self.job.host_directory(host) / "reservations.json") or {}).get(
                "held", []
            )
            if each["execution_id"] not in running
        ]
        status = self.job.status()
        assert status is not None
        return [*kept, *map(str, status["actions"]), *map(str, status["failovers"])]

    def until_nothing_is_held(self) -> None:
        """Well before a hold would have ended by itself."""
        until("nothing is held", lambda: not self.held(), seconds=HELD_S)

    def until_all_run(self, *, seconds: float = PATIENCE_S) -> None:
        """Every container runs, by the coordinator's word and the kernel's."""

        def all_run() -> bool:
            found = self.job.processors().values()
            return bool(found) and all(map(runs, found))

        until("all containers run", all_run, seconds=seconds)

    def bounce(self, **settings: Any) -> str:
        """Launches `rolling_bounce` over GraphQL; the run's id."""
        return self.runs.launch(bounce_runs.NAME, {"ops": {"plan_bounce": {"config": settings}}})

    def bounces_since(self, began_ms: int) -> list[str]:
        """The first runs of the bounces that were created since then, oldest first."""
        records = self.instance.get_run_records(dg.RunsFilter(job_name=bounce_runs.NAME))
        return [
            record.dagster_run.run_id
            for record in reversed(records)
            if record.create_timestamp.timestamp() * 1000 >= began_ms
            and record.dagster_run.parent_run_id is None
        ]

    def re_execute(self, run_id: str) -> None:
        """All steps of a run anew, as the UI asks for it."""
        params = {"params": {"parentRunId": run_id, "strategy": "ALL_STEPS"}}
        answer = graphql.ask(self.stack.url, _REEXECUTE, params)["launchRunReexecution"]
        graphql.run_id_of(answer, f"re-execute run {run_id}")

    @contextmanager
    def schedule(self, name: str) -> Generator[Ticking]:
        """The schedule is on while the block runs."""
        repository = graphql.repository(graphql.run(self.stack.url, "Ready"))
        ticking = Ticking(
            self.ask,
            {
                "scheduleName": name,
                "repositoryName": repository,
                "repositoryLocationName": self.stack.location,
            },
        )
        try:
            yield ticking
        finally:
            ticking.stop()


class Ticking:
    """A schedule that is on, and what its ticks did."""

    def __init__(self, ask: Callable[..., dict[str, Any]], selector: dict[str, str]) -> None:
        self._ask = ask
        self._selector = selector
        started = ask(_START, selector=selector)["startSchedule"]
        assert started["__typename"] == "ScheduleStateResult", started
        self._id: str = started["scheduleState"]["id"]

    def stop(self) -> None:
        """It is off; once more is no mistake."""
        stopped = self._ask(_STOP, id=self._id)["stopRunningSchedule"]
        assert stopped["__typename"] == "ScheduleStateResult", stopped

    def told(self) -> list[dict[str, Any]]:
        """Its ticks, newest first: `timestamp` (s), `status`, `runIds`, `skipReason`."""
        return self._ask(_TICKS, selector=self._selector)["scheduleOrError"]["scheduleState"][
            "ticks"
        ]


@contextmanager
def cockpit(
    root: Path,
    attributes: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    **options: Any,
) -> Generator[Cockpit]:
    """`attributes` come on top of the component's, `options` are the sandbox's.

    The Dagster's environment is that of `samza-dagster demo`, `environment` on top of it.
    """
    with demo_sandbox(root, **options) as sandbox:
        stack = DagsterStack(
            sandbox.dagster_home,
            write_definitions(root / "definitions", attributes or {}),
            env=that_dump(
                {
                    **demo_job.environment(str(sandbox.status()["bootstrap_servers"])),
                    "SAMZA_DAGSTER_AUTO_FAILOVER": "act",
                    **(environment or {}),
                }
            ),
        )
        try:
            stack.start(timeout_s=PATIENCE_S)
            with closing(Cockpit(sandbox, stack)) as made:
                yield made
        finally:
            stack.stop(timeout_s=10 * PACE)


def write_definitions(directory: Path, attributes: Mapping[str, Any]) -> Path:
    """A definitions file as a user has it, beside it the component's YAML; its path."""
    directory.mkdir(parents=True)
    document = yaml.safe_load((ROOT / COMPONENT).read_text())
    document["attributes"] |= attributes
    (directory / COMPONENT).write_text(yaml.safe_dump(document))
    (directory / DEFINITIONS).write_text((ROOT / DEFINITIONS).read_text())
    return directory / DEFINITIONS
