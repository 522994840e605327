"""What helps against a trouble, by what the coordinator can do: jobs to launch, commands to run. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from shlex import quote
from typing import TYPE_CHECKING

from samza_dagster.model.capabilities import Capabilities
from samza_dagster.orchestration.watch.cursor import OF_NO_CONTAINER, Kind

if TYPE_CHECKING:
    from samza_dagster.orchestration.watch.failover import Case
    from samza_dagster.orchestration.watch.observation import ContainerSeen, Observation

# Named as the jobs that carry them out.
FAIL_OVER = "fail_over"
MOVE_WITH_STANDBY = "move_with_standby"
"""The active takes its standby's place, where there is no fail-over."""
RESTART = "restart_container"
NOTHING = "nothing"

LEFT_TO_AM = "Samza's AM starts its containers elsewhere once YARN takes the node for lost"
_RUN_COORDINATOR = (
    "samza-dagster coordinator run --config <the job's properties> --launch"
    " <how a container is started> --token-file <the job's token> --url-file <where agents look>"
)
_RUN_PROCESSORS = (
    "samza-dagster processor run --config <the job's properties> --launch <how a"
    " container is started> --processor-id <its id> --directory <its directory>, on each host"
)
_DEPLOY_AGAIN = (
    "deploy the job again, as it was submitted before, if its YARN application has ended"
    " (yarn application -list): nobody would read a request"
)
_AM_GONE = "wait: YARN starts another Application Master by itself; else its log says why not"
_AM_REPLACED = (
    "samza-dagster status: what was in flight ended without an answer; what is still wanted is to"
    " be asked again"
)


def action(kind: Kind, can: Capabilities, *, active: bool) -> str:
    """Return the job that helps against a signal about such a container."""
    if active and (
        kind in (Kind.FALLING_BEHIND, Kind.SILENT)
        or (kind == Kind.HOST_SICK and can.shows_its_life)
    ):
        return FAIL_OVER if can.has_own_requests else MOVE_WITH_STANDBY
    # Our coordinator restarts a standby by itself; a standalone group restarts none alone.
    is_restarted = kind in (Kind.SILENT, Kind.STANDBY_STALLED) and not can.shows_its_life
    return RESTART if is_restarted and not active else NOTHING


def command(
    case: Case, seen: Observation, standbys: Sequence[ContainerSeen], bad: Collection[str]
) -> str:
    """Return what a person would run, where this coordinator takes it.

    `standbys` may take the container's place; `bad` are the hosts that look bad.
    """
    kind, can, unit = case.suspect.kind, seen.can, quote(case.processor)
    if kind in OF_NO_CONTAINER:
        if can.shows_its_life:
            return _RUN_PROCESSORS if can.places_tasks else _RUN_COORDINATOR
        return {Kind.COORDINATOR_GONE: _AM_GONE, Kind.JOB_DEAD: _DEPLOY_AGAIN}.get(
            kind, _AM_REPLACED
        )
    if can.has_own_requests:
        if standbys:
            return f"samza-dagster fail-over {unit}"
        return f"samza-dagster place {unit} --to ANY_HOST, which restores its state anew"
    if can.places_tasks:
        return _of_a_task(case, seen, standbys, bad)
    if kind == Kind.HOST_SICK:
        return f"samza-dagster status {unit}, until it is on another host"
    if case.action == RESTART:
        return f"samza-dagster place {unit} --to LAST_SEEN"
    if not standbys:
        return f"samza-dagster place {unit} --to LAST_SEEN, where its state is"
    standby = standbys[0]
    return (
        f"job move_with_standby with processor {case.processor} and standby {standby.processor_id};"
        f" or samza-dagster place {quote(standby.processor_id)} --to ANY_HOST, then samza-dagster place"
        f" {unit} --to {standby.host}"
    )


def _of_a_task(
    case: Case, seen: Observation, standbys: Sequence[ContainerSeen], bad: Collection[str]
) -> str:
    """Return the command of a standalone group: a task is moved by itself, and restarts with its processor."""
    one, unit = seen.by_id.get(case.processor), quote(case.processor)
    if case.action == MOVE_WITH_STANDBY and standbys:
        if len(seen.standbys[case.group]) == 1:
            return f"samza-dagster place {unit} --to STANDBY"
        standby = standbys[0].processor_id
        return f"job move_with_standby with processor {case.processor} and standby {standby}"
    if one is not None and not one.active and (free := seen.free_for(one) - set(bad)):
        return f"samza-dagster place {unit} --to {min(free)}"
    if one is None or not one.holder:
        return f"samza-dagster explain {unit}"
    return (
        f"samza-dagster place {quote(one.holder)} --to LAST_SEEN, which restarts that processor"
        " with all its tasks where they are"
    )
