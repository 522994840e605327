"""Twenty faults of a job on a real YARN, each told by `auto_failover` in time, and nothing else."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.model import naming
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.chaos.am_faults import (
    ACTIVES,
    BLIND,
    FREEZE,
    HOSTS,
    KILL_AM,
    KILL_JOB,
    KILL_NODE,
    KNOWS_YARN,
    REPORTS_S,
    RING,
    STOP_APPLYING,
    WAVES,
    Fault,
    Told,
    is_told,
    next_move,
    problems,
)
from tests.rig.am_watching import Watcher
from tests.rig.pace import PACE
from tests.rig.waiting import until
from tests.rig.yarn_job import (
    application_master,
    kill_application,
    listed,
    master_host,
    places,
    yarn_sandbox,
)

pytestmark = [pytest.mark.yarn, pytest.mark.longyarn, pytest.mark.nightyarn]
YARNS_OWN = {"yarn.nm.liveness-monitor.expiry-interval-ms": "600000"}
"""A node that is silent is lost after ten minutes: until then nobody but its reports tells it."""
DEAD_THREAD = "Exception in reading sideInputs"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Four actives with a standby each, in a ring of hosts."""
    options = {"actives": ACTIVES, "hosts": ACTIVES, "state_mb": 1.0, "rate": 80.0 / PACE}
    root = tmp_path_factory.mktemp("sandboxes")
    with yarn_sandbox(root, **options, settings=YARNS_OWN) as box:
        yield box


def arrange(client: PlacementClient, sandbox: Sandbox) -> None:
    """Brings the containers into the ring, all groups at once."""
    groups = [p for p in RING if "-" not in p]
    while moves := [m for m in (next_move(places(sandbox), group) for group in groups) if m]:
        asked = [
            client.place(processor, host, allow_unknown_host=True, beyond_budget=True)
            for processor, host in moves
        ]
        for each in asked:
            assert client.wait(each.uuid, timeout_s=120 * PACE).status_code == "SUCCEEDED"
        until("they are there", lambda m=moves: dict(m).items() <= places(sandbox).items())
        until("all run", lambda: set(places(sandbox)) == set(RING))


def blocked(store: Path) -> bool:
    """A directory stands where the offset would be written; False: it was written just now."""
    offset = store / "OFFSET-v2"
    with contextlib.suppress(OSError):
        offset.unlink(missing_ok=True)
        (offset / "in the way").mkdir(parents=True)
    return offset.is_dir()


class Faults:
    """Does what a fault says, and mends it."""

    def __init__(self, sandbox: Sandbox, client: PlacementClient) -> None:
        self._sandbox, self._client = sandbox, client
        self.chosen: dict[Fault, str] = {}
        self.stood_s: dict[Fault, float] = {}

    def begin(self, fault: Fault) -> None:
        """What was done is seen to be so when it returns."""
        {
            FREEZE: self._freeze,
            STOP_APPLYING: self._stop_applying,
            KILL_NODE: self._kill_node,
            KILL_AM: self._kill_am,
            KILL_JOB: self._kill_job,
        }[fault.kind](fault)

    def mend(self, fault: Fault) -> None:
        """As a person would; what YARN mends itself is left to it."""
        if fault.kind == FREEZE:
            os.kill(self._process(fault.subject)["pid"], signal.SIGCONT)
        elif fault.kind == STOP_APPLYING:
            asked = self._client.place(fault.subject, "LAST_SEEN", beyond_budget=True)
            assert self._client.wait(asked.uuid, timeout_s=120 * PACE).status_code == "SUCCEEDED"

    def _process(self, processor: str) -> dict[str, Any]:
        return self._sandbox.yarn.processors()[processor]

    def _freeze(self, fault: Fault) -> None:
        os.kill(self._process(fault.subject)["pid"], signal.SIGSTOP)

    def _stop_applying(self, fault: Fault) -> None:
        """Its commit can't write the offset any more, which ends its thread and nothing else."""
        process = self._process(fault.subject)
        (host,) = (h for h in self._sandbox.hosts if h.name == process["host"])
        for task in self._client.view().processors[fault.subject].tasks:
            store = naming.store_directory(
                demo_job.JOB_NAME, demo_job.JOB_ID, demo_job.STORE, naming.active_task_of(task)
            )
            until(f"{store} is blocked", lambda s=store: blocked(host.state_directory / s))
        execution = str(process["execution_id"])
        log = self._sandbox.yarn.container_log
        until(f"{fault.subject} applies nothing more", lambda: DEAD_THREAD in log(host, execution))

    def _kill_node(self, fault: Fault) -> None:
        """One without the AM, with more than one container: the silence of one tells no host."""
        here = list(places(self._sandbox).values())
        host = max((h for h in HOSTS if h != master_host(self._sandbox)), key=here.count)
        self.chosen[fault] = host
        self._sandbox.yarn.lose(host)

    def _kill_am(self, fault: Fault) -> None:
        master = application_master(self._sandbox)
        assert master is not None
        os.kill(master, signal.SIGKILL)

    def _kill_job(self, fault: Fault) -> None:
        began = time.monotonic()
        kill_application(self._sandbox)
        application = f"apps/{self._sandbox.status()['application']}"

        def is_killed() -> bool:
            return listed(self._sandbox, application)["app"]["state"] == "KILLED"

        until("YARN has killed it", is_killed, seconds=60)
        self.stood_s[fault] = time.monotonic() - began


def test_each_fault_is_told_in_time_and_nothing_else(sandbox: Sandbox) -> None:
    """By a sensor that knows nothing but the topics, and by one that asks YARN's ResourceManager."""
    facts = sandbox.status()
    servers, yarn = str(facts["bootstrap_servers"]), str(facts["resource_manager"])
    connection = demo_job.connection(servers)
    found: list[str] = []
    with ExitStack() as stack:
        client = stack.enter_context(closing(PlacementClient(connection)))
        arrange(client, sandbox)
        until("every replica has reported", all_reported(client), seconds=120)
        watchers = [
            stack.enter_context(closing(Watcher(BLIND, connection))),
            stack.enter_context(closing(Watcher(KNOWS_YARN, connection, yarn=yarn))),
        ]
        faults = Faults(sandbox, client)

        def told(since: float) -> list[Told]:
            return [one for watcher in watchers for one in watcher.told(since)]

        def is_well() -> bool:
            """All run and report, and both sensors have said so; a lost node's stay away."""
            return bool(faults.chosen) or (
                set(places(sandbox)) == set(RING)
                and all_reported(client)()
                and not any(watcher.open for watcher in watchers)
            )

        for number, wave in enumerate(WAVES, 1):
            print(f"wave {number}: {', '.join(f'{f.kind} {f.subject}' for f in wave)}", flush=True)
            began = time.monotonic()
            for fault in wave:
                faults.begin(fault)
            with contextlib.suppress(AssertionError):  # what is missing then is told below
                until(
                    "all is told",
                    lambda w=wave, b=began: is_told(w, told(b), faults.chosen),
                    seconds=REPORTS_S / PACE,
                )
            for fault in wave:
                faults.mend(fault)
            until(f"all is well after wave {number}", is_well, seconds=180)
            found += problems(wave, told(began), faults.chosen, faults.stood_s)
    assert found == [], "\n".join(found)
    assert [error for watcher in watchers for error in watcher.errors] == []


def all_reported(client: PlacementClient) -> Callable[[], bool]:
    """Each replica's newest report, of the process that runs, is there."""
    return lambda: all(lag.lag is not None for lag in client.lag())
