"""A job's invariants as an outsider sees them, from its metadata alone. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING

from samza_dagster.lag import HostClock
from samza_dagster.model import TaskMode
from samza_dagster.orchestration.plans.move import LOST
from samza_dagster.orchestration.watch.findings import CheckFinding
from samza_dagster.orchestration.watch.lag_objectives import why_not_known

if TYPE_CHECKING:
    from samza_dagster.client import JobView, ReplicaLag

SAME_HOST = "same_host"
REPLICAS = "replicas_present"
ONE_OWNER = "one_owner"
LAG = "standbys_within_limit"
LOCALITY = "locality_agrees"
CLOCKS = "clocks_agree"
COORDINATED = "coordinated"
COPIES = "live_copies"
STAYS = "none_flaps"
CHECKS: Mapping[str, str] = {
    SAME_HOST: "No two processes of one group are on one host; under Samza's AM, by where each"
    " container reported last.",
    REPLICAS: "Every container that is wanted runs, and every active has its standbys.",
    ONE_OWNER: "Every task has one active owner; under Samza's AM, by its assignments alone.",
    LAG: "Every changelog is there, and every standby's lag is known and within lag_limit.",
    LOCALITY: "Containers report the hosts on which the coordinator has them.",
    CLOCKS: "The hosts' clocks are within 5 s of the observer's clock.",
    COORDINATED: "The job has a coordinator, and standalone processors agree on the assignment of tasks.",
    COPIES: "Of every task's state there is a copy on a host that is alive.",
    STAYS: "No container fails, and no standalone processor comes and goes, again and again.",
}
ASSETS: Mapping[str, str] = {
    **dict.fromkeys(CHECKS, "container_locality"),
    ONE_OWNER: "task_locality",
    LAG: "changelog_lag",
    COPIES: "task_locality",
}
"""Check → its asset."""

_HAS_PROCESS = frozenset({"starting", "running", "stopping", "last-seen", "leaving"})
_RUNS = frozenset({"running", "last-seen"})
_LEAVING = "leaving"


def not_dead(view: JobView) -> list[CheckFinding]:
    """Return that nothing of the job runs any more: no other finding helps then."""
    fix = "deploy the job again, as it was submitted before; a request would be read by nobody"
    return [] if view.dead is None else [CheckFinding("job", view.dead, fix, "ERROR")]


def same_host(view: JobView) -> list[CheckFinding]:
    """Return the groups two members of which have a process on one host: they share a store directory."""
    here: dict[tuple[str, str], list[str]] = defaultdict(list)
    for processor_id, processor in sorted(view.processors.items()):
        if processor.host is not None and processor.state in _HAS_PROCESS:
            here[view.group_of(processor_id), processor.host].append(processor_id)
    return [
        CheckFinding(
            f"{group} on {host}",
            f"{', '.join(members)} are on {host}"
            + ("" if view.capabilities.tells_what_runs else ", by what each reported last"),
            f"samza-dagster explain {quote(members[-1])}, then place it on another host",
            "ERROR",
        )
        for (group, host), members in here.items()
        if len(members) > 1
    ]


def replicas_present(view: JobView, standbys: int | None = None) -> list[CheckFinding]:
    """Return the containers that don't run, and the actives with fewer standbys than `standbys`.

    Without a number the one that most actives have is taken for wanted.
    """
    found: list[CheckFinding] = []
    for processor_id, processor in sorted(view.processors.items()):
        host = view.hosts.get(processor.host or "")
        if processor.state not in (*_RUNS, _LEAVING):
            seen = f"{processor.state} on {processor.host}" if processor.host else processor.state
            fix = f"samza-dagster explain {processor_id}, and its log on its host"
        elif not view.capabilities.tells_what_runs and host is not None and host.state == LOST:
            seen = f"last seen on {processor.host}, which is lost"
            fix = "wait: its coordinator starts it elsewhere"
        else:
            continue
        severity = "WARN" if view.is_standby(processor_id) else "ERROR"
        found.append(CheckFinding(processor_id, seen, fix, severity))
    for active, (number, wanted) in missing_standbys(view, standbys).items():
        fix = "job.standbytasks.replication.factor in its config, and deploy it anew"
        if view.capabilities.has_own_requests:
            fix = f"samza-dagster control-standby start {active}"
        found.append(CheckFinding(f"standbys of {active}", f"{number} of {wanted}", fix))
    return found


def missing_standbys(view: JobView, standbys: int | None = None) -> dict[str, tuple[int, int]]:
    """Return the actives with fewer standbys than `standbys`, each with how many it has and is to have."""
    has = {p: 0 for p in view.processors if not view.is_standby(p)}
    for processor_id, processor in view.processors.items():
        if view.is_standby(processor_id) and processor.state != _LEAVING:
            group = view.group_of(processor_id)
            if group in has:
                has[group] += 1
    if standbys is None:
        standbys = Counter(has.values()).most_common(1)[0][0] if has else 0
    return {p: (number, standbys) for p, number in sorted(has.items()) if number < standbys}


def one_owner(view: JobView) -> list[CheckFinding]:
    """Return the tasks with two active owners, and processors that run beside an earlier self."""
    owners: dict[str, list[str]] = defaultdict(list)
    for processor_id, processor in sorted(view.processors.items()):
        if view.is_standby(processor_id) or processor.state == _LEAVING:
            continue
        for task in processor.tasks:
            owners[task].append(processor_id)
    found = [
        CheckFinding(
            task,
            f"assigned to actives {', '.join(ids)}",
            "samza-dagster status; the coordinator stream has two assignments of this task",
            "ERROR",
        )
        for task, ids in sorted(owners.items())
        if len(ids) > 1
    ]
    for earlier in view.orphans:
        now = view.processors.get(earlier.processor_id)
        if now is None or now.state not in ("starting", "running") or earlier.ended is not None:
            continue
        if now.execution_id == earlier.execution_id:
            continue
        seen = (
            f"{now.execution_id} is {now.state} on {now.host} while {earlier.execution_id} on"
            f" {earlier.host} may still own its tasks"
        )
        fix = f"kill {earlier.execution_id} on {earlier.host}, then samza-dagster verify"
        found.append(CheckFinding(earlier.processor_id, seen, fix, "ERROR"))
    return found


def changelogs_there(lags: Sequence[ReplicaLag]) -> list[CheckFinding]:
    """Return the changelogs that don't exist, lack a partition, or were made anew or cut."""
    # Late: it is imported slowly.
    from samza_dagster.client.replica_lag import LOST_FIX, lost_changelogs

    return [
        CheckFinding(f"changelog {topic}", why, LOST_FIX, "ERROR")
        for topic, why in lost_changelogs(lags).items()
    ]


def within_limit(lags: Sequence[ReplicaLag], limit: int) -> list[CheckFinding]:
    """Return the standbys whose lag isn't known or is more than `limit` in any store partition."""
    of: dict[str, list[ReplicaLag]] = defaultdict(list)
    for lag in lags:
        if lag.mode is TaskMode.STANDBY:
            of[lag.processor_id].append(lag)
    found: list[CheckFinding] = []
    for processor_id, mine in sorted(of.items()):
        known = [lag.lag for lag in mine if lag.lag is not None]
        if len(known) < len(mine):
            seen = f"its lag isn't known: {why_not_known(mine)}"
        elif max(known) > limit:
            seen = f"{max(known):,} records behind, at most {limit:,} are allowed"
        else:
            continue
        fix = f"samza-dagster lag; if it stands still: samza-dagster place {quote(processor_id)} --to LAST_SEEN"
        found.append(CheckFinding(processor_id, seen, fix))
    return found


def coordinated(view: JobView) -> list[CheckFinding]:
    """Return that nobody coordinates the job, or why standalone processors make no other version."""
    leader, agreement = view.leader, view.agreement
    if leader is not None and leader.ended:
        seen = f"the coordinator on {leader.host} ended in order, and no other leads"
        fix = "start a coordinator: samza-dagster coordinator run"
        return [CheckFinding("leader", seen, fix, "ERROR")]
    if agreement is None:
        return []
    if agreement.leader is None:
        seen = "no processor is registered in ZooKeeper: nobody leads, and no task is processed"
        return [
            CheckFinding("leader", seen, "start processors: samza-dagster processor run", "ERROR")
        ]
    found: list[CheckFinding] = []
    for pid in agreement.twice:
        seen = f"two processors have the id {pid}: no version is made until one has ended"
        fix = "end one of them, or give it another --processor-id"
        found.append(CheckFinding(f"processor id {pid}", seen, fix, "ERROR"))
    if agreement.version != agreement.agreed:
        awaited = ", ".join(agreement.awaited)
        waits = f", waits for {awaited}" if awaited else ""
        seen = f"version {agreement.version} isn't agreed on{waits}; agreed is {agreement.agreed}"
        fix = (
            f"look at the log of {awaited or agreement.leader}; the leader makes another version when"
            " job.coordinator.zk.consensus.timeout.ms has passed"
        )
        found.append(CheckFinding("version", seen, fix, "ERROR"))
    return found


def live_copies(view: JobView) -> list[CheckFinding]:
    """Return the groups without a copy of their state, active or standby, on a host that is alive."""
    copies: dict[str, list[str]] = defaultdict(list)
    alive: set[str] = set()
    for processor_id, processor in sorted(view.processors.items()):
        group, host = view.group_of(processor_id), view.hosts.get(processor.host or "")
        where = processor.host or processor.last_seen_host or "no host"
        copies[group].append(f"{processor_id} {processor.state}, last on {where}")
        if processor.state in _HAS_PROCESS and host is not None and host.state != LOST:
            alive.add(group)
    return [
        CheckFinding(
            group,
            f"no live copy of its state: {'; '.join(there)}",
            "bring one of these hosts back: its changelog alone is left, from which a restore takes longest",
            "ERROR",
        )
        for group, there in copies.items()
        if group not in alive
    ]


def none_flaps(view: JobView, registered: Mapping[str, str]) -> list[CheckFinding]:
    """Return the containers that fail again and again, and standalone processors that registered anew.

    `registered` are the registrations at the look before: one that another takes the place of is
    one end and one start more.
    """
    found = [
        CheckFinding(
            pid,
            f"{pid} has failed {processor.failures} times in all, and is started at longer intervals",
            f"its log on {processor.host or processor.last_seen_host or 'its host'}",
        )
        for pid, processor in sorted(view.processors.items())
        if processor.flapping
    ]
    if view.agreement is None:
        return found
    return found + [
        CheckFinding(
            pid,
            f"{pid} registers anew again and again: its session expired, or it ended and was started",
            f"its log, its pauses and its way to ZooKeeper at {view.members[pid].host}",
        )
        for pid, number in sorted(view.agreement.registrations.items())
        if registered.get(pid, number) != number
    ]


def locality_agrees(view: JobView, reported: Mapping[str, str]) -> list[CheckFinding]:
    """Return the containers that run elsewhere than where they reported last (`reported`: id → host)."""
    return [
        CheckFinding(
            processor_id,
            f"the coordinator has it on {processor.host}, it reported {reported.get(processor_id) or 'no host'}",
            f"samza-dagster locality; a restart reports anew: samza-dagster place {quote(processor_id)} --to LAST_SEEN",
        )
        for processor_id, processor in sorted(view.processors.items())
        if processor.state == "running" and reported.get(processor_id) != processor.host
    ]


def clocks_agree(clocks: Mapping[str, HostClock]) -> list[CheckFinding]:
    """Return the hosts whose clocks are certainly more than 5 s from the observer's."""
    return [
        CheckFinding(
            f"clock of {host}",
            str(clock),
            f"synchronise the clock of {host} (chronyd, ntpd); of all hosts: that of the machine"
            " that runs this sensor. No placement is decided by it; times that are shown are off",
        )
        for host, clock in sorted(clocks.items())
        if clock.is_skewed
    ]
