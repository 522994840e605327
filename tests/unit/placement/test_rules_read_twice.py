"""The rules of places and of turns, against the simulator's own reading of them.

Histories hold them against each other where they get; here groups are drawn by lot.
"""

from __future__ import annotations

import pytest

from samza_dagster.placement import ownership, places, rules
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Group, Phase, Role
from tests.simulation.judges.legality import holders, reasons, takes_place_on
from tests.simulation.judges.standby_places import may_be_taken, rank
from tests.simulation.judges.turns import first_ready, is_ready
from tests.unit.placement.drawn import NEW, states

pytestmark = pytest.mark.unit

DRAWN = 1_000


def test_a_host_is_forbidden_for_the_reason_that_is_told() -> None:
    """A rule, who is in the way and what it does there; none where there is no reason."""
    for state, group in states(DRAWN):
        for pid in (*group.processors, NEW):
            for host in state.hosts:
                found = reasons(state, group, pid, host)
                broken = rules.violation(group, state.hosts, pid, host)
                assert (broken is None) == (not found), (group, pid, host, found, broken)
                assert broken is None or any(
                    reason.rule == broken.rule
                    and reason.who in broken.seen
                    and reason.does in broken.seen
                    and host == broken.host
                    for reason in found
                ), (group, pid, host, found, broken)


def test_all_forbidden_hosts_are_those_that_are_forbidden_one_by_one() -> None:
    """And what the group holds on hosts that the job doesn't know (yet)."""
    for state, group in states(DRAWN):
        lost = [name for name, host in state.hosts.items() if not host.alive]
        for pid in (*group.processors, NEW):
            if takes_place_on(group, pid) is not None:
                continue  # it asks for that place alone
            expected = {host for host in state.hosts if reasons(state, group, pid, host)}
            expected |= {reason.host for reason in holders(state, group, pid)}
            assert rules.forbidden_hosts(group, state.hosts, lost, pid) == expected, (group, pid)


def test_nobody_starts_beside_what_may_own_its_tasks_or_hold_its_store() -> None:
    """Its own incarnations, and whoever is on that host, also who gives way."""
    for state, group in states(DRAWN):
        for pid, processor in group.processors.items():
            own = processor.incarnation is not None or any(
                orphan.processor_id == pid and orphan.ended is None for orphan in group.orphans
            )
            for host in state.hosts:
                here = [
                    other.incarnation
                    for other in group.processors.values()
                    if other.incarnation is not None and other.incarnation.host == host
                ]
                told = rules.obstacle(group, pid, host)
                assert (told is not None) == bool(own or here), (group, pid, host)


def test_an_active_may_take_the_place_of_each_standby_that_is_fit() -> None:
    """Of those that run on request too; each of the others is refused with its reason."""
    for state, group in states(DRAWN):
        active = group.processors[group.group_id]
        standbys = [p for p in group.processors.values() if p.role is Role.STANDBY]
        step = Draft(state, state.now_ms).at(group.group_id)
        fit = {p.processor_id for p in standbys if may_be_taken(state, group, active, p)}
        running = {pid for pid in fit if group.processors[pid].phase is Phase.RUNNING}
        ranked = places.ranked(step, active.processor_id)
        assert set(ranked) == fit, group
        ready = places.ready(step, active.processor_id)
        assert set(ready) == running
        if group.action is None and group.failover is None and not group.orphans:
            ordered = sorted(running, key=lambda pid: rank(state, group, group.processors[pid]))
            assert ready == ordered, (state.lags, group)
        refused = list(places.refusals(group, state.hosts, active.processor_id))
        assert len(refused) == len(standbys) - len(running)
        for standby in standbys:
            broken = places.violation(group, state.hosts, active, standby)
            assert (broken is None) == (standby.processor_id in running)
            assert broken is None or (broken in refused and broken.seen and broken.change)
            if broken is not None and standby.phase is not Phase.RUNNING:
                runs, last = standby.incarnation, standby.last_seen_host
                assert broken.host == (runs.host if runs is not None else last or "")
                assert broken.host in broken.seen


def test_the_first_request_that_is_ready_has_its_turn() -> None:
    """In a group that nothing else happens in."""

    def free(group: Group) -> Group:
        return group.evolve(action=None, failover=None)

    for _, group in states(DRAWN):
        for ask in group.queue:
            assert ownership.is_ready(group, ask) == is_ready(group, ask), (group, ask)
        for it in (group, free(group)):
            assert ownership.next_ask(it) == first_ready(it), it
