"""`make demo`: the main job, end to end, on real parts.

Sandbox up, standbys caught up, Dagster up. Dagster moves active container 0 onto the host of its
standby. An independent judge checks that nothing was lost and how long the outputs were silent.
Spark writes where everything is now.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.errors import ActionFailed, MissingPrerequisite
from samza_dagster.interrupts import interrupts_deferred
from samza_dagster.sandbox import demo_job, lifecycle
from samza_dagster.sandbox.dagster_stack import DagsterStack
from samza_dagster.sandbox.demo.findings import MoveFindings
from samza_dagster.sandbox.demo.move import PROCESSOR, DemoMove
from samza_dagster.sandbox.hosts import host_names
from samza_dagster.sandbox.java_check import require_prerequisites
from samza_dagster.sandbox.judge import Judge, OutputVerdict
from samza_dagster.sandbox.progress import Phases

ROOT = Path(__file__).resolve().parents[3]
LOCATION = "samza_dagster"
"""The name in `workspace.yaml`."""


def checkout_definitions(root: Path = ROOT) -> Path:
    """Return a checkout's definitions, which Dagster loads; raise `MissingPrerequisite`."""
    # An installed package has none beside it.
    file = root / "definitions.py"
    if not file.is_file():
        raise MissingPrerequisite(
            "the demo's Dagster definitions, which are in a checkout of samza_dagster",
            seen=f"no {file.name} beside the installed package, in {root}",
            fix="make demo in a checkout; of an installed package: samza-dagster sandbox up",
        )
    return file


class Demo:
    """A run of the demo on a sandbox of these options; `tell` shows a line to a person."""

    def __init__(self, options: lifecycle.Options, tell: Callable[[str], None]) -> None:
        self._options = options
        self._tell = tell
        self._sandbox = lifecycle.Sandbox(options.name)
        self._phases = Phases(tell)
        self._stack: DagsterStack | None = None
        self._stack_failure: BaseException | None = None
        self._starter = threading.Thread(target=self._start_dagster, daemon=True)
        self._is_up = threading.Event()
        self._servers = ""
        self.findings = MoveFindings()
        self.links: dict[str, str] = {}

    @property
    def seconds(self) -> dict[str, float]:
        """Return the seconds of each phase that has ended."""
        return self._phases.seconds

    def run(self) -> None:
        """Run the demo from nothing to the verdict; its processes keep running afterwards.

        Raises `MissingPrerequisite`, before anything starts, without a checkout, Linux or the
        extra.
        """
        require_prerequisites()
        definitions, options = checkout_definitions(), self._options

        def broker_is_up(servers: str) -> None:
            self._servers = servers
            self._stack = DagsterStack(
                self._sandbox.dagster_home,
                definitions,
                location=LOCATION,
                env={
                    **demo_job.environment(servers),
                    "SAMZA_DAGSTER_HOSTS": " ".join(host_names(options.hosts)),
                    # Samza's own Application Master fails over by itself; ours needs the sensor.
                    "SAMZA_DAGSTER_AUTO_FAILOVER": "shadow" if options.is_under_samza else "act",
                },
            )
            with interrupts_deferred():
                self._starter.start()

        self._sandbox.up(options, self._phases, on_broker=broker_is_up)
        self._is_up.set()
        with contextlib.closing(Judge(self._servers)) as judge:
            with self._phases.phase("outsider reads inputs and outputs"):
                judge.judge(deadline_s=300)
            with self._phases.phase("Dagster"):
                self._starter.join()
                if self._stack_failure is not None:
                    raise self._stack_failure
            assert self._stack is not None
            self._sandbox.registry.update(dagster_url=self._stack.url)
            move = DemoMove(
                demo_job.connection(self._servers), self._sandbox, self.findings, self._tell
            )
            self.links["move_with_standby"] = move.run(self._stack.runs, self._phases)
            with self._phases.phase("verdict"):
                self._judge(judge, move)
        self._materialize(self._stack)

    def close(self) -> None:
        """Stop everything that the demo started, and confirm it."""
        if self._stack is not None:
            self._stack.stop(timeout_s=10)  # a run in progress is killed
            self._is_up.set()
        if self._starter.ident is not None:
            self._starter.join()  # a start in progress ends, with its last processes
        self._sandbox.close()

    def _start_dagster(self) -> None:
        """Start Dagster beside the containers: it needs the broker's address alone."""
        # Sensors tick once the state is in, because they took a third of two slow cores before.
        assert self._stack is not None
        try:
            self._stack.start(timeout_s=600, before_daemon=self._is_up.wait)
        except Exception as error:  # the main thread raises it
            self._stack_failure = error

    def _judge(self, judge: Judge, move: DemoMove) -> None:
        now_ms = time.time_ns() // 1_000_000
        verdict: OutputVerdict = judge.judge(
            deadline_s=180,
            partitions=move.partitions,
            window_ms=(move.began_ms - 5_000, now_ms),
        )
        findings = self.findings
        findings.missing, findings.unexplained = verdict.missing, verdict.unexplained
        if verdict.gaps:
            longest = max(verdict.gaps, key=lambda gap: gap.gap_ms)
            findings.downtime_s = longest.gap_ms / 1000
            self._tell(
                f"downtime of container {PROCESSOR}: {findings.downtime_s:.1f} s "
                f"(longest silence of its outputs; usual {longest.usual_ms} ms)"
            )
        self._tell(
            f"{verdict.completed:,} (key, epoch) completed by the inputs, {verdict.missing} missing "
            f"in the outputs, {verdict.duplicates} twice"
        )
        with PlacementClient(demo_job.connection(self._servers)) as client:
            findings.lag = [replica.to_json() for replica in client.lag()]
        result = move.restored()
        if result is not None:
            findings.restored = result.restored
            findings.produced_in_gap = result.produced_in_gap
            self._tell(
                f"restored {result.restored:,} of {result.changelog:,} records of the changelog; "
                f"{result.produced_in_gap:,} came since the standby left the store"
            )

    def _materialize(self, stack: DagsterStack) -> None:
        with self._phases.phase("snapshot"):
            run_id = stack.runs.launch("snapshot_assets")
            self.links["snapshot_assets"] = stack.runs.run_url(run_id)
            status = stack.runs.wait(run_id, timeout_s=900)
        for asset in ("container_locality", "changelog_lag", "host_loss"):
            self.links[asset] = stack.asset_url(asset)
        self.findings.assets = status == "SUCCESS"
        if status != "SUCCESS":
            raise ActionFailed(
                "snapshot_assets in Dagster",
                seen=f"run {run_id} ended {status}",
                fix=self.links["snapshot_assets"],
            )
        stack.runs.switch_on("snapshots")  # not before, because the move needs the processors
