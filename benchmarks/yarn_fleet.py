"""What our coordinator on YARN costs a large job: 500 containers on 50 nodes, deployed, and 10 nodes drained.

`python -m benchmarks.yarn_fleet` (three minutes). The coordinator is the command's own process, over a
real broker: its leadership, reducer, commits, HTTP gateway, and `cluster/yarn/hosts.py` with its thread and
its pool. Simulated are YARN, the agents' containers, and the JVM that speaks with YARN: each takes as
long as it took on a real cluster (`tests/rig/simulated_yarn`). The agents' link to the coordinator is real.

- `deploy`: from the coordinator's first word to YARN, with nothing on any node, until every active and
  every standby has checked in and the coordinator says so. Before that it starts, makes topics and
  becomes the leader, as it does on any cluster: `start_s`.
- `drain`: ten nodes are emptied by the plan and the loop of `drain_host`, `cold`, so many containers at a
  time, until nothing runs there.

Two shares of a scenario's time by the clock are the coordinator's own:

- `alone`: the time in which nothing simulated was pending: no allocation, no start, no stop of
  anything, nor the client's next request or its commit of a move that was held. So the coordinator, its broker and its
  timers were all that was waited for. The bound is on this one. `alone_or_client` in the JSON
  has the client's time in it.
- `work`: processor seconds of the coordinator's process, and the seconds for which its calls of
  py4j held the calling thread up, as part of the time. Most of it goes on while something simulated is
  pending too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import psutil
from rich.table import Table

from benchmarks.downtime_picture import console
from benchmarks.results_file import keep
from samza_dagster.client import JobView, PlacementClient
from samza_dagster.client.requests import Request
from samza_dagster.metadata.connection import Connection
from samza_dagster.orchestration.config import CatchUp
from samza_dagster.orchestration.operations.runner import Runner
from samza_dagster.orchestration.operations.schedule import Progress, RunEnd
from samza_dagster.orchestration.plans.conditions import Reported
from samza_dagster.orchestration.plans.drain import DrainRules, drain_units
from samza_dagster.orchestration.plans.move import UnitLimits
from samza_dagster.orchestration.plans.order import Schedule
from samza_dagster.orchestration.plans.units import Kind, Unit, UnitsPlan
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.sandbox.broker import Broker
from tests.rig.simulated_yarn.delays import Interval, gaps, union
from tests.rig.simulated_yarn.fleet import SimulatedFleet, Size, shared_hosts, simulated_fleet
from tests.rig.waiting import until

MOST_ALONE = 0.10
AT_ONCE = 16
_WITHIN_S = 900.0
_EVERY_S = 0.05
_GAPS = 5


class Meter:
    """Measures one scenario at a time, from its making to `read`."""

    def __init__(self, fleet: SimulatedFleet, coordinator: psutil.Process, began: float) -> None:
        self._fleet, self._coordinator, self._began = fleet, coordinator, began
        self._spent = self._spends()

    def _spends(self) -> tuple[float, float, float]:
        own = self._coordinator.cpu_times()
        cluster = psutil.Process(self._fleet.cluster.pid).cpu_times()
        return own.user + own.system, self._fleet.ask("spent"), cluster.user + cluster.system

    def read(self, client: _TimedClient | None = None) -> dict[str, Any]:
        """Return the seconds until now, and the two shares; the longest times alone, with their begin."""
        ended = time.monotonic()
        wall_s = ended - self._began
        cpu_s, py4j_s, cluster_s = (
            now - before for now, before in zip(self._spends(), self._spent, strict=True)
        )
        waits = [] if client is None else client.waits(self._began, ended)
        simulated = self._fleet.pending(self._began, ended)
        alone_or_client = gaps(simulated, self._began, ended)
        pending = [*simulated, *waits]
        alone = [(since, until - since) for since, until in gaps(pending, self._began, ended)]
        alone_s = sum(seconds for _, seconds in alone)
        longest = sorted(alone, key=lambda each: -each[1])[:_GAPS]
        return {
            "wall_s": round(wall_s, 2),
            "alone_s": round(alone_s, 2),
            "cpu_s": round(cpu_s, 2),
            "py4j_s": round(py4j_s, 2),
            "alone": round(alone_s / wall_s, 4),
            "work": round((cpu_s + py4j_s) / wall_s, 4),
            "alone_or_client": round(sum(u - s for s, u in alone_or_client) / wall_s, 4),
            "client_s": round(sum(u - s for s, u in union(waits, self._began, ended)), 2),
            "simulation_cpu_s": round(cluster_s, 2),
            "longest_alone": [
                [round(since - self._began, 2), round(seconds, 2)] for since, seconds in longest
            ],
        }


class _TimedClient(PlacementClient):
    """Remembers when the coordinator waited for this client."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._asked: list[Request] = []
        self._commits: list[Interval] = []

    def reserve(
        self,
        processor_id: str,
        destination: str,
        *,
        deployment_id: str | None = None,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
    ) -> Request:
        """See `PlacementClient`."""
        request = super().reserve(
            processor_id,
            destination,
            deployment_id=deployment_id,
            request_expiry_s=request_expiry_s,
            uuid=uuid,
        )
        self._asked.append(request)
        return request

    def commit(self, reservation: str, *, uuid: str | None = None) -> Request:
        """See `PlacementClient`."""
        held = self.response(reservation)
        request = super().commit(reservation, uuid=uuid)
        if held is not None:
            self._commits.append((_monotonic(held.timestamp), time.monotonic()))
        return request

    def waits(self, began: float, ended: float) -> list[Interval]:
        """Return when a move was held and not committed yet, or nothing was asked."""
        asked = [
            (_monotonic(request.timestamp), _monotonic(answer.timestamp))
            for request in self._asked
            if (answer := self.response(request.uuid)) is not None
        ]
        return [*self._commits, *gaps(asked, began, ended)]


def _monotonic(wall_ms: int) -> float:
    return wall_ms / 1000 - time.time() + time.monotonic()


class _Log:
    """Implements `Ledger`: nobody reads it."""

    def log(self, text: str, row: Progress | None = None) -> None: ...

    def finished(self, row: Progress, rows: object, done: int) -> None: ...

    def progress(self, text: str) -> None: ...

    def check_passed(self) -> bool | None: ...


def deploy(fleet: SimulatedFleet) -> tuple[psutil.Process, dict[str, Any]]:
    """Return the coordinator, once all containers have checked in, and what that took."""
    began = time.monotonic()
    coordinator = fleet.start_coordinator()

    def lives() -> bool:
        if coordinator.status() == psutil.STATUS_ZOMBIE:
            raise SystemExit(f"the coordinator has ended: {fleet.log.read_text()[-3000:]}")
        return True

    submitted = until(
        "the application", lambda: lives() and fleet.ask("submitted_at"), seconds=60, every=_EVERY_S
    )
    meter = Meter(fleet, coordinator, submitted)

    def all_checked_in() -> bool:
        lives()
        states = [state for each in fleet.running().values() for state in each.values()]
        return len(states) == fleet.size.containers and all(states)

    with PlacementClient(fleet.connection) as client:
        until("a state", lambda: client.view().processors, seconds=60, every=_EVERY_S)
        until("all containers checked in", all_checked_in, seconds=_WITHIN_S, every=_EVERY_S)
        until("deployed", lambda: client.view().deployed, seconds=60, every=_EVERY_S)
        return coordinator, {**meter.read(), "start_s": round(submitted - began, 2)}


def drain(
    fleet: SimulatedFleet, coordinator: psutil.Process, hosts: Sequence[str], at_once: int
) -> dict[str, Any]:
    """Empties the hosts; return what that took."""
    with _TimedClient(fleet.connection) as client:
        plan = drain_plan(client.view(), hosts, at_once)
        meter = Meter(fleet, coordinator, time.monotonic())
        result = Runner(client, plan, "benchmark", _Log(), {}).run()
        if result.end is not RunEnd.DONE:
            told = [f"{row.processor}: {row.why}" for row in result.rows if row.why]
            raise SystemExit(f"drain: {result.because}; {'; '.join(told)}")

        def is_empty() -> bool:
            running = fleet.running()
            return not any(running[host] for host in hosts)

        until("nothing on the drained hosts", is_empty, seconds=60, every=_EVERY_S)
        return {**meter.read(client), "moved": len(plan.units)}


def drain_plan(view: JobView, hosts: Sequence[str], at_once: int) -> UnitsPlan:
    """Return the plans of `drain_host` for each of the hosts, one made after the other, as one.

    The hosts take turns, as runs that go on beside each other do.
    The containers are simulated: they report no lag and commit nothing, so neither is waited for.
    """
    policies, now, by_host = PlacementPolicies(), view, list[list[Unit]]()
    catch_up = CatchUp(policies.lag_limit, steady_s=0.0, timeout_s=0.0)
    for host in hosts:
        rules = DrainRules(cold=True, drained={h: "this run" for h in hosts if h != host})
        found = drain_units(now, host, Reported.by(()), catch_up, rules)
        now = moved(now, found)
        by_host.append(found)
    return UnitsPlan(
        what="drain_host",
        subject=",".join(hosts),
        job=f"{view.job_name}/{view.job_id}",
        coordinator=view.coordinator,
        units=tuple(filter(None, chain.from_iterable(zip_longest(*by_host)))),
        schedule=Schedule(at_once=at_once),
        limits=UnitLimits(policies.request_expiry_s, policies.timeout_s, 0.0, catch_up),
        before=(),
    )


def moved(view: JobView, units: Sequence[Unit]) -> JobView:
    """Return the job as it is once these are done."""
    to = {
        step.processor: step.destination
        for unit in units
        for step in unit.steps
        if step.kind is Kind.PLACE
    }
    processors = {
        name: replace(each, host=to.get(name, each.host)) for name, each in view.processors.items()
    }
    needed = view.container_memory_mb or 0
    hosts = {
        name: replace(
            each, free_memory_mb=(each.free_memory_mb or 0) - needed * [*to.values()].count(name)
        )
        for name, each in view.hosts.items()
    }
    return replace(view, processors=processors, hosts=hosts)


def measure(
    bootstrap_servers: str, directory: Path, size: Size, *, drained: int, at_once: int = AT_ONCE
) -> dict[str, Any]:
    """Return scenario → what it took. Raises `SystemExit` where the job isn't as it has to be."""
    name = f"fleet-{os.getpid()}"
    with simulated_fleet(directory, bootstrap_servers, name, size) as fleet:
        until("the cluster listens", fleet.is_listening)
        coordinator, deployed = deploy(fleet)
        require_legal(fleet)
        hosts = sorted(fleet.running())[:drained]
        emptied = drain(fleet, coordinator, hosts, at_once)
        require_legal(fleet)
    return {"deploy": {**deployed, "started": size.containers}, "drain": emptied}


def require_legal(fleet: SimulatedFleet) -> None:
    """Raises `SystemExit` unless each container runs once, and no host has two of a group."""
    running = fleet.running()
    names = [processor for each in running.values() for processor in each]
    if len(names) != fleet.size.containers or len({*names}) != len(names):
        raise SystemExit(f"{len(names)} containers run, of them {len({*names})} once")
    if shared := shared_hosts(running):
        raise SystemExit(f"two of a group run on each of {', '.join(shared)}")


def too_slow(results: dict[str, dict[str, Any]]) -> list[str]:
    """Return a line for each scenario that misses the bound."""
    return [
        f"{name}: for {row['alone']:.1%} of the time only the coordinator was waited for, "
        f"{MOST_ALONE:.0%} are allowed"
        for name, row in results.items()
        if row["alone"] >= MOST_ALONE
    ]


def main() -> int:
    """A table on stderr, JSON on stdout; exit 1 when the bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actives", type=int, default=Size.actives, help="each has a standby")
    parser.add_argument("--nodes", type=int, default=Size.nodes)
    parser.add_argument("--drained", type=int, default=10, help="nodes")
    parser.add_argument(
        "--starts", type=int, default=Size.starts, help="at a time, of a deployment"
    )
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="containers, of a drain")
    parser.add_argument("--json", type=Path, help="write the result there as well")
    asked = parser.parse_args()
    size = Size(asked.actives, asked.nodes, asked.starts)
    with tempfile.TemporaryDirectory() as scratch:
        broker = Broker(Path(scratch) / "broker").start()
        try:
            results = measure(
                broker.bootstrap_servers,
                Path(scratch) / "job",
                size,
                drained=asked.drained,
                at_once=asked.at_once,
            )
        finally:
            broker.close()
    table = Table(
        title=f"{size.containers} containers on {size.nodes} nodes, the coordinator's own"
    )
    columns = ("wall_s", "alone_s", "alone", "cpu_s", "py4j_s", "work")
    for column in ("", *columns):
        table.add_column(column.replace("_s", " s"), justify="right" if column else "left")
    for name, row in results.items():
        shown = (f"{row[c]:.1%}" if c in ("alone", "work") else f"{row[c]:.1f}" for c in columns)
        table.add_row(name, *shown)
    console().print(table)
    document = json.dumps({"bound_alone": MOST_ALONE, "size": asdict(size), "scenarios": results})
    print(document)
    if asked.json:
        keep(document, asked.json)
    missed = too_slow(results)
    for line in missed:
        print(line, file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
