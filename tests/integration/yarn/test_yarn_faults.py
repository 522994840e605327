"""Twenty faults of a job on a real YARN, each told by `auto_failover` in time, and nothing else.

Those of a container come in two waves of six: of the groups 0 and 2 active and standby, of 1 and 3
the standby's restore thread, and then the other way round. In a ring of hosts each has a container
that goes on then, so that none of them looks sick.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.metadata.connection import Connection
from samza_dagster.model import naming
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.watch.auto_failover import auto_failover_sensor
from samza_dagster.orchestration.watch.settings import AutoFailover
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.lifecycle import Sandbox
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

ACTIVES = 4
HOSTS = tuple(f"host-{number}" for number in range(1, ACTIVES + 1))
RING = {
    processor: HOSTS[(number + further) % ACTIVES]
    for number in range(ACTIVES)
    for further, processor in ((0, str(number)), (1, f"{number}-0"))
}
"""Where each container is to be: an active on a host of its own, its standby on the next."""
FREEZE, STOP_APPLYING, KILL_NODE, KILL_AM, KILL_JOB = "freeze", "stop applying", "kill node", "kill AM", "kill job"  # fmt: skip
REPORTS_S = 180.0
"""Three of Samza's report intervals: by then each fault is told."""
AT_ONCE_S = 15.0
"""Where YARN says it."""
BLIND, KNOWS_YARN = "without YARN's word", "with it"
WATCHERS = (BLIND, KNOWS_YARN)


@dataclass(frozen=True)
class Told:
    """What a watcher has told of whom, and how long after the fault."""

    watcher: str
    signal: str
    subject: str
    after_s: float


@dataclass(frozen=True)
class Fault:
    """One thing that is done. `subject` is a processor, or empty where the test chooses."""

    kind: str
    subject: str = ""

    def signals(self, chosen: str = "") -> frozenset[tuple[str, str]]:
        """Any of these tells it; `chosen` is what the test chose."""
        replaced, gone = ("coordinator-replaced", "job"), ("coordinator-gone", "coordinator")
        return {
            FREEZE: frozenset({("silent", self.subject)}),
            STOP_APPLYING: frozenset({("standby-stalled", self.subject)}),
            KILL_NODE: frozenset({("host-sick", chosen)}),
            KILL_AM: frozenset({replaced, gone}),
            KILL_JOB: frozenset({("job-dead", "job")}),
        }[self.kind]

    def deadline_s(self, watcher: str) -> float:
        """By when it is told."""
        at_once = self.kind == KILL_JOB and watcher == KNOWS_YARN
        return AT_ONCE_S if at_once else REPORTS_S


def _containers(frozen: Sequence[int], stopped: Sequence[int]) -> tuple[Fault, ...]:
    return (
        *(Fault(FREEZE, processor) for n in frozen for processor in (str(n), f"{n}-0")),
        *(Fault(STOP_APPLYING, f"{n}-0") for n in stopped),
    )


WAVES: tuple[tuple[Fault, ...], ...] = (
    _containers((0, 2), (1, 3)),
    _containers((1, 3), (0, 2)),
    (Fault(KILL_AM),),
    (Fault(KILL_AM),),
    (Fault(KILL_NODE),),
    (Fault(KILL_JOB),),
)


def next_move(at: Mapping[str, str], group: str) -> tuple[str, str] | None:
    """The next step of a group into the ring; where two stand in each other's way, one steps aside."""
    pair = (group, f"{group}-0")
    left = [p for p in pair if at[p] != RING[p]]
    if not left:
        return None
    for processor, other in (pair, pair[::-1]):
        if processor in left and at[other] != RING[processor]:
            return processor, RING[processor]
    return left[0], next(host for host in HOSTS if host not in (at[pair[0]], at[pair[1]]))


def problems(
    faults: Sequence[Fault],
    told: Collection[Told],
    chosen: Mapping[Fault, str],
    stood_s: Mapping[Fault, float],
) -> list[str]:
    """Faults of a wave that weren't told, or too late, and what was told of nothing. Each watcher has
    to tell all of them, in the time since an outsider saw that the fault `stood_s` (by default at once).
    """
    found: list[str] = []
    for watcher in WATCHERS:
        mine = [one for one in told if one.watcher == watcher]
        meant: set[tuple[str, str]] = set()
        for fault in faults:
            signals = fault.signals(chosen.get(fault, ""))
            meant |= signals
            times = [one.after_s for one in mine if (one.signal, one.subject) in signals]
            name = f"{fault.kind} {fault.subject or chosen.get(fault, '')}, {watcher}"
            if not times:
                found.append(f"{name}: not told")
            elif min(times) > fault.deadline_s(watcher) + stood_s.get(fault, 0.0):
                found.append(f"{name}: told after {min(times):.0f} s")
        found += [
            f"told {watcher} of nothing: {one.signal} {one.subject}"
            for one in mine
            if (one.signal, one.subject) not in meant
        ]
    return found


def is_told(faults: Sequence[Fault], told: Collection[Told], chosen: Mapping[Fault, str]) -> bool:
    """Whether nobody has to be waited for any more."""
    there = {(one.watcher, one.signal, one.subject) for one in told}
    return all(
        any((watcher, *signal) in there for signal in fault.signals(chosen.get(fault, "")))
        for fault in faults
        for watcher in WATCHERS
    )


EVERY_S = 5.0


class Watcher:
    """In its first mode under an AM, which records what it would do. Close it in the end."""

    def __init__(self, name: str, connection: Connection, *, yarn: str = "") -> None:
        self.name = name
        self.errors: list[str] = []
        self.open: set[str] = set()
        """What was told and isn't over yet."""
        self._began = time.monotonic()
        self._told: list[tuple[float, str, str]] = []
        self._samza = SamzaClientResource(
            bootstrap_servers=connection.bootstrap_servers,
            job_name=connection.job_name,
            job_id=connection.job_id,
            yarn_resource_manager=yarn,
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends after the tick that it is at."""
        self._over.set()
        self._thread.join()

    def told(self, since: float) -> list[Told]:
        """What was told since then, by the monotonic clock in seconds."""
        return [
            Told(self.name, signal, subject, at - since)
            for at, signal, subject in list(self._told)
            if at >= since
        ]

    def _watch(self) -> None:
        sensor = auto_failover_sensor(AutoFailover())
        cursor: str | None = None
        with dg.DagsterInstance.ephemeral() as instance:
            while not self._over.is_set():
                due = time.monotonic() + EVERY_S
                try:
                    cursor = self._tick(sensor, instance, cursor)
                except Exception as error:
                    self.errors.append(f"{type(error).__name__}: {error}")
                self._over.wait(max(0.0, due - time.monotonic()))

    def _tick(
        self, sensor: dg.SensorDefinition, instance: dg.DagsterInstance, cursor: str | None
    ) -> str | None:
        with dg.build_sensor_context(
            instance=instance, cursor=cursor, resources={"samza": self._samza}
        ) as context:
            result = sensor(context)
        if not isinstance(result, dg.SensorResult):
            return cursor
        for event in result.asset_events or []:
            assert isinstance(event, dg.AssetObservation)
            instance.report_runless_asset_event(event)
            signal, subject = (str(event.metadata[key].value) for key in ("signal", "subject"))
            is_new = "verdict" in event.metadata
            at = f"{time.monotonic() - self._began:5.0f} s"
            print(
                f"  {at} {self.name}: {signal} {subject}{'' if is_new else ' is over'}", flush=True
            )
            if is_new:
                self.open.add(f"{signal} {subject}")
                self._told.append((time.monotonic(), signal, subject))
            else:
                self.open.discard(f"{signal} {subject}")
        return result.cursor or cursor


# Twenty faults of a job on a real YARN, each told by `auto_failover` in time, and nothing else.

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
