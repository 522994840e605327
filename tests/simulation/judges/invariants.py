"""The judge of a virtual world: every step and every change of the world, all invariants.

It knows the events, the commands and the truth of the world. Of the state it reads
what is claimed (who runs, who waits), never why.
"""

from __future__ import annotations

from collections import Counter

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import Step
from samza_dagster.placement.state import Group, JobState
from tests.simulation.judges import answers, ownership, upkeep
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.durability import judge_index, judge_trail
from tests.simulation.judges.kept_down import judge_kept_down
from tests.simulation.judges.quiescence import judge_quiet
from tests.simulation.judges.recovery_equivalence import judge_restart
from tests.simulation.judges.standby_places import judge_places
from tests.simulation.judges.taken import Taken
from tests.simulation.judges.truth import Truth
from tests.simulation.judges.violation import AUDIT_VERIFIES, RECORDS_RESTORE

_INDEX_EVERY = 23
"""Of so many steps the index of one is built anew: that costs as much as the whole job."""


class InvariantJudge:
    """Raises `InvariantViolated` at the first thing that breaks a rule.

    It is shown every step that was committed, once, in order, before the effects of the
    step leave; a step whose transaction didn't commit never happened. It is shown the
    world after each change of its processes.
    """

    def __init__(self, chronicle: Chronicle | None = None) -> None:
        self._chronicle = Chronicle() if chronicle is None else chronicle

    @property
    def premises(self) -> Counter[str]:
        """Per invariant, how often there was something to judge: 0 shows an idle check."""
        return self._chronicle.premises

    def fork(self) -> InvariantJudge:
        """A judge with the same memory that goes its own way."""
        return InvariantJudge(self._chronicle.fork())

    def step(self, before: JobState, event: ev.Event, result: Step, truth: Truth) -> None:
        """One committed step of the reducer. Costs about what changed."""
        chronicle, after = self._chronicle, result.state
        taken = Taken(before, event, after, result.commands, _changed(before, after))
        chronicle.begin(taken)
        match event:
            case ev.RequestArrived():
                answers.judge_arrival(chronicle, taken, event)
            case ev.ContainerCheckedIn():
                answers.take_check_in(chronicle, before, event)
            case ev.RequestRefused():
                answers.take_refusal(chronicle, before, event)
            case ev.CoordinatorRestarted():
                judge_restart(chronicle, before, event, result)
            case _:
                pass
        if taken.commands:
            ownership.judge_records(chronicle, taken, truth)
            upkeep.judge_stops(chronicle, taken)
            self._judge_responses(taken, truth)
            upkeep.judge_ways_back(chronicle, taken)
        for old, group in taken.changed:
            if group is not None:
                answers.judge_begin(chronicle, old, group, after)
                ownership.judge_order(chronicle, group)
        for command in taken.commands:
            chronicle.lay_down(command)
        upkeep.judge_progress(chronicle, taken)
        judge_kept_down(chronicle, taken)
        judge_places(chronicle, taken)
        chronicle.steps += 1
        chronicle.premises[RECORDS_RESTORE] += taken.restarted
        if chronicle.steps % _INDEX_EVERY == 0:
            judge_index(after)

    def world_changed(self, truth: Truth) -> None:
        """Processes began, were released, were refused or ended; hosts froze or thawed."""
        ownership.judge_world(self._chronicle, truth)

    def quiesced(self, state: JobState, truth: Truth) -> None:
        """Nothing is under way any more but waits that time alone doesn't end."""
        judge_quiet(self._chronicle, state, truth)
        self._chronicle.premises[AUDIT_VERIFIES] += 1
        judge_trail(self._chronicle.trail, state)

    def _judge_responses(self, taken: Taken, truth: Truth) -> None:
        stopped_now = frozenset(
            command.execution_id
            for command in taken.every(cmd.StopContainer)
            if command.execution_id not in self._chronicle.commanded_to_stop
            and command.execution_id not in self._chronicle.ended
        )
        for response in taken.every(cmd.WriteResponse):
            asked = answers.judge_response(self._chronicle, response, again=taken.restarted)
            if asked is None:
                continue
            if response.status == "SUCCEEDED":
                answers.judge_success(self._chronicle, asked, taken.after, truth)
            elif response.status == "FAILED":
                upkeep.judge_failure(self._chronicle, asked, taken, stopped_now=stopped_now)


def _changed(before: JobState, after: JobState) -> list[tuple[Group | None, Group | None]]:
    """(old, new) of each group that isn't the same object; None where there is none."""
    if before.groups is after.groups:
        return []
    changed: list[tuple[Group | None, Group | None]] = []
    for group_id, group in after.groups.items():
        old = before.groups.get(group_id)
        if old is not group:
            changed.append((old, group))
    if len(after.groups) < len(before.groups) or any(old is None for old, _ in changed):
        changed.extend((old, None) for gid, old in before.groups.items() if gid not in after.groups)
    return changed
