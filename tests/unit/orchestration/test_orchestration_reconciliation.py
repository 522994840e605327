"""From the job as it stands to the wanted placement: which steps, why, and what is only told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.client.views import ActionView, HostView, JobView, ProcessorView
from samza_dagster.errors import Refused
from samza_dagster.model import TaskMode
from samza_dagster.model.naming import group_of
from samza_dagster.orchestration.plans.reconcile import (
    LEFT_OVER,
    MISSING,
    PINNED,
    SHARED_HOST,
    WantedPlacement,
    reconcile,
)
from samza_dagster.orchestration.plans.units import Kind, Unit

pytestmark = pytest.mark.unit
HOSTS = [f"h{n}" for n in range(6)]
AS_IT_SHOULD = {"0": "h0", "0-0": "h1", "1": "h1", "1-0": "h0"}


def job(at: dict[str, str], extra: tuple[str, ...] = ()) -> JobView:
    return JobView(
        job_name="demo",
        job_id="1",
        deployment_id="run-1",
        processors={
            p: ProcessorView(
                p,
                TaskMode.STANDBY if "-" in p else TaskMode.ACTIVE,
                "running",
                host,
                extra=p in extra,
            )
            for p, host in at.items()
        },
        hosts={h: HostView(h, "alive", free_memory_mb=10_000) for h in HOSTS},
        container_memory_mb=300,
        coordinator="samza_dagster",
    )


def after(view: JobView, units: tuple[Unit, ...]) -> JobView:
    """The job once the steps are done, each held against the same-host rule of its moment."""
    at = {p: str(known.host) for p, known in view.processors.items()}
    extra = {p for p, known in view.processors.items() if known.extra}
    for unit in units:
        step = unit.steps[0]
        group = {h for p, h in at.items() if group_of(p) == unit.group_id and p != step.processor}
        if step.kind is Kind.STOP_STANDBY:
            del at[step.processor]
            extra.discard(step.processor)
        elif step.kind is Kind.START_STANDBY:
            assert step.destination not in group | {at[step.processor]}
            new = f"{step.processor}-{len(at) + 10}"
            at[new] = step.destination
            extra.add(new)
        else:
            assert step.destination not in group
            at[step.processor] = step.destination
    return job(at, tuple(extra))


@st.composite
def jobs(draw: st.DrawFn) -> tuple[JobView, WantedPlacement]:
    """Any placement, also an illegal one, with any extras, and pins that can hold."""
    at: dict[str, str] = {}
    extra: list[str] = []
    pins: dict[str, str] = {}
    for group in range(draw(st.integers(1, 4))):
        members = [str(group), *(f"{group}-{n}" for n in range(draw(st.integers(0, 3))))]
        pinned = draw(st.permutations(HOSTS))
        for number, pid in enumerate(members):
            at[pid] = draw(st.sampled_from(HOSTS))
            if "-" in pid and draw(st.booleans()):
                extra.append(pid)
            elif draw(st.booleans()):
                pins[pid] = pinned[number]
    ours = frozenset(p for p in extra if draw(st.booleans()))
    wanted = WantedPlacement(draw(st.integers(0, 3)), pins, ours, draw(st.booleans()))
    return job(at, tuple(extra)), wanted


@given(jobs())
def test_the_steps_end_in_the_wanted_placement(given_job: tuple[JobView, WantedPlacement]) -> None:
    """No two of a group on one host, nobody left over beyond the number, pins held, enough standbys."""
    view, wanted = given_job
    found = reconcile(view, wanted)
    assert found.findings == ()
    then = after(view, found.units)
    assert wanted.standbys is not None
    for group in {group_of(p) for p in then.processors}:
        members = [p for p in then.processors.values() if group_of(p.processor_id) == group]
        assert len({p.host for p in members}) == len(members)
        standbys = [p.processor_id for p in members if "-" in p.processor_id]
        assert len(standbys) >= wanted.standbys
        if len(standbys) > wanted.standbys:
            assert not set(standbys) & wanted.ours
    for pid, host in wanted.pins.items():
        assert then.processors[pid].host == host


@given(jobs())
def test_what_is_reconciled_needs_no_step(given_job: tuple[JobView, WantedPlacement]) -> None:
    """Asked again, nothing is to be done: it never goes to and fro."""
    view, wanted = given_job
    then = after(view, reconcile(view, wanted).units)
    assert reconcile(then, wanted).units == ()


@given(jobs(), st.lists(st.integers(0, 1), min_size=len(HOSTS), max_size=len(HOSTS)))
def test_no_host_is_sent_more_than_it_has_room_for(
    given_job: tuple[JobView, WantedPlacement], rooms: list[int]
) -> None:
    """Whoever leaves a host makes room there for the next; who has room nowhere is told."""
    view, wanted = given_job
    room = dict(zip(HOSTS, rooms, strict=True))
    hosts = {h: HostView(h, "alive", free_memory_mb=300 * n + 299) for h, n in room.items()}
    for unit in reconcile(replace(view, hosts=hosts), replace(wanted, pins={})).units:
        (step, known) = unit.steps[0], view.processors[unit.steps[0].processor]
        if step.kind is not Kind.START_STANDBY:
            room[str(known.host)] += 1
        if step.kind is not Kind.STOP_STANDBY:
            room[step.destination] -= 1
        assert min(room.values()) >= 0


def test_what_a_failed_run_left_over_is_removed_and_others_extras_are_not() -> None:
    """Who spun up 1-1 wanted it."""
    view = job({**AS_IT_SHOULD, "0-1": "h2", "1-1": "h3"}, ("0-1", "1-1"))
    (unit,) = reconcile(view, WantedPlacement(ours=frozenset({"0-1"}))).units
    assert (unit.processor, unit.what) == ("0-1", LEFT_OVER)
    both = reconcile(view, WantedPlacement(no_extra=True)).units
    assert [u.processor for u in both] == ["0-1", "1-1"]


def test_a_left_over_that_is_needed_for_the_number_stays() -> None:
    """The job's own standby is gone: the extra one is in its place."""
    view = job({"0": "h0", "0-1": "h2", "1": "h1", "1-0": "h0"}, ("0-1",))
    assert reconcile(view, WantedPlacement(ours=frozenset({"0-1"}))).units == ()


def test_each_reason_is_told() -> None:
    """A shared host, a pin with somebody on it, a standby that isn't there."""
    view = job({"0": "h0", "0-0": "h0", "1": "h1", "1-0": "h2", "2": "h3"})
    units = reconcile(view, WantedPlacement(pins={"1": "h2"})).units
    assert [(u.processor, u.what) for u in units] == [
        ("0-0", SHARED_HOST),
        ("1-0", PINNED),
        ("1", PINNED),
        ("2", MISSING),
    ]
    assert "it is on h0 as 0 of its group is" in units[0].why


def test_a_group_that_is_under_way_or_unwell_is_left_alone() -> None:
    """The coordinator is at it."""
    at = {"0": "h0", "0-0": "h0", "1": "h1", "1-0": "h1"}
    view = job(at)
    processors = {**view.processors, "1-0": replace(view.processors["1-0"], state="starting")}
    view = replace(
        view, processors=processors, actions=(ActionView("u", "0", "h2", "stopping", 1),)
    )
    found = reconcile(view, WantedPlacement())
    assert found.units == ()
    assert [f.about for f in found.findings] == ["0", "1-0"]


def test_under_samza_s_am_a_missing_standby_is_told_and_a_shared_host_is_ended() -> None:
    """Its wire moves, and starts nothing."""
    view = replace(job({"0": "h0", "0-0": "h0", "1": "h1"}), coordinator="samza")
    found = reconcile(view, WantedPlacement(standbys=1))
    assert [u.processor for u in found.units] == ["0-0"]
    assert "no standby on request" in found.findings[0].seen


def test_localities_that_disagree_are_told() -> None:
    """They are the coordinator's to write."""
    view = job(AS_IT_SHOULD)
    moved = replace(view.processors["0"], last_seen_host="h4")
    view = replace(view, processors={**view.processors, "0": moved})
    (finding,) = reconcile(view, WantedPlacement()).findings
    assert finding.seen == "it runs on h0, the coordinator stream says h4"


@pytest.mark.parametrize(
    ("pins", "seen"),
    [
        ({"9": "h0"}, "no processor 9"),
        ({"0": "nowhere"}, "no host nowhere"),
        ({"0": "h5"}, "h5 is lost"),
        ({"0": "h2", "0-0": "h2"}, "0 of the same group is wanted there too"),
    ],
)
def test_a_pin_that_cannot_hold_is_refused(pins: dict[str, str], seen: str) -> None:
    """Before anything is asked."""
    view = job(AS_IT_SHOULD)
    view = replace(view, hosts={**view.hosts, "h5": HostView("h5", "lost")})
    with pytest.raises(Refused, match=seen):
        reconcile(view, WantedPlacement(pins=pins))
