"""A plan of ten thousand containers has room in one event, and its record loses nothing."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, cast

import pytest
from dagster import serialize_value

from samza_dagster.client.views import HostView, JobView, ProcessorView
from samza_dagster.model import TaskMode
from samza_dagster.orchestration.chain import kept, read_back, unpacked
from samza_dagster.orchestration.config import CatchUp
from samza_dagster.orchestration.operations.schedule import EndedStep, Progress
from samza_dagster.orchestration.operations.shown import (
    _map_and_tables,
    outcomes_table,
    pictures,
    plan_markdown,
    plan_table,
    steps_table,
)
from samza_dagster.orchestration.operations.work import Chain, UnitWork
from samza_dagster.orchestration.plans.move import HostRow, UnitLimits, host_map
from samza_dagster.orchestration.plans.order import Schedule
from samza_dagster.orchestration.plans.units import Kind, Unit, UnitsPlan, UnitStep
from samza_dagster.orchestration.requests.verify import OwnCommits
from samza_dagster.orchestration.show.pictures import MOST_BYTES

pytestmark = pytest.mark.unit
LIMITS = UnitLimits(120, 600, 120, CatchUp(1, 30, 3_600))


def without_standbys(actives: int) -> JobView:
    hosts = {f"host-{n}": HostView(f"host-{n}", "alive", 640_000, 400_000) for n in range(100)}
    return JobView(
        job_name="demo",
        job_id="1",
        deployment_id="run-1",
        processors={
            str(n): ProcessorView(str(n), TaskMode.ACTIVE, "running", f"host-{n % 100}", f"e{n}")
            for n in range(actives)
        },
        hosts=hosts,
        coordinator="samza_dagster",
    )


def plan_of(actives: int) -> UnitsPlan:
    """Of the units of as many actives, with something to know of each."""
    units = tuple(
        Unit(
            *(str(n), "move", "no state to restore"),
            (UnitStep("move", Kind.PLACE, str(n), f"host-{n % 100}"),),
            group_id=str(n),
        )
        for n in range(actives)
    )
    notices = tuple(f"{n}: what is to be known of this one" for n in range(actives))
    before = host_map(without_standbys(actives))
    return UnitsPlan(
        "drain_host",
        "host-1",
        "demo/1",
        "samza_dagster",
        units,
        Schedule(at_once=4),
        LIMITS,
        before,
        notices=notices,
    )


def test_the_plan_of_ten_thousand_containers_has_room_in_one_event() -> None:
    """Its tables are cut, with the number of those that aren't shown; its record is whole."""
    plan = plan_of(10_000)
    assert len(plan.units) == 10_000
    record: dict[str, Any] = {"asked": {"destinations": [f"host-{n}" for n in range(10_000)]}}
    record["plan"] = asdict(plan)
    text, shown = plan_markdown(plan), plan_table(plan)
    sizes = [
        len(text.encode()),
        len(serialize_value(shown)),
        len(json.dumps(kept(record))),
    ]
    assert sum(sizes) < MOST_BYTES, sizes
    number = len(shown.records) - 1
    assert shown.records[-1].data["what"] == f"and {10_000 - number:,} more"
    assert text.count("\n| … | and ") == 2 - ("more hosts" not in text)
    assert "\n- and " in text
    again = unpacked(json.loads(json.dumps(kept(record))))
    assert read_back(UnitsPlan, again["plan"]) == plan
    assert again["asked"] == record["asked"]


def test_a_small_plan_is_shown_whole_and_kept_as_it_is() -> None:
    """Nothing is cut that has room."""
    plan = plan_of(3)
    assert "…" not in plan_markdown(plan)
    assert len(plan_table(plan).records) == 3
    record = {"asked": {}, "plan": asdict(plan)}
    assert kept(record) == unpacked(kept(record)) == record


@pytest.mark.parametrize(("hosts", "domain"), [(50, ".eu-central-1.compute.internal"), (1_000, "")])
def test_a_bounce_of_a_thousand_shows_its_map(hosts: int, domain: str) -> None:
    """With the tables beside it; of both maps the one after where only one has room."""
    rows = tuple(
        Progress(str(n), f"host-{n % hosts}{domain}", "active", why="x" * 160) for n in range(1_000)
    )
    on: dict[str, list[str]] = {}
    for row in rows:
        on.setdefault(row.host, []).append(f"{row.processor} active running")
    map_ = [HostRow(host, "alive", tuple(there)) for host, there in on.items()]
    shown = _map_and_tables(map_, map_, rows)
    assert "data:image/svg+xml" in str(shown["hosts_and_containers"].value)
    assert sum(len(serialize_value(value)) for value in shown.values()) < MOST_BYTES - 30_000
    assert len(shown["outcomes"].records) > 5


def test_a_bounce_of_thousands_of_hosts_shows_tables_alone() -> None:
    """A picture would leave no room for who failed."""
    rows = tuple(Progress(str(n), f"host-{n}", "active") for n in range(3_000))
    map_ = [HostRow(row.host, "alive", (f"{row.processor} active running",)) for row in rows]
    shown = _map_and_tables(map_, map_, rows)
    assert "data:image/svg+xml" not in str(shown["hosts_and_containers"].value)
    assert len(shown["outcomes"].records) > 5
    assert sum(len(serialize_value(value)) for value in shown.values()) < MOST_BYTES - 30_000


def test_what_became_of_a_thousand_containers_is_cut_too() -> None:
    """Outcomes and steps are together below the bound."""
    plan = plan_of(1_000)
    chain = Chain(
        cast("Any", None), "root", plan.coordinator, LIMITS, {}, OwnCommits(), plan.prefix
    )
    works = [UnitWork(chain, unit) for unit in plan.units]
    for one in works:
        step = one.unit.steps[0]
        one.ended += [EndedStep(step, n, n + 5, "SUCCEEDED", "x" * 200) for n in range(2)]
        one.ended += [EndedStep(step, n, n + 5) for n in range(2)]
        one.moments += [("1 move", "IN_PROGRESS", n) for n in (1, 2)]
    drawn = pictures(works)
    tables = (outcomes_table([one.row for one in works]), steps_table(works), *drawn.values())
    assert sum(len(serialize_value(shown)) for shown in tables) < MOST_BYTES
    assert "more" in str(tables[1].records[-1].data["step"])
