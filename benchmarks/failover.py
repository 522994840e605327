"""Downtime of an active, by how it comes back and by how much state it has.

`python -m benchmarks.failover --json FILE` (an hour and a half with the defaults; `--within` ends
it earlier, and the same command goes on from what FILE has). Real Samza containers under a steady load; downtime is the
longest silence of the moved tasks' outputs, by the broker's timestamps. For each size of
the state, side by side in one sandbox, in turns (a few of each, then the next size):

- `planned move`: onto its standby's host (destination STANDBY);
- `failover`: it is killed, and there is no room for it but in its standby's place;
- `same host`: it is killed, and starts where it was;
- `cold host`: placed on a host whose copy of the state was wiped: the peer, what a
  restore from the changelog costs.

Consumers of the job have a quota, above what they read at rest: on a loopback with a fast
disk a restore of this size would cost nothing, in a cluster the network is shared.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import LinearRegression, linear_regression, median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.response_latency import percentile
from samza_dagster.model import StatusCode
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.artifacts import jar_paths
from samza_dagster.sandbox.java_check import find_java
from samza_dagster.sandbox.judge import Judge
from tests.rig.demo_sandbox import demo_sandbox
from tests.rig.job import kill
from tests.rig.kill_points import KilledJob, Processors
from tests.rig.kill_scenarios import FAILOVER, free_host
from tests.rig.replacement import partitions_of, replaced
from tests.rig.sandbox_job import SandboxJob
from tests.rig.waiting import until

PLANNED_P50_MS, PLANNED_P95_MS, CRASH_MORE_MS = 4_000, 6_000, 1_000
PATIENCE_S = 240.0
RECORD_BYTES = 1_100  # of an input, and of what it changes in the changelog
console = Console(stderr=True)


class Moves:
    """One sandbox, its active `0` taken down and back over and over."""

    def __init__(self, job: SandboxJob) -> None:
        self.job = job
        self.rest = KilledJob(job, patience_s=PATIENCE_S)
        self.partitions = partitions_of("0", job.actives)
        self.judge = Judge(job.connection.bootstrap_servers)
        self.kinds: dict[str, Callable[[Processors], set[str]]] = {
            "planned move": self._planned,
            "failover": self._failover,
            "same host": self._same_host,
            "cold host": self._cold,
        }

    def downtime_ms(self, kind: str) -> int:
        """Once; all is at rest before and after, and nothing is missing."""
        before = self.rest.settle()
        self._caught_up()
        since_ms = int(time.time() * 1000)
        names = self.kinds[kind](before)
        replaced(self.job, before, names, PATIENCE_S)
        if kind == "failover":
            FAILOVER.restore(self.job, before)
        self.rest.settle()
        self._caught_up()
        window = (since_ms, int(time.time() * 1000))
        verdict = self.judge.judge(deadline_s=PATIENCE_S, window_ms=window)
        if not verdict.is_good:
            raise SystemExit(f"{kind}: {verdict}")
        return max(gap.gap_ms for gap in verdict.gaps if gap.partition in self.partitions)

    def _caught_up(self) -> None:
        until(
            "nothing is missing",
            lambda: self.judge.judge(deadline_s=PATIENCE_S).missing == 0,
            seconds=PATIENCE_S,
        )

    def _place(self, destination: str) -> None:
        with self.job.client() as client:
            uuid = client.place("0", destination, request_expiry_s=60).uuid
            answer = client.wait(uuid, timeout_s=PATIENCE_S)
        if answer.status_code is not StatusCode.SUCCEEDED:
            raise SystemExit(f"placing 0 on {destination}: {answer}")

    def _planned(self, _: Processors) -> set[str]:
        self._place("STANDBY")
        return {"0", "0-0"}

    def _failover(self, before: Processors) -> set[str]:
        FAILOVER.happens(self.job, before)
        return {"0", "0-0"}

    def _same_host(self, before: Processors) -> set[str]:
        kill(before["0"]["pid"])
        return {"0"}

    def _cold(self, before: Processors) -> set[str]:
        host = free_host(self.job, before)
        state = self.job.simulated(host).state_directory
        for number in self.partitions:
            for store in state.glob(f"**/{demo_job.STORE}/Partition_{number}"):
                shutil.rmtree(store)
        self._place(host)
        return {"0"}


def limit_consumers(servers: str, bytes_a_second: int) -> None:
    """Kafka's own tool, since no Python client sets quotas of client ids."""
    command = [
        str(find_java().program), "-Xmx128m", "-cp", ":".join(map(str, jar_paths("kafka"))),
        "kafka.admin.ConfigCommand", "--bootstrap-server", servers, "--alter",
        "--add-config", f"consumer_byte_rate={bytes_a_second}",
        "--entity-type", "clients", "--entity-name",
        # As `KafkaConsumerConfig.createClientId` of Samza makes it.
        f"kafka_consumer-{demo_job.JOB_NAME.replace('-', '_')}-{demo_job.JOB_ID}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"no quota: {done.stdout}{done.stderr}")


def measure(
    state_mb: float, rate: float, quota: int, actives: int
) -> Generator[dict[str, int], None, None]:
    """Downtimes in ms, one of each kind a turn, for as long as asked. `rate` is of one partition."""
    partitions = actives * demo_job.TASKS_PER_CONTAINER
    settings = {"cluster-manager.container.retry.count": "-1"}
    with (
        tempfile.TemporaryDirectory() as root,
        demo_sandbox(
            Path(root), settings, state_mb=state_mb, rate=rate * partitions, actives=actives
        ) as sandbox,
    ):
        # What the actives read and their standbys, and what is left for a restore.
        steady = round(2 * rate * partitions * RECORD_BYTES)
        limit_consumers(str(sandbox.status()["bootstrap_servers"]), steady + quota)
        job = SandboxJob(sandbox, actives=actives)
        measured = Moves(job)
        try:
            while True:
                turn: dict[str, int] = {}
                for kind in measured.kinds:
                    turn[kind] = measured.downtime_ms(kind)
                    console.print(f"{state_mb:g} MB, {kind}: {turn[kind]} ms")
                yield turn
        finally:
            measured.judge.close()
            job.close()


def all_sizes(
    results: dict[float, dict[str, list[int]]],
    turns_of: Callable[[float], Generator[dict[str, int], None, None]],
    moves: int,
    in_a_row: int,
    keep: Callable[[], None],
    ends_at: float,
) -> None:
    """Adds to `results` until each size has `moves` of each kind.

    The size with the fewest turns gets the next `in_a_row`, in one sandbox. `ends_at`, by the monotonic clock: no turn begins after it. `keep` is called after each.
    """

    def done(size: float) -> int:
        return min((len(values) for values in results[size].values()), default=0)

    while time.monotonic() < ends_at:
        size = min(results, key=lambda each: (done(each), each))
        if done(size) >= moves:
            return
        upto = min(moves, done(size) + in_a_row)
        with closing(turns_of(size)) as turns:
            while done(size) < upto and time.monotonic() < ends_at:
                for kind, value in next(turns).items():
                    results[size].setdefault(kind, []).append(value)
                keep()


def resumed(path: Path | None, setting: dict[str, Any]) -> dict[float, dict[str, list[int]]]:
    """What an earlier run of the same settings left in `path`, or nothing yet."""
    results: dict[float, dict[str, list[int]]] = {size: {} for size in setting["state_mb"]}
    if path is None or not path.exists():
        return results
    kept = json.loads(path.read_text())
    if kept.get("setting") != setting:
        raise SystemExit(
            f"--json {path} was measured with {kept.get('setting')}, not with {setting}: "
            "name another file, or the same settings"
        )
    for size, kinds in kept["by_state_mb"].items():
        results[float(size)] = {kind: list(row["all_ms"]) for kind, row in kinds.items()}
    return results


def summary(values: Sequence[int]) -> dict[str, float]:
    """n, p50, p95, max in ms."""
    return {
        "n": len(values),
        "p50_ms": median(values),
        "p95_ms": percentile([float(v) for v in values], 0.95),
        "max_ms": max(values),
    }


def slope(points: Sequence[tuple[float, int]], seed: int = 1) -> dict[str, float]:
    """ms of downtime a MB of state, and the middle 95 % of 2,000 resamplings."""

    def fitted(some: Sequence[tuple[float, int]]) -> LinearRegression:
        return linear_regression([x for x, _ in some], [y for _, y in some])

    lots = random.Random(seed)
    again: list[float] = []
    while len(again) < 2_000:
        drawn = lots.choices(points, k=len(points))
        if len({x for x, _ in drawn}) > 1:
            again.append(fitted(drawn).slope)
    again.sort()
    return {"ms_per_mb": fitted(points).slope, "from": again[50], "to": again[-51]}


def figures(results: dict[float, dict[str, list[int]]]) -> dict[str, Any]:
    """Everything measured, each kind's summary, and its slope where there is more than one size."""
    measured = {size: kinds for size, kinds in results.items() if kinds}
    kinds_of = sorted({kind for kinds in measured.values() for kind in kinds})
    return {
        "by_state_mb": {
            f"{size:g}": {kind: {**summary(v), "all_ms": v} for kind, v in kinds.items()}
            for size, kinds in measured.items()
        },
        "slopes": {
            kind: slope([(size, v) for size, by in measured.items() for v in by[kind]])
            for kind in kinds_of
            if len(measured) > 1
        },
    }


def show(results: dict[float, dict[str, list[int]]], slopes: dict[str, dict[str, float]]) -> None:
    """The table and bars, on stderr."""
    table = Table(title="downtime of an active")
    for column in ("state MB", "how", "n", "p50 ms", "p95 ms", "max ms", "p50", "cold / this"):
        table.add_column(column, justify="right")
    longest = max(median(v) for kinds in results.values() for v in kinds.values())
    for size, kinds in results.items():
        for kind, values in kinds.items():
            row = summary(values)
            bar = "█" * max(1, round(30 * row["p50_ms"] / longest))
            ratio = median(kinds["cold host"]) / row["p50_ms"]
            numbers = [f"{row[each]:.0f}" for each in ("n", "p50_ms", "p95_ms", "max_ms")]
            table.add_row(f"{size:g}", kind, *numbers, bar, f"{ratio:.1f}")
    console.print(table)
    for kind, found in slopes.items():
        console.print(
            f"{kind}: {found['ms_per_mb']:+.1f} ms a MB of state, {found['from']:+.1f} to {found['to']:+.1f}"
        )


def within_bounds(results: dict[float, dict[str, list[int]]]) -> bool:
    """At every size: the planned move's bounds, and the failover's, a second more."""
    for kinds in results.values():
        if not kinds:
            return False
        for kind, more in (("planned move", 0), ("failover", CRASH_MORE_MS)):
            row = summary(kinds[kind])
            if row["p50_ms"] > PLANNED_P50_MS + more or row["p95_ms"] > PLANNED_P95_MS + more:
                return False
    return True


def main() -> int:
    """Exit 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=20, help="of each kind at each size")
    parser.add_argument("--in-a-row", type=int, default=10, help="of one size, before the next")
    parser.add_argument("--state-mb", type=float, default=16.0, help="per active, at ×1")
    parser.add_argument("--sizes", default="1,4,16", help="multiples of it")
    parser.add_argument("--rate", type=float, default=1000.0, help="messages a second a partition")
    parser.add_argument(
        "--quota", type=int, default=8_000_000, help="bytes a second for restores, of all consumers"
    )
    parser.add_argument("--actives", type=int, default=1, help="each with one standby and 2 tasks")
    parser.add_argument(
        "--json", type=Path, help="the result, kept as it goes; what it has isn't measured again"
    )
    parser.add_argument("--within", type=float, default=math.inf, help="seconds to begin turns in")
    given = parser.parse_args()
    sizes = [given.state_mb * float(times) for times in given.sizes.split(",")]
    setting = {
        "state_mb": sizes, "rate": given.rate, "quota": given.quota, "actives": given.actives
    }  # fmt: skip
    results = resumed(given.json, setting)

    def keep() -> None:
        if given.json is not None:
            given.json.parent.mkdir(parents=True, exist_ok=True)
            given.json.write_text(json.dumps({"setting": setting, **figures(results)}, indent=1))

    all_sizes(
        results,
        lambda size: measure(size, given.rate, given.quota, given.actives),
        given.moves,
        given.in_a_row,
        keep,
        time.monotonic() + given.within,
    )
    told = figures(results)
    if told["by_state_mb"]:
        show({size: kinds for size, kinds in results.items() if kinds}, told["slopes"])
    whole = all(
        kinds and min(map(len, kinds.values())) >= given.moves for kinds in results.values()
    )
    good = within_bounds(results)
    print(json.dumps({**told, "whole": whole, "within_bounds": good}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
