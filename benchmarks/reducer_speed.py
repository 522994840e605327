"""Events per second of the reducer, and what an event costs as a job grows.

`python -m benchmarks.reducer_speed` (part of `make bench`). Pure computation: the state
is in memory, nothing is written; the time is the process's CPU time, and its garbage
collector is set up as a coordinator's. The mix is that of a busy job: moves from request
to check-in, deaths and restarts, failovers onto standbys, lost hosts that come back,
duplicates of everything, lag samples, time. The peer, measured in the same run, is one
`dataclasses.replace` of a frozen record of eight fields: what the least change of a
state would cost in this Python on this machine. Each load is run several times, always
the same events, and the best run counts, as `timeit` has it: whatever else the machine
does can only slow one down. The slowest is told beside it.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.downtime_picture import console
from benchmarks.results_file import keep
from samza_dagster.coordinator.garbage import spare_what_lasts
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import next_deadline_ms, step
from samza_dagster.placement.state import JobState, Lag, Limits, Phase, PlacementAsk

SIZES = (10, 100, 1_000, 10_000)
JOB = 1_000
LEAST_EVENTS_A_SECOND, STEEPEST = 10_000, 2.0
"""For a job of that size; and the cost of an event in the largest, in times the smallest's."""
RUN = "run-1"
GROUP_OF_TWO = 2


@dataclass(frozen=True)
class Record:
    """The peer's record."""

    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    e: str = ""
    f: str = ""
    g: tuple[int, ...] = ()
    h: int | None = None


class Answering:
    """A cluster that answers each command at once; the events that it causes are the load.

    Only `step` is timed: what this costs itself is left out.
    """

    def __init__(self, containers: int, seed: int = 1) -> None:
        self.lots = random.Random(seed)
        self.state = JobState("bench")
        self.now_ms = 1_000
        self.hosts = [f"host-{number}" for number in range(1, max(4, containers // 4) + 1)]
        self.pending: list[ev.Event] = []
        self.running: dict[str, tuple[str, str]] = {}
        self.started: dict[str, str] = {}
        self.place = 0
        self.asked = 0
        self.seconds = 0.0
        self.costs: dict[str, list[float]] = {}
        groups = {
            str(number): (str(number), f"{number}-0")
            for number in range(containers // GROUP_OF_TWO)
        }
        for host in self.hosts:
            self.take(ev.HostRegistered(self.now_ms, host, frozenset()))
        limits = Limits(
            max_concurrent_starts=64, max_concurrent_actions=64, remembered_uuids=20_000
        )
        self.take(ev.JobDeployed(self.now_ms, RUN, groups, {}, limits))
        self.settle()

    def take(self, event: ev.Event) -> None:
        """One timed step; its commands are answered later."""
        began = time.process_time()
        taken = step(self.state, event)
        spent = time.process_time() - began
        self.seconds += spent
        self.costs.setdefault(type(event).__name__, []).append(spent)
        self.state = taken.state
        for command in taken.commands:
            self._answer(command)

    def _answer(self, command: cmd.Command) -> None:
        now = self.now_ms
        match command:
            case cmd.RequestResource(request_id=request_id):
                host = command.host or self._free_host(command.excluded_hosts)
                self.pending.append(ev.ResourceAllocated(now, request_id, host))
            case cmd.StartContainer(processor_id=pid, execution_id=execution_id, host=host):
                self.pending.append(ev.ContainerLaunched(now, execution_id, host))
                self.pending.append(ev.ContainerCheckedIn(now, execution_id, host))
                self.running[pid] = (execution_id, host)
                self.started[execution_id] = pid
            case cmd.StopContainer(execution_id=execution_id, host=host):
                self.pending.append(ev.ContainerStopped(now, execution_id, host, 143))
                pid = self.started[execution_id]
                if self.running.get(pid, ("", ""))[0] == execution_id:
                    del self.running[pid]
            case _:
                pass

    def _free_host(self, excluded: tuple[str, ...]) -> str:
        while True:
            self.place += 1
            host = self.hosts[self.place % len(self.hosts)]
            if host not in excluded:
                return host

    def settle(self, limit: int = 10_000_000) -> None:
        """Takes what is pending; every tenth report comes twice."""
        for _ in range(limit):
            if not self.pending:
                return
            event = self.pending.pop(0) if len(self.pending) < 64 else self.pending.pop()
            self.take(event)
            if self.lots.random() < 0.1:
                self.take(event)

    def busy(self, until: int) -> int:
        """About so many events of the mix; returns how many it was."""
        begin = sum(map(len, self.costs.values()))
        count = begin
        actions = list(self._mix())
        while count - begin < until:
            self.now_ms += self.lots.randrange(1, 50)
            self.lots.choice(actions)()
            self.settle(40)
            count = sum(map(len, self.costs.values()))
        return count - begin

    def _mix(self) -> Iterator[Callable[[], None]]:
        """What happens, as often as it is listed."""
        yield from [self._move] * 8
        yield from [self._die] * 4
        yield from [self._fail_over] * 3
        yield from [self._time] * 4
        yield from [self._lag] * 2
        yield from [self._again] * 2
        yield self._lose_a_host

    def _ask(self, pid: str, destination: str) -> None:
        self.asked += 1
        ask = PlacementAsk(f"u-{self.asked}", RUN, pid, destination, self.asked)
        self.last = ask
        self.take(ev.RequestArrived(self.now_ms, ask))

    def _some(self) -> tuple[str, str, str] | None:
        group_id = str(self.lots.randrange(len(self.state.groups)))
        pid = self.lots.choice((group_id, f"{group_id}-0"))
        found = self.running.get(pid)
        return None if found is None else (pid, *found)

    def _move(self) -> None:
        found = self._some()
        if found is not None:
            self._ask(found[0], self.lots.choice(("ANY_HOST", "LAST_SEEN")))

    def _die(self) -> None:
        found = self._some()
        if found is not None:
            del self.running[found[0]]
            self.take(ev.ContainerStopped(self.now_ms, found[1], found[2], 137))

    def _fail_over(self) -> None:
        self._ask(str(self.lots.randrange(len(self.state.groups))), "STANDBY")

    def _time(self) -> None:
        due = next_deadline_ms(self.state)
        if due is not None and due < self.now_ms + 5_000:
            self.now_ms = max(self.now_ms, due)
        self.take(ev.TimePassed(self.now_ms))

    def _lag(self) -> None:
        group_id = self.lots.randrange(len(self.state.groups))
        lag = Lag(f"{group_id}-0", self.lots.randrange(1_000), 500, self.now_ms)
        self.take(ev.LagObserved(self.now_ms, (lag,)))

    def _again(self) -> None:
        if self.asked:
            self.take(ev.RequestArrived(self.now_ms, self.last))

    def _lose_a_host(self) -> None:
        host = self.lots.choice(self.hosts)
        ids = frozenset(eid for eid, on in self.running.values() if on == host)
        self.take(ev.HostLost(self.now_ms, host, self.now_ms))
        self.now_ms += 1_000
        self.take(ev.HostRegistered(self.now_ms, host, ids))
        for execution_id in sorted(ids):
            self.pending.append(ev.ContainerCheckedIn(self.now_ms, execution_id, host))

    def phases(self) -> Counter[str]:
        """How many processors are in which phase."""
        return Counter(
            processor.phase.value
            for group in self.state.groups.values()
            for processor in group.processors.values()
        )


def peer_s(rounds: int = 50_000) -> float:
    """Seconds of one `replace` of the peer's record: the best of five loops."""
    record = Record()

    def loop() -> float:
        nonlocal record
        began = time.process_time()
        for number in range(rounds):
            record = replace(record, a=number, h=number)
        return (time.process_time() - began) / rounds

    return min(loop() for _ in range(5))


def measure(events: int, rounds: int) -> list[dict[str, Any]]:
    """For each size the best of several runs of the mix, and the slowest's speed."""
    # Size after size in each round: a slow minute of the machine meets all of them.
    runs = [[one_run(size, events) for size in SIZES] for _ in range(rounds)]
    return [
        {
            **max(of_size, key=lambda run: run["events_per_second"]),
            "slowest_run": min(run["events_per_second"] for run in of_size),
        }
        for of_size in zip(*runs, strict=True)
    ]


def one_run(containers: int, events: int) -> dict[str, Any]:
    """Costs of the mix; the deployment before it is not counted."""
    load = Answering(containers)
    running = load.phases()[Phase.RUNNING.value]
    spare_what_lasts()
    load.seconds, load.costs = 0.0, {}
    count = load.busy(events)
    everything = sorted(cost for costs in load.costs.values() for cost in costs)
    return {
        "containers": containers,
        "hosts": len(load.hosts),
        "running_before": running,
        "running_after": load.phases()[Phase.RUNNING.value],
        "events": count,
        "events_per_second": round(count / load.seconds),
        "mean_us": round(1e6 * load.seconds / count, 2),
        "median_us": round(1e6 * statistics.median(everything), 2),
        "p99_us": round(1e6 * everything[int(0.99 * len(everything))], 2),
        "by_event": {
            name: {"events": len(costs), "mean_us": round(1e6 * statistics.fmean(costs), 2)}
            for name, costs in sorted(load.costs.items())
        },
    }


def main() -> int:
    """Prints a table, and JSON on request."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=20_000, help="events per size")
    parser.add_argument("--rounds", type=int, default=5, help="runs per size; the best counts")
    parser.add_argument("--json", type=Path, help="write the results there as well")
    options = parser.parse_args()
    out = console(stderr=False)
    peer_before = peer_s()
    sizes = measure(options.events, options.rounds)
    peer = min(peer_before, peer_s())
    smallest = sizes[0]["mean_us"]
    table = Table(
        "containers",
        "hosts",
        "events",
        "events/s",
        "slowest run",
        "mean µs",
        "median µs",
        "p99 µs",
        "× smallest",
        "replaces",
        title="One step of the reducer",
    )
    for row in sizes:
        row["ratio_to_smallest"] = round(row["mean_us"] / smallest, 2)
        row["ratio_to_peer"] = round(row["mean_us"] / (1e6 * peer), 1)
        table.add_row(
            f"{row['containers']:,}",
            f"{row['hosts']:,}",
            f"{row['events']:,}",
            f"{row['events_per_second']:,}",
            f"{row['slowest_run']:,}",
            f"{row['mean_us']:.1f}",
            f"{row['median_us']:.1f}",
            f"{row['p99_us']:.1f}",
            f"{row['ratio_to_smallest']:.2f}",
            f"{row['ratio_to_peer']:.0f}",
        )
    out.print(table)
    out.print(f"peer: one dataclasses.replace of eight fields takes {1e6 * peer:.2f} µs here")
    if options.json:
        results = {
            "version": 1,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "peer": {"what": "dataclasses.replace, 8 fields", "us": round(1e6 * peer, 3)},
            "job": next(row for row in sizes if row["containers"] == JOB),
            "sizes": sizes,
        }
        keep(json.dumps(results, indent=1), options.json)
    missed = too_slow(sizes)
    for what in missed:
        out.print(what, markup=False)
    return 1 if missed else 0


def too_slow(sizes: list[dict[str, Any]]) -> list[str]:
    """Which bounds are missed: 10,000 events a second for a job of `JOB`, flat within a factor of 2."""
    (job,) = (row for row in sizes if row["containers"] == JOB)
    found = []
    if job["events_per_second"] < LEAST_EVENTS_A_SECOND:
        found.append(f"{job['events_per_second']:,} events a second, not {LEAST_EVENTS_A_SECOND:,}")
    steepest = max(row["ratio_to_smallest"] for row in sizes)
    if steepest > STEEPEST:
        found.append(f"{steepest} times the smallest job's cost, more than {STEEPEST}")
    return found


if __name__ == "__main__":
    sys.exit(main())
