"""Runs a real coordinator that kills itself with SIGKILL at one chosen point, or counts them.

The file that `SAMZA_DAGSTER_KILL_FILE` names arms it: `{"pid", "arm", "point", "number",
"what"}`, read at every point. The process with this pid numbers what it reaches from 1,
anew for each `arm`, appends it to `<file>.trace` and dies at the chosen number, or where
`what` happens first. Points:

- `before-commit`, `after-commit`: of a step's transaction; a leader's beats aren't counted;
- `after-effect`: a command was handed to the cluster, and is on its way to an agent or not yet;
- `before-acknowledgement`: the agent has carried it out and said so, nobody has heard it.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from samza_dagster.cluster import local
from samza_dagster.cluster.agent_messages import Sync
from samza_dagster.cluster.host_book import HostBook
from samza_dagster.coordinator import durable
from samza_dagster.coordinator.command import run_command
from samza_dagster.coordinator.effects import EffectRunner
from samza_dagster.coordinator.kafka import KafkaLog
from samza_dagster.placement import commands
from tests.rig.crashing_points import same_in_each_run

FILE = Path(os.environ["SAMZA_DAGSTER_KILL_FILE"])
TRACE = FILE.with_suffix(".trace")
SEEN: Counter[tuple[str, str]] = Counter()
LOCK = threading.Lock()


def reached(point: str, what: str) -> None:
    """Counts while this process is the armed one, and dies at the chosen count."""
    try:
        armed = json.loads(FILE.read_text())
    except FileNotFoundError:
        return
    if armed["pid"] != os.getpid():
        return
    with LOCK:
        SEEN[(armed["arm"], point)] += 1
        number = SEEN[(armed["arm"], point)]
        with TRACE.open("a") as trace:
            line = {"arm": armed["arm"], "point": point, "number": number, "what": what}
            trace.write(json.dumps(line) + "\n")
        chosen = armed["what"] or None
        if point == armed["point"] and (
            number == armed["number"] or same_in_each_run(what) == chosen
        ):
            os.kill(os.getpid(), signal.SIGKILL)


real_commit = KafkaLog.commit
real_run = EffectRunner.run
real_acknowledge = local.acknowledge


def commit(self: KafkaLog, records: Any, projections: Any, stream_records: Any = ()) -> None:
    keys = [key for key, _ in records]
    if keys == [durable.LEADER] and not projections and not stream_records:
        real_commit(self, records, projections, stream_records)
        return
    what = " ".join([*keys, *(type(projection).__name__ for projection in projections)])
    reached("before-commit", what)
    real_commit(self, records, projections, stream_records)
    reached("after-commit", what)


def run(self: EffectRunner, effect: commands.Effect) -> None:
    real_run(self, effect)
    if not isinstance(effect, commands.CountMetric):
        about = getattr(effect, "processor_id", getattr(effect, "request_id", ""))
        reached("after-effect", f"{type(effect).__name__} {about}".strip())


def acknowledge(book: HostBook, sync: Sync, *rest: Any, **named: Any) -> None:
    for done in sync.acknowledged:
        if done.id in book.commands:
            reached("before-acknowledgement", f"{book.commands[done.id]['kind']} {sync.host}")
    real_acknowledge(book, sync, *rest, **named)


KafkaLog.commit = commit  # type: ignore[method-assign]
EffectRunner.run = run  # type: ignore[method-assign]
local.acknowledge = acknowledge

if __name__ == "__main__":
    run_command()
