"""Runs a real coordinator that kills itself with SIGKILL at one chosen point, or counts them.

The file that `SAMZA_DAGSTER_KILL_FILE` names arms it: a list of `{"pid", "arm", "point",
"number", "what"}`, read at every point. A process with such a pid numbers what it reaches from
1, anew for each `arm`, appends it to `<file>.trace` and dies at the chosen number, or where
`what` happens first. What concerns a fence at the brokers has numbers of its own and is found by
`what` alone: it is done beside the steps, in no fixed order with what they do. Points:

- `before-commit`, `after-commit`: of a step's transaction; a leader's beats aren't counted;
- `before-effect`: of a fence alone; before any other effect is nothing but the commit or the
  effect before it;
- `after-effect`: a command was handed to the cluster, and is on its way to an agent or not yet;
  of a fence also: its rule was set, and no broker was asked whether it knows; of a start where
  there is one also: its login was made, and no agent is told;
- `after-mark`: of a take-over; whoever leads next isn't on record yet;
- `before-acknowledgement`: the agent has carried it out and said so, nobody has heard it; of a
  fence: each broker refuses the principal, and the term doesn't know.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from samza_dagster.cluster.agent_messages import Sync
from samza_dagster.cluster.host_record import HostRecord
from samza_dagster.cluster.resource_requests import ResourceRequests
from samza_dagster.coordinator import durable
from samza_dagster.coordinator.command import run_command
from samza_dagster.coordinator.effects import EffectRunner
from samza_dagster.coordinator.fencing.broker_fence import BrokerFence
from samza_dagster.coordinator.kafka import KafkaLog
from samza_dagster.coordinator.term import Term
from samza_dagster.metadata.principal_view import PrincipalView
from samza_dagster.metadata.state_writer import StateWriter
from samza_dagster.placement import commands
from tests.rig.crashing_points import FENCE, same_in_each_run

FILE = Path(os.environ["SAMZA_DAGSTER_KILL_FILE"])
TRACE = FILE.with_suffix(".trace")
SEEN: Counter[tuple[str, str, bool]] = Counter()
LOCK = threading.Lock()


def reached(point: str, what: str) -> None:
    """Counts while this process is the armed one, and dies at the chosen count."""
    try:
        arms = json.loads(FILE.read_text())
    except FileNotFoundError:
        return
    armed = next((arm for arm in arms if arm["pid"] == os.getpid()), None)
    if armed is None:
        return
    of_fence = what.startswith(FENCE)
    with LOCK:
        SEEN[(armed["arm"], point, of_fence)] += 1
        number = SEEN[(armed["arm"], point, of_fence)]
        with TRACE.open("a") as trace:
            line = {"arm": armed["arm"], "point": point, "number": number, "what": what}
            trace.write(json.dumps(line) + "\n")
        chosen = armed["what"] or None
        if point == armed["point"] and (
            (number == armed["number"] and not of_fence) or same_in_each_run(what) == chosen
        ):
            os.kill(os.getpid(), signal.SIGKILL)


real_commit = KafkaLog.commit
real_run = EffectRunner.run
real_acknowledged = ResourceRequests.acknowledged
real_admit = BrokerFence.admit
real_fence = BrokerFence.fence_now
real_ask = PrincipalView.brokers_still_serving
real_fenced = Term.fenced
real_take_over = StateWriter.take_over


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


def acknowledged(self: ResourceRequests, record: HostRecord, sync: Sync) -> None:
    for done in sync.acknowledged:
        if done.id in record.commands:
            reached("before-acknowledgement", f"{record.commands[done.id]['kind']} {sync.host}")
    real_acknowledged(self, record, sync)


def admit(self: BrokerFence, execution_id: str) -> None:
    real_admit(self, execution_id)
    reached("after-effect", "login")


def fence_now(self: BrokerFence, execution_id: str) -> tuple[str, ...]:
    reached("before-effect", FENCE)
    return real_fence(self, execution_id)


def brokers_still_serving(self: PrincipalView) -> tuple[str, ...]:
    reached("after-effect", f"{FENCE}: its rule is set")
    return real_ask(self)


def fenced(self: Term, execution_id: str) -> None:
    reached("before-acknowledgement", FENCE)
    real_fenced(self, execution_id)


def take_over(self: StateWriter, *rest: Any, **named: Any) -> Any:
    snapshot = real_take_over(self, *rest, **named)
    reached("after-mark", "take-over")
    return snapshot


KafkaLog.commit = commit  # type: ignore[method-assign]
EffectRunner.run = run  # type: ignore[method-assign]
ResourceRequests.acknowledged = acknowledged  # type: ignore[method-assign]
BrokerFence.admit = admit  # type: ignore[method-assign]
BrokerFence.fence_now = fence_now  # type: ignore[method-assign]
PrincipalView.brokers_still_serving = brokers_still_serving  # type: ignore[method-assign]
Term.fenced = fenced  # type: ignore[method-assign]
StateWriter.take_over = take_over  # type: ignore[method-assign]

if __name__ == "__main__":
    run_command()
