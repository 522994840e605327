"""Downtime of an active, by how it comes back and by how much state it has.

`make bench-downtime` (255 moves with the defaults, two hours and more; `--within` or a SIGTERM ends it earlier,
and the same command goes on from what its file has, for the same code on the same machine). Real Samza containers
under a steady load; downtime is the longest silence of the moved tasks' outputs, by the broker's
timestamps. For each size of the state, side by side in one sandbox, in turns (a few of each, then the next size):

- `planned move`: onto its standby's host (destination STANDBY);
- `failover`: it is killed, and there is no room for it but in its standby's place;
- `same host`: it is killed, and starts where it was;
- `cold host`: placed on a host whose copy of the state was wiped: the peer, what a
  restore from the changelog costs;
- `host lost`, in each fourth turn: everything on its host is killed; from the moment at which the
  coordinator declared that it has ended, since what comes before is the silence it was told to suffer.

A move that fails is told, with what was wrong, and another sandbox goes on, three times at most.
Exit status 0: all of it was measured and nothing failed, within the bounds, with the inputs' rate that was asked
for, and onto the standby downtime doesn't grow with the state (`downtime_judgement`).

Each container's consumers have a quota, above what they read at rest: on a loopback with a fast
disk a restore of this size would cost nothing, in a cluster it takes the network's time. With much state it is
lifted while a displaced standby is restored, after the active's outputs are back.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.downtime_judgement import (
    Move,
    Results,
    figures,
    keep,
    resumed,
    what_is_wrong,
)
from benchmarks.downtime_moves import sandbox_of
from benchmarks.downtime_picture import console, downtime_svg, show
from benchmarks.downtime_plan import Times, measure_all
from benchmarks.measured_code import ROOT, closure, digest, this_commit, this_machine
from samza_dagster.interrupts import interrupts_raise

PROCESSES = (
    "benchmarks.failover",
    "samza_dagster.agent.main",
    "samza_dagster.coordinator.command",
    "samza_dagster.coordinator.command",
    "samza_dagster.sandbox.load",
)
"""What such a run starts."""
NOT_RUN = (
    "samza_dagster.orchestration",
    "samza_dagster.snapshots",
    "samza_dagster.sandbox.dagster_stack",
    "benchmarks.downtime_picture",
)
"""Imported somewhere on the way, and without a part in what is measured."""


def this_code() -> str:
    """A digest of what is measured and what measures: the processes' own modules, and what containers run on."""
    package = ROOT / "samza_dagster"
    others = [*(package / "java").rglob("*.java"), package / "sandbox" / "artifacts.toml"]
    return digest({*closure(PROCESSES, NOT_RUN).values(), *others})


def main() -> int:
    """Exit 1 unless all was measured and is as it has to be; tells what isn't."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=20, help="of each kind at each size")
    parser.add_argument("--in-a-row", type=int, default=10, help="of one size, before the next")
    parser.add_argument("--state-mb", type=float, default=16.0, help="per active, at ×1")
    parser.add_argument("--sizes", default="1,4,16", help="multiples of it")
    parser.add_argument("--rate", type=float, default=1000.0, help="messages a second a partition")
    parser.add_argument(
        "--quota",
        type=int,
        default=8_000_000,
        help="bytes a second for restores, of each container",
    )
    parser.add_argument("--actives", type=int, default=1, help="each with one standby and 2 tasks")
    parser.add_argument(
        "--json", type=Path, help="the result, kept move by move; what it has isn't measured again"
    )
    parser.add_argument("--within", type=float, default=math.inf, help="seconds to be over in")
    given = parser.parse_args()
    interrupts_raise(signal.SIGINT, signal.SIGTERM)
    sizes = [given.state_mb * float(times) for times in given.sizes.split(",")]
    setting = {
        "state_mb": sizes, "rate": given.rate, "quota": given.quota, "actives": given.actives,
        "code": this_code(), "machine": this_machine(),
    }  # fmt: skip
    told_on = console()
    kept = resumed(given.json, setting)
    commits = list(dict.fromkeys([*kept.commits, this_commit()]))
    kept = kept._replace(commits=commits)

    def begin(size: float) -> AbstractContextManager[Callable[[str], Move]]:
        return sandbox_of(size, given.rate, given.quota, given.actives, told_on.print)

    def save() -> None:
        if given.json is not None:
            keep(given.json, setting, kept)

    cut_short: list[str] = []
    try:
        times = Times(time.monotonic() + given.within)
        measure_all(kept.results, kept.failed, begin, given.moves, given.in_a_row, save, times)
    except KeyboardInterrupt:
        cut_short.append("ended by a signal")
    wrong = [*what_is_wrong(kept.results, moves=given.moves, rate=given.rate), *kept.failed]
    tell(kept.results, given.json)
    for reason in (*wrong, *cut_short):
        told_on.print(reason, markup=False)
    outcome = {"commits": commits, "good": not (wrong or cut_short), "wrong": [*wrong, *cut_short]}
    print(json.dumps({**figures(kept.results), **outcome}))
    return 1 if wrong or cut_short else 0


def tell(results: Results, file: Path | None) -> None:
    """Table and bars on stderr, the plot beside the file; nothing of nothing."""
    told = figures(results)
    if not told["by_state_mb"]:
        return
    show(results, told["slopes"], console())
    if file is not None:
        file.with_suffix(".svg").write_text(downtime_svg(results))


if __name__ == "__main__":
    sys.exit(main())
