"""Whatever processors are called, their tasks tell who is a standby of whom: in every table and plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.client.views import ActionView, HostView, JobView, ProcessorView, ReplicaLag
from samza_dagster.errors import Refused
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import standby_task_name
from samza_dagster.orchestration.assets.datasets import host_cells
from samza_dagster.orchestration.config import CatchUp
from samza_dagster.orchestration.operations.runs import RunLedger
from samza_dagster.orchestration.operations.schedule import Progress
from samza_dagster.orchestration.plans.bounce import (
    RollingBounceConfig,
    UnitsPlan,
    describe,
    make_plan,
)
from samza_dagster.orchestration.plans.conditions import Reported
from samza_dagster.orchestration.plans.drain import DrainRules, drain_units
from samza_dagster.orchestration.plans.move import (
    find_processor,
    host_for_standby,
    host_map,
    standby_for,
)
from samza_dagster.orchestration.plans.order import (
    CONTAINERS,
    HOSTS,
    busy_groups,
    order_of,
)
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.watch import invariants
from samza_dagster.orchestration.watch.lag_objectives import breaches
from samza_dagster.orchestration.watch.observation import observation_of
from samza_dagster.orchestration.watch.settings import LagObjective

pytestmark = pytest.mark.unit

PLACES = ("h1", "h2", "h3", "h4", "h5")
UUID = "550e8400-e29b-41d4-a716-446655440000"
OF_UUID = "93b1f6de-77aa-4b0c-8f43-000000000000"
ACTIVES = {UUID: "Partition 0", "proc-1": "Partition 1", "proc-2": "Partition 2"}
STANDBYS = {OF_UUID: UUID, "spare": "proc-1"}
CONFIG, POLICIES = RollingBounceConfig(canaries=0, at_once=2), PlacementPolicies()
STATES = st.sampled_from(["running", "running", "running", "last-seen", "starting", "leaving"])


def told(view: JobView) -> dict[str, Callable[[], object]]:
    """What is shown of a job, and what plans would do to it, by name."""
    lags = [
        ReplicaLag(p, v.tasks[0], v.mode, "store", "log", 0, v.host, 90, 7, 83, 1)
        for p, v in view.processors.items()
    ]
    rows = [
        {"job_name": "demo", "job_id": "1", "processor_id": p, "mode": v.mode.value}
        | {"host": v.host, "lag_records": 83}
        for p, v in view.processors.items()
    ]
    known = (Reported.by(lags), CatchUp(100, 0.0, 0.0))
    first = next(iter(view.processors))
    return {
        "map": lambda: host_map(view),
        "map of a snapshot": lambda: host_cells(rows),
        "same host": lambda: invariants.same_host(view),
        "replicas": lambda: invariants.replicas_present(view),
        "owners": lambda: invariants.one_owner(view),
        "lag": lambda: invariants.within_limit(lags, 50),
        "objectives": lambda: breaches([LagObjective(records=50)], lags, {}),
        "observation": lambda: observation_of(view, lags),
        "standbys": lambda: observation_of(view, lags).standbys,
        "busy": lambda: busy_groups(view, ()),
        "bounce": lambda: order_of(view, CONTAINERS),
        "bounce told": lambda: describe(make_plan(view, CONFIG, POLICIES)),
        "bounce by hosts": lambda: order_of(view, HOSTS),
        "drain": lambda: drain_units(view, "h1", *known, DrainRules()),
        "drain cold": lambda: drain_units(view, "h1", *known, DrainRules(cold=True)),
        "standby's host": lambda: host_for_standby(view, first, "h1", "h2", makes_room=True),
        "its standby": lambda: standby_for(view, find_processor(view, first), None),
    }


def text(of: Callable[[], object], names: Mapping[str, str]) -> str:
    """What is told, with the names that Samza would have given."""
    try:
        said = repr(of())
    except Refused as refused:
        said = str(refused)
    for opaque, name in names.items():
        said = said.replace(opaque, name)
    return said


@st.composite
def jobs(draw: st.DrawFn) -> JobView:
    """A job with Samza's names: each active and up to two standbys, on a few hosts."""
    processors: dict[str, ProcessorView] = {}
    for number in range(draw(st.integers(1, 4))):
        active, task = f"c{number:02}", f"Partition {number}"
        members = {active: (TaskMode.ACTIVE, task)}
        for replica in range(draw(st.integers(0, 2))):
            standby = standby_task_name(task, replica)
            members[f"{active}-{replica}"] = (TaskMode.STANDBY, standby)
        for name, (mode, own) in members.items():
            host, state, extra = draw(st.sampled_from(PLACES)), draw(STATES), draw(st.booleans())
            is_extra = extra and mode is TaskMode.STANDBY
            processors[name] = ProcessorView(
                name, mode, state, host, f"e-{len(processors)}", (own,), "h2", extra=is_extra
            )
    about = draw(st.none() | st.sampled_from(sorted(processors)))
    actions = () if about is None else (ActionView("u1", about, "h5", "held", 0),)
    hosts = {
        name: HostView(name, draw(st.sampled_from(["alive", "alive", "lost"])), 900, 400)
        for name in PLACES
    }
    coordinator = draw(st.sampled_from(["samza_dagster", "samza"]))
    return JobView(
        *("demo", "1", "run-1", processors, hosts, actions),
        coordinator=coordinator,
        container_memory_mb=100,
    )


@given(job=jobs())
def test_a_job_of_opaque_ids_is_told_and_planned_as_one_with_samza_s_names(job: JobView) -> None:
    """Each id is a UUID of its own, a standby's too; only their order is that of the names."""
    opaque = {
        name: f"1{at:03}abcd-8f6a-4b0e-9a53-7d2b8b3c5d{at:02}"
        for at, name in enumerate(sorted(job.processors))
    }
    same = replace(
        job,
        processors={
            opaque[name]: replace(known, processor_id=opaque[name])
            for name, known in job.processors.items()
        },
        actions=tuple(replace(a, processor_id=opaque[a.processor_id]) for a in job.actions),
    )
    names = {ident: name for name, ident in opaque.items()}
    expected, found = told(job), told(same)
    assert {what: text(of, names) for what, of in found.items()} == {
        what: text(of, {}) for what, of in expected.items()
    }


def named_job() -> JobView:
    """Two actives that people named alike and one with a UUID, two standbys; each on its own host."""
    tasks = {pid: (TaskMode.ACTIVE, task) for pid, task in ACTIVES.items()}
    for standby, active in STANDBYS.items():
        tasks[standby] = (TaskMode.STANDBY, standby_task_name(ACTIVES[active], 0))
    processors = {
        pid: ProcessorView(pid, mode, "running", f"h{at}", f"e{at}", (task,))
        for at, (pid, (mode, task)) in enumerate(tasks.items())
    }
    return JobView("demo", "1", "run-1", processors, {}, coordinator="samza_dagster")


def bounce() -> UnitsPlan:
    """Of the whole job."""
    return make_plan(named_job(), RollingBounceConfig(canaries=0), PlacementPolicies())


def test_a_bounce_s_log_names_the_group_that_the_job_has() -> None:
    """Not what the ids look like."""
    said: list[Any] = []
    log = SimpleNamespace(info=lambda _, extra: said.append(extra["group"]))
    run = SimpleNamespace(run_id="run")
    context = cast("Any", SimpleNamespace(log=log, instance=None, run=run))
    for pid in (OF_UUID, "spare", "proc-2"):
        RunLedger(context, bounce()).log("it waits", Progress.of(bounce().unit_of[pid]))
    assert said == [UUID, "proc-1", "proc-2"]
