"""What helps against a trouble, by the kind of coordinator: nothing else tells the kinds apart. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from samza_dagster.orchestration.watch.cursor import (
    COORDINATOR_GONE,
    COORDINATOR_REPLACED,
    FALLING_BEHIND,
    FLAPPING,
    HOST_SICK,
    JOB_DEAD,
    OF_A_HOST,
    SILENT,
    STANDBY_DOWN,
    STANDBY_STALLED,
)

if TYPE_CHECKING:
    from samza_dagster.orchestration.watch.failover import Case
    from samza_dagster.orchestration.watch.observation import ContainerSeen, Observation
    from samza_dagster.orchestration.watch.settings import Mode

    Standbys = Sequence[ContainerSeen]

# Named as the jobs that carry them out.
FAIL_OVER = "fail_over"
MOVE_WITH_STANDBY = "move_with_standby"
"""The active takes its standby's place, where there is no fail-over."""
RESTART = "restart_container"
NOTHING = "nothing"

Advice = Callable[["Case", "Observation", "Standbys", Collection[str]], str]
"""What a person would run about a container: for a case, by an observation, the standbys that may take
its place, and the hosts that look bad."""


@dataclass(frozen=True)
class Remedies:
    """What helps where one kind of coordinator leads.

    `mode` is how far the sensor goes unless it is told. `against`: signal, and whether it is about an
    active → the action; `NOTHING` for all others. `advice` names the command, `about_job` those for
    signals about no container. `left_to` says who sees to a bad host's containers, where somebody does.
    `judges_standbys`: nobody else refuses a standby that is far behind, so the sensor does.
    """

    mode: Mode
    against: Mapping[tuple[str, bool], str]
    advice: Advice
    about_job: Mapping[str, str]
    left_to: str = ""
    judges_standbys: bool = False

    def action(self, kind: str, *, active: bool) -> str:
        """What helps against a signal."""
        return self.against.get((kind, active), NOTHING)

    def command(
        self, case: Case, seen: Observation, standbys: Standbys, bad: Collection[str]
    ) -> str:
        """What a person would run, where this coordinator takes it."""
        kind, unit = case.suspect.kind, quote(case.processor)
        if kind in self.about_job:
            return self.about_job[kind]
        if kind == FLAPPING:
            return f"samza-dagster status {unit}, then its log on its host"
        if kind == STANDBY_DOWN:
            return f"samza-dagster explain {unit}"
        if kind in OF_A_HOST and self.left_to:
            return f"samza-dagster status {unit}, until it is on another host"
        return self.advice(case, seen, standbys, bad)


def _of_ours(case: Case, seen: Observation, standbys: Standbys, bad: Collection[str]) -> str:
    del seen, bad
    unit = quote(case.processor)
    if standbys:
        return f"samza-dagster fail-over {unit}"
    return f"samza-dagster place {unit} --to ANY_HOST, which restores its state anew"


def _of_an_am(case: Case, seen: Observation, standbys: Standbys, bad: Collection[str]) -> str:
    del seen, bad
    unit = quote(case.processor)
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


def _of_a_group(case: Case, seen: Observation, standbys: Standbys, bad: Collection[str]) -> str:
    """A task is moved by itself, and restarts with its processor alone."""
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


_OF_OURS = Remedies(
    mode="advise",
    against={
        (HOST_SICK, True): FAIL_OVER,
        (FALLING_BEHIND, True): FAIL_OVER,
        (SILENT, True): FAIL_OVER,
    },
    advice=_of_ours,
    about_job={
        COORDINATOR_GONE: "samza-dagster coordinator run --config <the job's properties> --launch"
        " <how a container is started> --token-file <the job's token> --url-file <where agents look>"
    },
)
_OF_AN_AM = Remedies(
    mode="shadow",
    against={
        (FALLING_BEHIND, True): MOVE_WITH_STANDBY,
        (SILENT, True): MOVE_WITH_STANDBY,
        (SILENT, False): RESTART,
        (STANDBY_STALLED, False): RESTART,
    },
    advice=_of_an_am,
    about_job={
        COORDINATOR_GONE: "wait: YARN starts another Application Master by itself; else its log says"
        " why not",
        COORDINATOR_REPLACED: "samza-dagster status: what was in flight ended without an answer; what"
        " is still wanted is to be asked again",
        JOB_DEAD: "deploy the job again, as it was submitted before, if its YARN application has ended"
        " (yarn application -list): nobody would read a request",
    },
    left_to="Samza's AM starts its containers elsewhere once YARN takes the node for lost",
)
_OF_A_GROUP = Remedies(
    mode="advise",
    against={
        (HOST_SICK, True): MOVE_WITH_STANDBY,
        (FALLING_BEHIND, True): MOVE_WITH_STANDBY,
        (SILENT, True): MOVE_WITH_STANDBY,
    },
    advice=_of_a_group,
    about_job={
        JOB_DEAD: "samza-dagster processor run --config <the job's properties> --launch <how a"
        " container is started> --processor-id <its id> --directory <its directory>, on each host"
    },
    judges_standbys=True,
)


def remedies(coordinator: str) -> Remedies:
    """Those of a coordinator by its name; of one that isn't known those of Samza's AM, as `capabilities`."""
    return {"samza_dagster": _OF_OURS, "standalone": _OF_A_GROUP}.get(coordinator, _OF_AN_AM)
