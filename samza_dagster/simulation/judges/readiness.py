"""Whose process may be made ready ahead of its turn, and who counts as starting."""

from __future__ import annotations

from samza_dagster.model import naming
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.ownership import is_starting
from samza_dagster.placement.state import JobState, Phase
from samza_dagster.simulation.judges.taken import Taken
from samza_dagster.simulation.judges.violation import BOOKS_BALANCE, TRUE_CERTIFICATES

_WITHOUT_PROCESS = {None, Phase.WAITING, Phase.REQUESTING, Phase.RESERVED}


def judge_ahead(taken: Taken) -> None:
    """A process is made ready for a request while the one that it replaces runs, and only then.

    Where a step begins or ends with a process that doesn't run, it may have run within.
    """
    for said in taken.every(cmd.RequestResource):
        phases = {_phase(state, said.processor_id) for state in (taken.before, taken.after)}
        within = not phases <= _WITHOUT_PROCESS or isinstance(taken.event, ev.HostRegistered)
        runs = phases == {Phase.RUNNING}
        if runs > said.ahead or (said.ahead and not within):
            raise taken.broken(BOOKS_BALANCE, f"{said}, its processor was and is {phases}")


def _phase(state: JobState, processor_id: str) -> Phase | None:
    group = state.groups.get(naming.group_of(processor_id))
    processor = None if group is None else group.processors.get(processor_id)
    return None if processor is None else processor.phase


def judge_starting(taken: Taken) -> None:
    """A start that the brokers held up is tried again while its processor waits for it alone."""
    for both in taken.both:
        now, ended = both.now, both.ended
        starts = now is not None and now.phase is Phase.STARTING
        known = [] if ended is None else [(ended, False)]
        if now is not None and now.incarnation is not None:
            known.append((now.incarnation, starts))
        for incarnation, expected in known:
            if is_starting(taken.after, incarnation.execution_id) != expected:
                what = f"{incarnation} is told to be starting: {not expected}"
                raise taken.broken(TRUE_CERTIFICATES, what)
