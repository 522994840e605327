"""How soon Dagster does what an event demands: the next step, the request, the run's first op.

`python -m benchmarks.cockpit_reaction --json FILE` (twelve minutes with the defaults). A real
Dagster with its queue and limits on, real Samza containers on four hosts:

- `next step`: a bounce in progress, and runs of `move_container` one after another, from `reserved, waits
  for commit` in its topic to the commit, which in a move another op asks than reserved;
- `next op`: such a move, from the answer that its container was started to its last op, which verifies that;
- `action`: an agent is frozen at any moment of the sensor's interval; from the moment at
  which its silence is as long as `host_silent_s` to the run that `auto_failover` requests, after
  two looks that say the same;
- `first op`: from that moment to the first op of that run, which then asks.

The peer: a launch over GraphQL, with a person's click as its event, to its first op.
Requests are dated by the broker, ops by Dagster's own events.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from rich.console import Console
from rich.table import Table

from benchmarks.results_file import keep
from benchmarks.run_stages import spread, stages, stages_table
from samza_dagster.client.look import read_host_words
from samza_dagster.model.naming import LAST_SEEN
from samza_dagster.orchestration.requests.step_request import request_uuid
from samza_dagster.orchestration.tags import WHO
from samza_dagster.orchestration.watch.auto_failover import ACKNOWLEDGE, NAME
from samza_dagster.orchestration.watch.failover import FAIL_OVER
from samza_dagster.orchestration.watch.settings import AutoFailover
from tests.rig.cockpit import PATIENCE_S, Cockpit, cockpit
from tests.rig.stream_times import placements
from tests.rig.waiting import until

BOUNDS = {
    "next step": (1_000, None),
    "next op": (1_000, None),
    "action": (10_000, 15_000),
    "first op": (15_000, None),
}
"""Median and most, in ms; the peer has none."""
PEER = "GraphQL launch to first op"
MOVE = "move_container"
LATE = "left to the coordinator"
"""Numbers of the events that the sensor came too late for."""
_LOOP_S = 5.0
console = Console(stderr=True)


def now_ms() -> int:
    """As the broker and Dagster date their records."""
    return time.time_ns() // 1_000_000


def op_ms(made: Cockpit, run_id: str, op: str = "") -> int:
    """When an op of the run began, the first one if none is named, by Dagster's event of it."""

    def begun() -> int | None:
        events = made.instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_START)
        found = [event for event in events if op in ("", event.step_key)]
        return round(found[0].timestamp * 1_000) if found else None

    return until(f"op {op or 1} of run {run_id}", begun, seconds=PATIENCE_S)


def moved(made: Cockpit, processor: str) -> int:
    """Moves a container to where it is; ms from its start's answer to the op that verifies it."""
    made.until_all_run()
    config = {"processor": processor, "destination": LAST_SEEN, "reason": "measured"}
    run_id = made.runs.launch(MOVE, {"ops": {f"plan_{MOVE}": {"config": config}}})
    assert made.runs.wait(run_id, timeout_s=PATIENCE_S) == "SUCCESS"
    uuid = request_uuid(run_id, "move", 0)
    (ended_ms,) = (p.ended_ms for p in placements(made.job.connection) if p.uuid == uuid)
    assert ended_ms is not None
    return op_ms(made, run_id, "verify_placement") - ended_ms


def acknowledged(made: Cockpit, processor: str) -> tuple[int, dict[str, int]]:
    """Lifts the block of a group, as a person does; ms from the launch to the first op, and how."""
    config = {"processor": processor, "reason": "measured"}
    began = now_ms()
    run_id = made.runs.launch(ACKNOWLEDGE, {"ops": {"acknowledge": {"config": config}}})
    took = op_ms(made, run_id) - began
    assert made.runs.wait(run_id, timeout_s=PATIENCE_S) == "SUCCESS"
    return took, stages(made.instance, run_id, began)


def frozen(
    made: Cockpit, active: str, lots: random.Random
) -> tuple[int, int, dict[str, int]] | None:
    """Freezes the agent of an active's host until it runs elsewhere: ms to its run and to the first op.

    And of the time between them each stage.

    None when the coordinator took the host for lost before the sensor had asked. Whatever the
    sensor asked, also of another active on that host, blocks its group until `acknowledged`.
    """
    made.until_all_run()
    made.until_nothing_is_held()
    host = made.job.processors()[active]["host"]
    (agent,) = made.sandbox.registry.live(f"agent {host}")
    time.sleep(lots.uniform(0, _LOOP_S))  # any moment of the sensor's interval is as likely
    began_ms = now_ms()
    os.kill(agent.pid, signal.SIGSTOP)
    try:
        with made.job.client() as client:
            words = read_host_words(client.view().leader)
        event_ms = now_ms() - words[host] + round(AutoFailover().host_silent_s * 1_000)
        until(
            f"{active} runs elsewhere",
            lambda: made.job.processors().get(active, {}).get("host") not in (None, host),
            seconds=PATIENCE_S,
        )
    finally:
        os.kill(agent.pid, signal.SIGCONT)
    of_it = (run for run in failovers(made, began_ms) if run[1]["processor"] == active)
    run_id, _, asked = next(of_it, ("", {}, 0))
    if not run_id:
        return None
    op = op_ms(made, run_id)
    return asked - event_ms, op - event_ms, stages(made.instance, run_id, asked)


def acknowledged_since(made: Cockpit, since_ms: int) -> list[tuple[int, dict[str, int]]]:
    """Lifts the block of each group that the sensor acted on since then; ms of each launch."""
    return [acknowledged(made, config["processor"]) for _, config, _ in failovers(made, since_ms)]


def failovers(made: Cockpit, since_ms: int) -> list[tuple[str, dict[str, Any], int]]:
    """Runs that the sensor requested since then, each with its config and when it was created."""
    of_sensor = dg.RunsFilter(job_name=FAIL_OVER, tags={WHO: NAME})
    return [
        (
            record.dagster_run.run_id,
            record.dagster_run.run_config["ops"][f"plan_{FAIL_OVER}"]["config"],
            round(record.create_timestamp.timestamp() * 1_000),
        )
        for record in made.instance.get_run_records(of_sensor)
        if record.create_timestamp.timestamp() * 1_000 >= since_ms
    ]


def measured(
    directory: Path, events: int, moves: int, seed: int
) -> tuple[dict[str, list[int]], dict[str, list[dict[str, int]]]]:
    """All times in ms, by what they are of; and of each run to its first op the stages."""
    lots = random.Random(seed)
    names = ("next step", "next op", "action", "first op", PEER, LATE)
    found: dict[str, list[int]] = {name: [] for name in names}
    ways: dict[str, list[dict[str, int]]] = {"first op": [], PEER: []}
    attributes = {"auto_failover": {"mode": "act", "cap_per_hour": 1_000}}
    with cockpit(directory, attributes, rate=60.0, deadline_s=2 * PATIENCE_S) as made:
        made.until_ready()
        root = made.bounce(canaries=0)
        made.until_bounce(root, "done")
        everybody = sorted(made.job.processors())
        for number in range(moves):
            took_ms = moved(made, everybody[number % len(everybody)])
            found["next op"].append(took_ms)
            console.print(f"move {number + 1} of {moves}: verified from {took_ms} ms on")
        found["next step"] = [
            placed.commit_ms - placed.held_ms
            for placed in placements(made.job.connection)
            if placed.held_ms and placed.commit_ms
        ]
        for number in range(events):
            active, began_ms = str(number % 2), now_ms()
            took = frozen(made, active, lots)
            for launched in acknowledged_since(made, began_ms):
                found[PEER].append(launched[0])
                ways[PEER].append(launched[1])
            if took is None:
                found[LATE].append(number)
                console.print(f"{number + 1} of {events}: the coordinator was first")
                continue
            found["action"].append(took[0])
            found["first op"].append(took[1])
            ways["first op"].append(took[2])
            console.print(f"{number + 1} of {events}: asked after {took[0]}, op after {took[1]} ms")
        made.until_all_run()
        verdict = made.judge()
        assert verdict.is_good, verdict
    return found, ways


def within(name: str, times: dict[str, int]) -> bool:
    """Whether median and most are within their bounds."""
    median, most = BOUNDS.get(name, (None, None))
    return (median is None or times["median"] <= median) and (most is None or times["most"] <= most)


def show(spreads: dict[str, dict[str, int]]) -> None:
    """The table."""
    table = Table(title="what an event demands, and how soon Dagster does it")
    for column in ("", "n", "median ms", "p95 ms", "most ms", "median / peer", "bounds ms"):
        table.add_column(column, justify="right" if column else "left")
    for name, times in spreads.items():
        median, most = BOUNDS.get(name, (None, None))
        bounds = f"{median or '-'}, {most or '-'}"
        ratio = f"{times['median'] / spreads[PEER]['median']:.2f}"
        table.add_row(name, *(str(value) for value in times.values()), ratio, bounds)
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """A table on stderr, JSON on stdout and in the file; exit 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=12, help="agents that are frozen")
    parser.add_argument("--moves", type=int, default=8, help="runs of move_container")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the result there as well")
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # all that runs is ended with it
    with tempfile.TemporaryDirectory() as scratch:
        found, ways = measured(Path(scratch), asked.events, asked.moves, asked.seed)
    late = found.pop(LATE)
    spreads = {name: spread(times) for name, times in found.items() if times}
    show(spreads)
    console.print(stages_table(ways))
    document = json.dumps(
        {
            "version": 1,
            "spread": spreads,
            "ms": found,
            "stages_ms": ways,
            "bounds_ms": BOUNDS,
            LATE: late,
        }
    )
    print(document)
    if asked.json:
        keep(document, asked.json)
    console.print(f"{LATE}: {len(late)} of {asked.events}")
    return 0 if not late and all(within(*one) for one in spreads.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
