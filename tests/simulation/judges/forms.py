"""What a phase or a stage has a use for is there, and nothing besides: each field in its time."""

from __future__ import annotations

from samza_dagster.model import naming
from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import (
    Action,
    Fallback,
    Group,
    Move,
    Phase,
    Processor,
    Restart,
    Role,
    SpinUp,
    Stage,
)
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.legality import subject_of
from tests.simulation.judges.taken import Taken
from tests.simulation.judges.violation import JOURNAL_BALANCES

_HAS_PROCESS = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)
_TIMED = (Phase.STARTING, Phase.STOPPING)
_ASKED = {Phase.REQUESTING: "asked", Phase.RESERVED: "held"}


def judge_forms(chronicle: Chronicle, taken: Taken) -> None:
    """Every group that has changed."""
    for old, new in taken.changed:
        if new is None:
            continue
        for processor in new.processors.values():
            _judge_processor(chronicle, taken, processor)
        if new.action is not None:
            _judge_action(chronicle, taken, new, new.action)
        _judge_begun(taken, old, new)
        _judge_way_back(taken, old, new)
        _judge_failover(taken, new)
        if old is not None and old.failover is not None and old.failover != new.failover:
            _judge_end_of_failover(taken, old, new)


def _judge_processor(chronicle: Chronicle, taken: Taken, it: Processor) -> None:
    request = it.request
    asked = "none" if request is None else "held" if request.allocated_host else "asked"
    unstarted = (
        it.phase is Phase.STOPPING
        and it.incarnation is not None
        and it.incarnation.execution_id not in chronicle.checked_in
    )
    fine = {
        "incarnation": (it.incarnation is not None) == (it.phase in _HAS_PROCESS),
        "request": asked == _ASKED.get(it.phase, "none"),
        "deadline_ms": (it.deadline_ms is not None) == (it.phase in _TIMED),
        "start_deadline_ms": (it.start_deadline_ms is not None) == unstarted,
        "wanted": it.wanted or it.phase is Phase.STOPPING,
        "sought": it.role is Role.ACTIVE or not (it.sought or it.unplaced),
    }
    for name in (name for name, is_fine in fine.items() if not is_fine):
        raise taken.broken(JOURNAL_BALANCES, f"{name} of {it}")


def _judge_action(chronicle: Chronicle, taken: Taken, group: Group, action: Action) -> None:
    forced = action.ask.destination_host == naming.FORCE_RESTART_LAST_SEEN
    adds = isinstance(action, SpinUp) and action.stage is Stage.RESERVING
    fine = {
        "kind": not isinstance(action, Restart) or forced,
        "hold": action.stage is not Stage.HELD or action.ask.hold,
        "committed": not isinstance(action, Move)
        or action.committed == (action.ask.uuid in chronicle.committed),
        "subject": adds or subject_of(action) in group.processors,
    }
    for name in (name for name, is_fine in fine.items() if not is_fine):
        raise taken.broken(JOURNAL_BALANCES, f"{name} of {action}")


def _judge_begun(taken: Taken, old: Group | None, new: Group) -> None:
    """Its container is told to stop only while its destination is known to be held."""
    was, now = (None if group is None else group.action for group in (old, new))
    if not isinstance(now, Move) or now.stage is not Stage.STOPPING:
        return
    begins = was is None or was.stage is not Stage.STOPPING
    if begins and not now.request.confirmed:
        raise taken.broken(JOURNAL_BALANCES, f"{now} stops before its place is held again")


def _judge_way_back(taken: Taken, old: Group | None, new: Group) -> None:
    """It is to the source while that is asked for or tried, and over as the container runs."""
    was, now = (None if group is None else group.action for group in (old, new))
    if isinstance(now, Fallback):
        it = new.processors[subject_of(now)]
        begun = was is None or was.ask.uuid != now.ask.uuid or not isinstance(was, Fallback)
        named = it.request.host if it.request is not None else None
        tried = it.incarnation is not None or named is not None
        home = new.failover is None and tried
        source = now.stage is Stage.FALLBACK_SOURCE
        stays = was is not None and was.stage is Stage.FALLBACK_SOURCE
        fine = home if source else not (home and (stays or (begun and named == now.source_host)))
        if it.phase is Phase.RUNNING or not fine:
            raise taken.broken(JOURNAL_BALANCES, f"{now} of {it}")
    if not isinstance(was, Fallback) or taken.redeployed:
        return
    if now is None or now.ask.uuid != was.ask.uuid:
        ran = {said.processor_id for said in taken.every(cmd.WriteLocality)}
        if subject_of(was) not in ran:
            raise taken.broken(JOURNAL_BALANCES, f"{was} is over, and its container doesn't run")


def _judge_failover(taken: Taken, group: Group) -> None:
    """Its active asks for the standby's place, holds it, or starts there."""
    failover = group.failover
    if failover is None:
        return
    active = group.processors[failover.active_id]
    request, process = active.request, active.incarnation
    host = request.host if request is not None else process.host if process is not None else None
    over = active.phase is Phase.RUNNING
    if over or host != failover.host or failover.tried[-1:] != (failover.standby_id,):
        raise taken.broken(JOURNAL_BALANCES, f"{failover} of {active}")


def _judge_end_of_failover(taken: Taken, old: Group, new: Group) -> None:
    """It ends with what it was for: its active's request or process, or with their success."""
    assert old.failover is not None
    active_id = old.failover.active_id
    was, now = (group.processors.get(active_id) for group in (old, new))
    ran = any(said.processor_id == active_id for said in taken.every(cmd.WriteLocality))
    if was is None or now is None or ran or taken.redeployed:
        return
    had, has = ([it.request.request_id] if it.request else [it.incarnation] for it in (was, now))
    if had == has != [None]:
        raise taken.broken(JOURNAL_BALANCES, f"{old.failover} is over, and {now} goes on")
