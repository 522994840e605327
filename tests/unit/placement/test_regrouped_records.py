"""Who may own tasks that a deployment has given to other groups, as far as records tell."""

from __future__ import annotations

from typing import Any

import pytest

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.audit_form import Rule
from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.placement.state import Phase
from samza_dagster.placement.verification import verify
from tests.simulation.steps import handle
from tests.unit.placement.chronicle import Chronicle, found
from tests.unit.placement.scenes import PLACES, QUICK, Scene, fresh

pytestmark = pytest.mark.unit

ONE, TWO = {"0": ("0",)}, {"0": ("0",), "1": ("1",)}


def regrouped(**fields: Any) -> list[AuditRecord]:
    """`0` had all tasks; under another grouping `1` has half of them, and starts beside it."""
    job = Chronicle()
    job.start("0", "host-1", grouping="all in one")
    after: dict[str, Any] = {"grouping": "halves", "deployment_id": "2-b"}
    job.start("1", "host-2", **(after | fields))
    return job.records


def test_where_tasks_changed_groups_none_starts_before_the_earlier_have_ended() -> None:
    """The predecessor of its own processor id says nothing of who had its tasks."""
    records = regrouped()
    violation = found(records)
    assert (violation.position, violation.rule) == (2, Rule.REGROUPED)
    assert records[0].execution_id in violation.seen
    assert records[1].execution_id in violation.seen


@pytest.mark.parametrize("how", ["dead", "fenced", "lease"])
def test_they_start_once_the_earlier_have_ended(how: str) -> None:
    """Whichever way: they own nothing any more."""
    job = Chronicle()
    job.end(job.start("0", "host-1", grouping="all in one"), how)
    job.start("1", "host-2", grouping="halves")
    job.start("2", "host-3", grouping="halves")
    assert verify(job.records).ok


def deployed(world: Scene, run: str, groups: dict[str, tuple[str, ...]], grouping: str) -> None:
    handle(world, ev.JobDeployed(world.now_ms, run, groups, PLACES, QUICK, grouping))


def test_a_heart_that_waits_for_the_owners_before_leaves_a_history_that_shows_it() -> None:
    """From one container to two: each start says how tasks are grouped, and the order is right."""
    world = fresh()
    deployed(world, "run-1", ONE, "all in one")
    world.until_all_run()
    deployed(world, "run-2", TWO, "halves")
    world.until(lambda: world.phases().get("1") is Phase.RUNNING)
    records = [command.record for command in world.sent(cmd.RecordCertificate)]
    assert verify(records).ok
    starts = [r for r in records if r.kind == "start"]
    assert [r.grouping for r in starts] == ["all in one", "halves", "halves"]
    (end,) = [r for r in records if r.kind == "end"]
    (alien,) = [r for r in starts if r.processor_id == "1"]
    violation = found([starts[0], alien, end])
    assert (violation.position, violation.rule) == (2, Rule.REGROUPED)
