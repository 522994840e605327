"""Downtime of an active, by how it comes back and by how much state it has.

`make bench-downtime` (an hour and a half and more with the defaults; `--within` ends it earlier, and the
same command goes on from what its file has, for the same code on the same machine). Real Samza containers
under a steady load; downtime is the longest silence of the moved tasks' outputs, by the broker's
timestamps. For each size of the state, side by side in one sandbox, in turns (a few of each, then the next size):

- `planned move`: onto its standby's host (destination STANDBY);
- `failover`: it is killed, and there is no room for it but in its standby's place;
- `same host`: it is killed, and starts where it was;
- `cold host`: placed on a host whose copy of the state was wiped: the peer, what a
  restore from the changelog costs;
- `host lost`, in each fourth turn: everything on its host is killed; from the moment at which the
  coordinator declared that it has ended, since what comes before is the silence it was told to suffer.

Exit status 0: all of it was measured, within the bounds, with the inputs' rate that was asked
for, and onto the standby downtime doesn't grow with the state (`downtime_judgement`).

Consumers of the job have a quota, above what they read at rest: on a loopback with a fast
disk a restore of this size would cost nothing, in a cluster the network is shared.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.downtime_judgement import (
    COLD,
    HOST_LOST,
    LOST_EVERY,
    Move,
    Results,
    figures,
    keep,
    resumed,
    summary,
    this_code,
    this_commit,
    this_machine,
    turns,
    what_is_wrong,
)
from samza_dagster.client.audit_history import read_history
from samza_dagster.model import StatusCode
from samza_dagster.sandbox import demo_job, kafka_client
from samza_dagster.sandbox.artifacts import jar_paths
from samza_dagster.sandbox.java_check import find_java
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.ledger import Gap
from tests.rig.demo_sandbox import demo_sandbox
from tests.rig.job import kill
from tests.rig.kill_points import KilledJob, Processors
from tests.rig.kill_scenarios import FAILOVER, free_host
from tests.rig.kill_scenarios import HOST_LOST as LOSS
from tests.rig.replacement import partitions_of, replaced
from tests.rig.sandbox_job import SandboxJob
from tests.rig.waiting import until

PATIENCE_S = 240.0
RECORD_BYTES = 1_100  # of an input, and of what it changes in the changelog
console = Console(stderr=True)


class Moves:
    """One sandbox, its active `0` taken down and back over and over."""

    def __init__(self, job: SandboxJob) -> None:
        self.job = job
        self.rest = KilledJob(job, patience_s=PATIENCE_S)
        self.partitions = partitions_of("0", job.actives)
        self.servers = job.connection.bootstrap_servers
        self.judge = Judge(self.servers)
        self.restores = {"failover": FAILOVER.restore, HOST_LOST: LOSS.restore}
        self.kinds: dict[str, Callable[[Processors], set[str]]] = {
            "planned move": self._planned,
            "failover": self._failover,
            "same host": self._same_host,
            COLD: self._cold,
            HOST_LOST: self._lost,
        }

    def move(self, kind: str) -> Move:
        """Once; all is at rest before and after, and nothing is missing."""
        before = self.rest.settle()
        self._caught_up()
        since_ms = int(time.time() * 1000)
        names = self.kinds[kind](before)
        replaced(self.job, before, names, PATIENCE_S)
        if kind in self.restores:
            self.restores[kind](self.job, before)
        self.rest.settle()
        self._caught_up()
        window = (since_ms, int(time.time() * 1000))
        verdict = self.judge.judge(deadline_s=PATIENCE_S, window_ms=window)
        if not verdict.is_good:
            raise SystemExit(f"{kind}: {verdict}")
        mine = [gap for gap in verdict.gaps if gap.partition in self.partitions]
        longest = max(mine, key=lambda gap: gap.gap_ms)
        downtime_ms = self._since_declared(before, longest) if kind == HOST_LOST else longest.gap_ms
        return Move(downtime_ms, slowest_rate(self.servers, self.partitions, window))

    def _since_declared(self, before: Processors, gap: Gap) -> int:
        """Of a silence: what is left of it when the coordinator took the active for ended."""
        (end,) = [
            record
            for record in read_history(self.job.connection).records
            if record.kind == "end" and record.how != "dead"
            if record.execution_id == before["0"]["execution_id"]
        ]
        return gap.to_ms - end.at_ms

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

    def _lost(self, before: Processors) -> set[str]:
        LOSS.happens(self.job, before)
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


def slowest_rate(servers: str, partitions: list[int], window_ms: tuple[int, int]) -> float:
    """Inputs a second of that time in the partition that had the fewest, by the broker's timestamps."""

    def offsets_at(at_ms: int) -> list[int]:
        asked = [kafka_client.partition(demo_job.INPUT_TOPIC, n, at_ms) for n in partitions]
        return [found.offset for found in consumer.offsets_for_times(asked, timeout=30)]

    consumer = kafka_client.consumer(servers)
    try:
        first, last = map(offsets_at, window_ms)
        ends = kafka_client.end_offsets(consumer, demo_job.INPUT_TOPIC)
    finally:
        consumer.close()
    seconds = (window_ms[1] - window_ms[0]) / 1000
    # No offset is named for a time after the last record's.
    came = [
        (end if end >= 0 else ends[number]) - (begin if begin >= 0 else ends[number])
        for number, begin, end in zip(partitions, first, last, strict=True)
    ]
    return min(came) / seconds


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
    state_mb: float, rate: float, quota: int, actives: int, turn_number: int
) -> Generator[dict[str, Move], None, None]:
    """One of each kind a turn, from `turn_number` on, for as long as asked. `rate` is of one partition."""
    partitions = actives * demo_job.TASKS_PER_CONTAINER
    settings = {
        "cluster-manager.container.retry.count": "-1",
        "samza.dagster.host.timeout.ms": "10000",
    }
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
                turn: dict[str, Move] = {}
                for kind in measured.kinds:
                    if kind == HOST_LOST and turn_number % LOST_EVERY:
                        continue
                    turn[kind] = measured.move(kind)
                    took_ms, had_rate = turn[kind]
                    console.print(f"{state_mb:g} MB, {kind}: {took_ms} ms at {had_rate:.0f}/s")
                turn_number += 1
                yield turn
        finally:
            measured.judge.close()
            job.close()


def all_sizes(
    results: Results,
    turns_of: Callable[[float, int], Generator[dict[str, Move], None, None]],
    moves: int,
    in_a_row: int,
    keep: Callable[[], None],
    ends_at: float,
) -> None:
    """Adds to `results` until each size has `moves` turns.

    The size with the fewest turns gets the next `in_a_row`, in one sandbox. `turns_of` is told
    the size and how many it has. `ends_at`, by the monotonic clock: no turn begins after it. `keep` is called after each.
    """

    def done(size: float) -> int:
        return turns(results[size])

    while time.monotonic() < ends_at:
        size = min(results, key=lambda each: (done(each), each))
        if done(size) >= moves:
            return
        upto = min(moves, done(size) + in_a_row)
        with closing(turns_of(size, done(size))) as more:
            while done(size) < upto and time.monotonic() < ends_at:
                for kind, value in next(more).items():
                    results[size].setdefault(kind, []).append(value)
                keep()


def show(results: Results, slopes: dict[str, dict[str, float]]) -> None:
    """The table and bars, on stderr."""
    table = Table(title="downtime of an active")
    for column in ("state MB", "how", "n", "p50 ms", "p95 ms", "max ms", "p50", "cold / this"):
        table.add_column(column, justify="right")
    taken = {
        size: {kind: [move.downtime_ms for move in moves] for kind, moves in kinds.items()}
        for size, kinds in results.items()
    }
    longest = max(median(values) for kinds in taken.values() for values in kinds.values())
    for size, kinds in taken.items():
        for kind, values in kinds.items():
            row = summary(values)
            bar = "█" * max(1, round(30 * row["p50_ms"] / longest))
            ratio = median(kinds[COLD]) / row["p50_ms"]
            numbers = [f"{row[each]:.0f}" for each in ("n", "p50_ms", "p95_ms", "max_ms")]
            table.add_row(f"{size:g}", kind, *numbers, bar, f"{ratio:.1f}")
    console.print(table)
    for kind, found in slopes.items():
        console.print(
            f"{kind}: {found['ms_per_mb']:+.1f} ms a MB of state, {found['from']:+.1f} to {found['to']:+.1f}"
        )


def main() -> int:
    """Exit 1 unless all was measured and is as it has to be; tells what isn't."""
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
        "state_mb": sizes, "rate": given.rate, "quota": given.quota, "actives": given.actives,
        "code": this_code(), "machine": this_machine(),
    }  # fmt: skip
    results, commits = resumed(given.json, setting)
    commits = list(dict.fromkeys([*commits, this_commit()]))
    all_sizes(
        results,
        lambda size, had: measure(size, given.rate, given.quota, given.actives, had),
        given.moves,
        given.in_a_row,
        lambda: keep(given.json, setting, commits, results) if given.json is not None else None,
        time.monotonic() + given.within,
    )
    told = figures(results)
    if told["by_state_mb"]:
        show({size: kinds for size, kinds in results.items() if kinds}, told["slopes"])
    wrong = what_is_wrong(results, moves=given.moves, rate=given.rate)
    for reason in wrong:
        console.print(reason)
    print(json.dumps({**told, "commits": commits, "good": not wrong, "wrong": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
