"""What it costs to know where all standbys of a fleet are: our pass, and what it is held against.

`python -m benchmarks.lag --records 250000` (make bench-lag) fills a metrics topic of 1,000 jobs with
reports of the recorded sizes, in a real broker, and reads it by turns: with a plain Python consumer that
computes the same for all jobs, with its client's settings as they come and with settings tuned to this;
by Spark's connector alone; by the pass over the fleet (also of an eighth, a quarter and a half of it); and
by whole snapshots: one that begins with nothing, and one after 1 % more records, which reads the window again. Each reader is a process
of its own with a driver heap of 256 MB. Spark's start, the first use of its Python workers and the
reading are told apart, by the clock and by the processor; a pass is judged with the workers' first use, as
the first of a session, and once more without, as any later one. Whoever computes the fleet must find the same.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.lag_by_python import Newest, newest_by_python
from benchmarks.lag_topic import KEEPS_ALL, TOPIC, deploy, fill
from benchmarks.measured_code import ROOT, this_commit, this_machine
from benchmarks.results_file import keep
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.topics import ensure_topic
from samza_dagster.sandbox.artifacts import class_path, jar_paths
from samza_dagster.sandbox.broker import Broker
from tests.rig.fleets import Fleet, Shape

READERS = ("python", "tuned python", "connector", "fleet", "snapshot", "again")
PARTS = (8, 4, 2)
HEAP = "256m"
Facts = dict[str, Any]


class Costs:
    """Seconds and processor seconds of this process and those that it started, lap by lap."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._wall, self._processor = psutil.Process().create_time(), 0.0

    def lap(self, name: str) -> None:
        """Ends a lap; the first began with the process."""
        wall, processor = time.time(), self._spent()
        self.laps[f"{name}_s"] = round(wall - self._wall, 2)
        self.laps[f"{name}_processor_s"] = round(processor - self._processor, 2)
        self._wall, self._processor = wall, processor

    @staticmethod
    def _spent() -> float:
        me = psutil.Process()
        return sum(sum(one.cpu_times()[:2]) for one in (me, *me.children(recursive=True)))


def read(servers: str, reader: str, end: int, tables: str) -> Facts:
    """One reader, in this process."""
    costs = Costs()
    if reader.endswith("python"):
        costs.lap("start")
        costs.lap("workers")
        now_ms = int(time.time() * 1000)
        found = newest_by_python(servers, end, now_ms, tuned=reader.startswith("tuned"))
        costs.lap("read")
        return {**found.shown, **costs.laps}
    with _session(with_connector=reader == "connector") as spark:
        spark.range(1).count()
        costs.lap("start")
        if reader != "connector":
            numbers = spark.sparkContext.parallelize(range(2), 2)
            assert numbers.map(_worker_s_modules).sum() + _worker_s_modules(2) > 0
        costs.lap("workers")
        found = _READ_BY_SPARK[reader](spark, servers, end, tables)
        costs.lap("read")
    return {**found.shown, **costs.laps}


def _worker_s_modules(_number: int) -> int:
    """What a worker imports when it is used first, this process where there is little; it has it from then on."""
    modules = ("confluent_kafka", "deltalake.fs", "pyarrow.dataset", "pyarrow.parquet")
    return len([import_module(name) for name in ("samza_dagster.snapshots", *modules)])


@contextlib.contextmanager
def _session(*, with_connector: bool) -> Iterator[Any]:
    from samza_dagster.snapshots import spark_session

    settings = {"spark.driver.extraClassPath": class_path("spark-kafka")} if with_connector else {}
    # Spark keeps 300 MB for itself, and refuses to start where that is two thirds of the heap.
    settings["spark.testing.reservedMemory"] = str(64 << 20)
    session = spark_session(settings={"spark.driver.memory": HEAP, **settings})
    try:
        yield session
    finally:
        session.stop()


def _discarded(spark: Any, servers: str, end: int, _tables: str) -> Newest:
    reader = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.isolation.level", "read_committed")
        .option("assign", json.dumps({TOPIC: [0]}))
        .option("startingOffsets", json.dumps({TOPIC: {"0": 0}}))
        .option("endingOffsets", json.dumps({TOPIC: {"0": end}}))
        .option("minPartitions", "2")
    )
    reader.load().write.format("noop").mode("overwrite").save()
    return Newest()


def _fleet(spark: Any, servers: str, end: int, _tables: str) -> Newest:
    from samza_dagster.snapshots import Workers
    from samza_dagster.snapshots.found import Found, Said
    from samza_dagster.snapshots.reading import METRICS, Readers, Span

    readers = Readers(servers, {}, int(time.time() * 1000))
    every = readers.read(Workers(lambda: spark), [Span(TOPIC, 0, 0, end, METRICS)])
    last: dict[tuple[str, ...], Said] = {}
    unreadable = 0
    for job, piece in (each for read in every for each in read.pieces):
        found = Found.unpacked(piece)
        unreadable += found.unreadable
        for task, reports in found.reports.items():
            for one in reports:
                replica = (*job, task, one.host or "")
                if replica not in last or last[replica].order < one.order:
                    last[replica] = one
    rows: list[Any] = [
        (*replica, gauge, at) for replica, one in last.items() for gauge, at in one.offsets.items()
    ]
    return Newest(rows, unreadable)


def _snapshot(spark: Any, servers: str, _end: int, tables: str) -> Newest:
    """Of one job, whose window has all that the topic tells of the others."""
    from samza_dagster.snapshots import Tables, Workers, take_fleet

    job = Fleet(Shape(jobs=1)).groups[0].job
    taken = take_fleet(
        Workers(lambda: spark), [Connection(servers, job, "1")], None, Tables(tables)
    )
    print(dict(taken.seconds), file=sys.stderr)
    rows = taken.rows("changelog_lag")
    return Newest(
        [(job, "1", r["task_name"], r["host"], r["store"], r["applied_offset"]) for r in rows]
    )


_READ_BY_SPARK: dict[str, Callable[[Any, str, int, str], Newest]] = {
    "connector": _discarded,
    "fleet": _fleet,
    "snapshot": _snapshot,
    "again": _snapshot,
}


def measure(records: int, rounds: int) -> Facts:
    """All readers by turns, `rounds` times; the quickest reading of each counts."""
    jar_paths("spark-kafka")
    best: dict[str, Facts] = {}
    more = records // 100
    with tempfile.TemporaryDirectory() as scratch:
        broker = Broker(Path(scratch) / "broker").start()
        try:
            servers = broker.bootstrap_servers
            ensure_topic(KafkaCluster(servers), TOPIC, partitions=1, config=KEEPS_ALL)
            deploy(servers, Fleet(Shape(jobs=1)).groups[0].job)
            filling = fill(servers, records, more, time.time_ns() // 1_000_000)
            size = next(filling)
            turns = [(reader, records) for reader in READERS[:-1]]
            turns += [("fleet", records // part) for part in PARTS]
            for turn in range(rounds):
                for reader, end in turns:
                    tables = f"{scratch}/tables-{turn}"
                    _keep(best, reader, end, records, _in_a_process(servers, reader, end, tables))
            next(filling)
            for turn in range(rounds):
                tables = f"{scratch}/tables-{turn}"
                _keep(best, "again", more, more, _in_a_process(servers, "again", more, tables))
        finally:
            broker.close()
    megabytes = size / 1e6
    for facts in best.values():
        part = megabytes * facts["records"] / records
        facts["mb_per_s"] = round(part / facts["read_s"], 1)
        facts["processor_s_per_gb"] = round(1_000 * facts["read_processor_s"] / part, 2)
    return {
        "records": records,
        "megabytes": round(megabytes, 1),
        "readers": best,
        "verdicts": verdicts(best),
    }


def _keep(best: dict[str, Facts], reader: str, end: int, all_: int, facts: Facts) -> None:
    name = reader if end == all_ else f"{reader} 1/{round(all_ / end)}"
    if name not in best or facts["read_s"] < best[name]["read_s"]:
        best[name] = {**facts, "records": end}


def verdicts(best: dict[str, Facts]) -> dict[str, Facts]:
    """What was aimed at, what was seen, and whether it holds: by the clock, apart from Spark's start."""

    def seconds(name: str, *, is_first: bool = True) -> float:
        return best[name]["read_s"] + (best[name]["workers_s"] if is_first else 0.0)

    sizes = ["fleet", *(f"fleet 1/{part}" for part in PARTS)]
    points = [(math.log(best[name]["records"]), math.log(seconds(name))) for name in sizes]
    slope, _ = statistics.linear_regression(*zip(*points, strict=True))
    first, later = seconds("fleet"), seconds("fleet", is_first=False)
    again = seconds("again", is_first=False) / seconds("snapshot", is_first=False)
    whole = seconds("snapshot") / first
    found = {
        "times as fast as plain Python": (">=", 2.0, seconds("python") / first),
        "the same, of a later pass": (">=", 2.0, seconds("python") / later),
        "part of the connector's speed": (">=", 0.6, seconds("connector") / first),
        "exponent over four sizes": ("<=", 1.1, slope),
        "a whole snapshot, of a pass over as many records": ("<=", 1.25, whole),
    }
    judged = {
        name: {"aim": f"{sign} {aim}", "seen": round(seen, 3), "holds": seen >= aim if sign == ">=" else seen <= aim}
        for name, (sign, aim, seen) in found.items()
    }  # fmt: skip
    # On two cores nobody is twice as fast as one reader that leaves the broker a core: seen, not aimed at.
    tuned = {"aim": "", "seen": round(seconds("tuned python") / later, 3), "holds": True}
    # A snapshot keeps nothing: the next one reads its window again.
    more = {"aim": "", "seen": round(again, 3), "holds": True}
    shown = {
        "times as fast as tuned Python, of a later pass": tuned,
        "the next snapshot, 1 % later, of the one before": more,
    }
    return {**judged, **shown}


def _in_a_process(servers: str, reader: str, end: int, tables: str) -> Facts:
    command = [sys.executable, "-m", "benchmarks.lag", "--reader", reader, "--servers", servers]
    command += ["--end", str(end), "--tables", tables]
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def main() -> int:
    """Prints tables to stderr and JSON to stdout; exit 1 when an aim is missed or two readers found different fleets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=250_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the results there as well")
    parser.add_argument("--reader", choices=READERS, help="one alone, in this process")
    parser.add_argument("--servers", help="for one alone: the broker")
    parser.add_argument("--end", type=int, help="for one alone: the offset it reads to")
    parser.add_argument("--tables", help="for one alone: where a snapshot's tables are")
    asked = parser.parse_args()
    if asked.reader:
        print(json.dumps(read(asked.servers, asked.reader, asked.end, asked.tables)))
        return 0
    found = {**measure(asked.records, asked.rounds), "commit": this_commit(), "machine": this_machine()}  # fmt: skip
    columns = (
        "records",
        "start_s",
        "workers_s",
        "read_s",
        "mb_per_s",
        "workers_processor_s",
        "read_processor_s",
        "processor_s_per_gb",
    )
    table = Table("reader", *columns, title=f"{asked.records:,} records, {found['megabytes']} MB")
    for reader, facts in found["readers"].items():
        table.add_row(reader, *(str(facts[column]) for column in columns))
    judged = Table("what", "aim", "seen", "holds")
    for name, verdict in found["verdicts"].items():
        judged.add_row(name, *(str(verdict[column]) for column in ("aim", "seen", "holds")))
    console = Console(stderr=True)
    console.print(table, judged)
    document = json.dumps(found)
    print(document)
    if asked.json:
        keep(document, asked.json)
    same = (
        len({found["readers"][name]["found"] for name in ("python", "tuned python", "fleet")}) == 1
    )
    return 0 if same and all(verdict["holds"] for verdict in found["verdicts"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
