"""The judge of a virtual world: every step and every change of the world, all invariants.

It knows the events, the commands and the truth of the world. Of the state it reads
what is claimed (who runs, who waits), never why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import Step, next_deadline_ms
from samza_dagster.placement.state import Fencing, Group, JobState, Phase, Processor
from samza_dagster.simulation.judges import answers, laws, ownership, upkeep
from samza_dagster.simulation.judges.chronicle import Chronicle
from samza_dagster.simulation.judges.quiescence import judge_quiet
from samza_dagster.simulation.judges.recovery_equivalence import judge_restart
from samza_dagster.simulation.judges.taken import Taken
from samza_dagster.simulation.judges.truth import Truth
from samza_dagster.simulation.judges.violation import ONE_OWNER, InvariantViolated


class InvariantJudge:
    """Raises `InvariantViolated` at the first thing that breaks a rule.

    It is shown every step that was committed, once, in order, before the effects of the
    step leave; a step whose transaction didn't commit never happened. It is shown the
    world after each change of its processes.
    """

    def __init__(self, chronicle: Chronicle | None = None, *, by_law: bool = True) -> None:
        """Without `by_law` it is the ten invariants alone, for steps that are made up."""
        self._chronicle = Chronicle() if chronicle is None else chronicle
        self._by_law = by_law

    @property
    def premises(self) -> Counter[str]:
        """Per invariant, how often there was something to judge: 0 shows an idle check."""
        return self._chronicle.premises

    def fork(self) -> InvariantJudge:
        """A judge with the same memory that goes its own way."""
        return InvariantJudge(self._chronicle.fork(), by_law=self._by_law)

    def step(self, before: JobState, event: ev.Event, result: Step, truth: Truth) -> None:
        """One committed step of the heart. Costs about what changed."""
        chronicle, after, commands = self._chronicle, result.state, result.commands
        chronicle.limits = after.limits
        if after.limits.fencing is Fencing.LEASE:
            chronicle.leased_epoch = chronicle.epoch
        chronicle.hear(event)
        changed = _changed(before, after)
        if before.deployment_id != after.deployment_id:
            chronicle.falling_back.clear()
        for old, group in changed:
            self._rename(old, group)
        again = isinstance(event, ev.CoordinatorRestarted)
        if isinstance(event, ev.RequestArrived):
            answers.judge_arrival(chronicle, before, event, after, commands)
        elif isinstance(event, ev.ContainerCheckedIn):
            answers.take_check_in(chronicle, before, event)
        elif isinstance(event, ev.RequestRefused):
            answers.take_refusal(chronicle, before, event)
        elif isinstance(event, ev.CoordinatorRestarted):
            judge_restart(chronicle, before, event, result)
        elif isinstance(event, ev.TimePassed) and before.hosts is not after.hosts:
            # Those that never registered with this leader.
            silent = {host for host, it in before.hosts.items() if it.alive}
            chronicle.fell_silent({host for host in silent if not after.hosts[host].alive})
        if commands:
            self._judge_records(commands, truth)
            stalled = event.execution_id if isinstance(event, ev.StandbyStalled) else ""
            self._judge_stops(before, after, commands, stalled=stalled)
            self._judge_responses(before, after, commands, truth, again=again)
            if chronicle.falling_back:
                self._judge_ways_back(before, after, commands)
        for old, group in changed:
            if group is not None:
                self._judge_begin(old, group, after)
                ownership.judge_order(chronicle, group)
        for command in commands:
            chronicle.lay_down(command)
        self._judge_progress(changed, after)
        if self._by_law:
            laws.judge_step(chronicle, Taken(before, event, after, commands, changed))

    def world_changed(self, truth: Truth) -> None:
        """Processes began, were released, were refused or ended; hosts froze or thawed."""
        ownership.judge_world(self._chronicle, truth)

    def quiesced(
        self, state: JobState, truth: Truth, room: Mapping[str, int] | None = None
    ) -> None:
        """Nothing is under way any more but waits that time alone doesn't end.

        `room`: how many more containers each host that answers could take.
        """
        judge_quiet(self._chronicle, state, truth, room)
        if self._by_law:
            laws.judge_end(self._chronicle, state)

    def _rename(self, old: Group | None, group: Group | None) -> None:
        """Keeps up which processors there are. One that was removed begins anew."""
        chronicle = self._chronicle
        now: Mapping[str, Processor] = group.processors if group is not None else {}
        if old is not None:
            for pid in old.processors:
                if pid not in now:
                    chronicle.removed.add(pid)
                    chronicle.ever_removed.add(pid)
                    chronicle.falling_back.pop(pid, None)
        if group is not None:
            for pid, processor in now.items():
                chronicle.groups[pid] = group.group_id
                if processor.phase is Phase.RUNNING:
                    chronicle.falling_back.pop(pid, None)

    def _judge_records(self, commands: tuple[cmd.Command, ...], truth: Truth) -> None:
        for command in commands:
            if isinstance(command, cmd.RecordCertificate):
                ownership.judge_record(self._chronicle, command.record, truth)
        for command in commands:
            if isinstance(command, cmd.StartContainer):
                known = self._chronicle.started.get(command.execution_id)
                if known is None or known[1].host != command.host:
                    raise InvariantViolated(
                        ONE_OWNER, f"{command.execution_id} starts on {command.host}, unrecorded"
                    )
                ownership.judge_start(self._chronicle, command, truth)

    def _judge_stops(
        self,
        before: JobState,
        after: JobState,
        commands: tuple[cmd.Command, ...],
        *,
        stalled: str,
    ) -> None:
        if before.deployment_id != after.deployment_id:
            return
        for command in commands:
            if isinstance(command, cmd.StopContainer):
                upkeep.judge_stop(self._chronicle, command, before, after, stalled=stalled)

    def _judge_ways_back(
        self, before: JobState, after: JobState, commands: tuple[cmd.Command, ...]
    ) -> None:
        for command in commands:
            if isinstance(command, cmd.RequestResource):
                upkeep.judge_way_back(self._chronicle, command, before, after, commands)

    def _judge_begin(self, old: Group | None, group: Group, after: JobState) -> None:
        action = group.action
        if action is None:
            return
        was = old.action if old is not None else None
        if was is None or was.ask.uuid != action.ask.uuid:
            answers.judge_begin(self._chronicle, action.ask.uuid, old, after, group)

    def _judge_responses(
        self,
        before: JobState,
        after: JobState,
        commands: tuple[cmd.Command, ...],
        truth: Truth,
        *,
        again: bool,
    ) -> None:
        stopped_now: frozenset[str] | None = None
        for command in commands:
            if not isinstance(command, cmd.WriteResponse):
                continue
            asked = answers.judge_response(self._chronicle, command, again=again)
            if asked is None:
                continue
            if command.status == "SUCCEEDED":
                answers.judge_success(self._chronicle, asked, after, truth)
            elif command.status == "FAILED":
                if stopped_now is None:
                    stopped_now = self._stopped_now(commands)
                upkeep.judge_failure(
                    self._chronicle,
                    asked,
                    after,
                    stopped_now=stopped_now,
                    new_deployment=before.deployment_id != after.deployment_id,
                )

    def _stopped_now(self, commands: tuple[cmd.Command, ...]) -> frozenset[str]:
        return frozenset(
            command.execution_id
            for command in commands
            if isinstance(command, cmd.StopContainer)
            and command.execution_id not in self._chronicle.told_to_stop
            and command.execution_id not in self._chronicle.ended
        )

    def _judge_progress(
        self, changed: list[tuple[Group | None, Group | None]], after: JobState
    ) -> None:
        if not changed:
            return
        due_ms = next_deadline_ms(after)
        waiting = False
        for _, group in changed:
            if group is not None:
                upkeep.judge_group(self._chronicle, group, after, due_ms)
                waiting = waiting or any(
                    p.phase is Phase.WAITING for p in group.processors.values()
                )
        if waiting:
            upkeep.judge_turns(after, due_ms)


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
