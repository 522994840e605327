"""Ours, Samza's `GroupByContainerIds` and Kafka Streams' assignors on the same groups.

`python -m benchmarks.assignment` (`make bench-assignment`). The shapes are those of Kafka's own
scale test (tasks, clients, threads, standbys), 10,000 tasks of which 5,000 have a standby on 1,000
processors, and 100,000 tasks on 2,000. In each a first assignment is made, one processor leaves, and
one comes in its place, without state. Each is repeated until nothing moves, as a group would be once
its standbys are warm. Counted are restores (actives that start where no copy of the task was), moves
of actives away from a processor that is there, the moves that are owed in the end (the fewest after
which no processor has two actives more than another), how far the loads are apart, and the slowest single assignment: ours in CPU time, a peer's by the clock, in a JVM that is as cold as a
leader's at its first assignment. A peer that takes more than `--peer-seconds` is cut off and named.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

from rich.table import Table

from benchmarks.assignment_bound import best_actives
from benchmarks.downtime_picture import console
from benchmarks.results_file import keep
from samza_dagster.assignment import TaskLocality, group
from samza_dagster.model import SystemStreamPartition, TaskMode, TaskModel
from samza_dagster.model.naming import standby_task_name
from samza_dagster.sandbox.artifacts import class_path
from samza_dagster.sandbox.java_check import find_java

HERE = Path(__file__).parent
STEPS = ("first", "leave", "join")
ROUNDS = 10
LONGEST_S, STEEPEST = 2.0, 2.0
"""For the largest shape; and its cost of a task, in times that of a tenth of it."""


@dataclass(frozen=True)
class Shape:
    """A group: the first `stateful` tasks have `standbys` each."""

    tasks: int
    processors: int
    standbys: int = 0
    stateful: int = 0
    threads: int = 1

    @property
    def name(self) -> str:
        """As a row of the table says it."""
        copies = f" + {self.stateful * self.standbys:,}" if self.standbys else ""
        return f"{self.tasks:,}{copies} on {self.processors:,}"


KAFKAS = (
    Shape(6_000, 2, 1, 6_000),
    Shape(1_000, 1_000, 1, 1_000),
    Shape(1_000, 100, 50, 1_000),
    Shape(1_000, 10, 1, 1_000, threads=1_000),
)
SHAPES = (*KAFKAS, Shape(10_000, 1_000, 1, 5_000), Shape(10_000, 200), Shape(100_000, 2_000))
SMALL = (Shape(60, 2, 1, 60), Shape(100, 10, 1, 50), Shape(100, 10))


@dataclass(frozen=True)
class Round:
    """One assignment: who has what, by number, and how long it took."""

    step: str
    seconds: float
    actives: Mapping[int, int]
    """Task → processor."""
    copies: Mapping[int, Sequence[int]]
    """Processor → the tasks of which it has an active or a standby."""


@dataclass
class Result:
    """What one assignor made of a shape."""

    shape: str
    assignor: str
    seconds: float = 0.0
    restores: int = 0
    moves: dict[str, int] = field(default_factory=dict[str, int])
    rounds: dict[str, int] = field(default_factory=dict[str, int])
    owed: int = 0
    actives_apart: int = 0
    copies_apart: int = 0
    failed: str = ""
    above: list[str] = field(default_factory=list[str])
    """Of ours, the assignments that aren't the best that there is."""

    @property
    def effort(self) -> tuple[int, int]:
        """Restores, and moves until the actives are even: a peer doesn't win by leaving them uneven."""
        return self.restores, sum(self.moves.values()) + self.owed


def ours(shape: Shape) -> Iterator[Round]:
    """`by_locality`, each step until it stays as it is."""
    tasks = [
        TaskModel(
            task_name=f"Partition {number}"
            if replica is None
            else standby_task_name(f"Partition {number}", replica),
            system_stream_partitions=(
                SystemStreamPartition(system="kafka", stream="in", partition=number),
            ),
            changelog_partition=number,
            task_mode=TaskMode.ACTIVE if replica is None else TaskMode.STANDBY,
        )
        for number in range(shape.tasks)
        for replica in (None, *range(shape.standbys if number < shape.stateful else 0))
    ]
    processors = {str(number): f"h{number}" for number in range(shape.processors)}
    locality: dict[str, TaskLocality] = {}
    for step in STEPS:
        there = {each: at for each, at in processors.items() if step != "leave" or each != "0"}
        if step == "join":
            locality = {name: at for name, at in locality.items() if at.processor_id != "0"}
        for _ in range(ROUNDS):
            began = time.process_time()
            containers = group(tasks, locality, there)
            took = time.process_time() - began
            before = locality
            locality = {
                name: TaskLocality(each, there[each])
                for each, container in containers.items()
                for name in container.tasks
            }
            had = {
                int(each): list(container.tasks.values()) for each, container in containers.items()
            }
            yield Round(
                step,
                took,
                {
                    task.changelog_partition: each
                    for each, held in had.items()
                    for task in held
                    if task.task_mode is TaskMode.ACTIVE
                },
                {
                    int(each): [task.changelog_partition for task in had.get(int(each), ())]
                    for each in there
                },
            )
            if locality == before:
                break


def peer(
    set_name: str, source: str, arguments: Iterable[int | str], within_s: float
) -> list[Round]:
    """What the Java program printed."""
    command = [str(find_java().program), "-Xmx4g", "-cp", class_path(set_name), str(HERE / source)]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=within_s,
        check=True,
    )
    return list(_rounds(done.stdout.splitlines()))


def _rounds(lines: Iterable[str]) -> Iterator[Round]:
    step, seconds = "", 0.0
    actives: dict[int, int] = {}
    copies: dict[int, list[int]] = {}
    for line in [*lines, "ROUND end 0"]:
        words = line.split()
        if words[0] == "ROUND":
            if step:
                yield Round(step, seconds, actives, copies)
            step, seconds, actives, copies = words[1], int(words[2]) / 1e9, {}, {}
            continue
        processor, tasks = int(words[0]), [int(task) for task in words[2:]]
        copies.setdefault(processor, []).extend(tasks)
        if words[1] == "A":
            actives |= dict.fromkeys(tasks, processor)


def judged(shape: Shape, assignor: str, rounds: Iterable[Round]) -> Result:
    """Moves by step, and the state at the end."""
    result = Result(shape.name, assignor)
    before: Round | None = None
    for each in rounds:
        result.seconds = max(result.seconds, each.seconds)
        result.rounds[each.step] = result.rounds.get(each.step, 0) + 1
        if before is not None:
            left = {0} if (before.step, each.step) == ("first", "leave") else set[int]()
            warm = {(task, at) for at, tasks in before.copies.items() for task in tasks}
            result.restores += sum((task, at) not in warm for task, at in each.actives.items())
            moved = sum(
                before.actives[task] not in {at, *left} for task, at in each.actives.items()
            )
            result.moves[each.step] = result.moves.get(each.step, 0) + moved
        before = each
    if before is not None:
        of_actives = Counter(before.actives.values())
        loads = [of_actives[at] for at in before.copies]
        result.actives_apart = _apart(loads)
        result.owed = _owed(loads)
        result.copies_apart = _apart([len(tasks) for tasks in before.copies.values()])
    return result


def _apart(loads: Sequence[int]) -> int:
    return max(loads) - min(loads)


def _owed(loads: Sequence[int]) -> int:
    share, left = divmod(sum(loads), len(loads))
    above = [load - share for load in loads if load > share]
    return sum(above) - min(left, len(above))


def above_the_bound(shape: Shape, rounds: Sequence[Round]) -> Iterator[str]:
    """Assignments in which an active starts cold though a standby of it is left, that are less even than
    they could be, or that move more than that takes.
    """
    for before, after in pairwise(rounds):
        there = set(after.copies)
        homes = {task: at if at in there else None for task, at in before.actives.items()}
        warm: dict[int, set[int]] = {}
        for at in there & set(before.copies):
            for task in before.copies[at]:
                if shape.standbys and task < shape.stateful:
                    warm.setdefault(task, set()).add(at)
        loads = Counter(after.actives.values())
        squares = sum(load**2 for load in loads.values())
        moves = sum(homes[task] not in {at, None} for task, at in after.actives.items())
        cold = sum(at not in warm.get(task, {at}) for task, at in after.actives.items())
        best = 0, *best_actives(homes, warm, sorted(there), max(loads.values()))
        if (cold, squares, moves) != best:
            yield f"{after.step}: cold starts, squared loads and moves {(cold, squares, moves)}, the best is {best}"


def compared(shape: Shape, within_s: float) -> Iterator[Result]:
    """Ours first, then the peers on the same."""
    rounds = list(ours(shape))
    own = judged(shape, "samza_dagster", rounds)
    own.above = list(above_the_bound(shape, rounds))
    yield own
    peers: list[tuple[str, str, str, tuple[int | str, ...]]] = []
    if not shape.standbys:
        peers.append(
            ("GroupByContainerIds", "samza", "SamzaGrouper.java", (shape.tasks, shape.processors))
        )
    stateful = shape.stateful or shape.tasks
    for name in ("sticky", "high-availability"):
        given = (
            name,
            shape.tasks,
            shape.standbys,
            stateful,
            shape.processors,
            shape.threads,
            ROUNDS,
        )
        peers.append((f"Kafka Streams, {name}", "kafka-streams", "AssignmentPeers.java", given))
    for name, set_name, source, arguments in peers:
        try:
            yield judged(shape, name, peer(set_name, source, arguments, within_s))
        except subprocess.TimeoutExpired:
            yield Result(shape.name, name, failed=f"not in {within_s:.0f} s")
        except subprocess.CalledProcessError as error:
            said = [
                line for line in error.stderr.splitlines() if "Exception" in line or "Error" in line
            ]
            yield Result(shape.name, name, failed=(said or ["failed"])[0][:80])


def missed(results: list[Result]) -> list[str]:
    """Bounds that aren't held: each assignment is the best that there is; no peer has less of restores and
    moves, or is evener; fast, near-linear.
    """
    found: list[str] = []
    own = {each.shape: each for each in results if each.assignor == "samza_dagster"}
    for each in results:
        mine = own[each.shape]
        found += [f"{each.shape}, {what}" for what in each.above]
        if each is mine or each.failed:
            continue
        one, other = mine.effort, each.effort
        if other != one and other[0] <= one[0] and other[1] <= one[1]:
            found.append(
                f"{each.shape}: restores and moves, with those owed, {one}, {each.assignor} has {other}"
            )
        for what in ("actives_apart", "copies_apart"):
            if getattr(mine, what) > max(1, getattr(each, what)):
                found.append(
                    f"{each.shape}: {what} {getattr(mine, what)}, {each.assignor} has less"
                )
    largest, tenth = own.get(SHAPES[-1].name), own.get(SHAPES[-2].name)
    if largest and tenth:
        if largest.seconds > LONGEST_S:
            found.append(f"{largest.shape}: {largest.seconds:.2f} s, more than {LONGEST_S}")
        steep = largest.seconds / tenth.seconds / 10
        if steep > STEEPEST:
            found.append(f"a task costs {steep:.1f} times what it costs in a tenth of the size")
    return found


def main() -> int:
    """Prints a table, and JSON on request; 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--small", action="store_true", help="shapes of a few tasks, to try it")
    parser.add_argument("--peer-seconds", type=float, default=120, help="of one peer on one shape")
    parser.add_argument("--json", type=Path, help="write the results there as well")
    options = parser.parse_args()
    table = Table(
        "group", "assignor", "restores", "moves: leave", "join", "owed", "rounds", "actives apart", "copies apart", "slowest s",
        title="One of the processors leaves, another joins",
    )  # fmt: skip
    results: list[Result] = []
    for shape in SMALL if options.small else SHAPES:
        for each in compared(shape, options.peer_seconds):
            results.append(each)
            table.add_row(
                each.shape,
                each.assignor,
                *(
                    [each.failed]
                    if each.failed
                    else [
                        f"{each.restores:,}",
                        f"{each.moves['leave']:,}",
                        f"{each.moves['join']:,}",
                        f"{each.owed:,}",
                        str(sum(each.rounds.values())),
                        f"{each.actives_apart:,}",
                        f"{each.copies_apart:,}",
                        f"{each.seconds:.3f}",
                    ]
                ),
            )
    out = console(stderr=False)
    out.print(table)
    failures = missed(results)
    if options.json:
        document = {
            "version": 1,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "results": [asdict(each) for each in results],
            "missed": failures,
        }
        keep(json.dumps(document, indent=1), options.json)
    for what in failures:
        out.print(what, markup=False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
