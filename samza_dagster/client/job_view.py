"""From metadata to a `JobView`: pure, so that both coordinators are shown by one code.

Samza's AM leaves only the coordinator stream: the assignment of tasks, and where each
container reported itself last. Our coordinator's state topic tells phases, hosts
with their free resources, actions and queues.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from rpds import HashTrieMap

from samza_dagster.client.responses import started_on
from samza_dagster.client.state_source import CoordinatorState
from samza_dagster.client.stop_budget import stop_budgets
from samza_dagster.client.views import (
    LAST_SEEN_STATE,
    LEAVING_STATE,
    LOST_STATE,
    UNKNOWN_STATE,
    ActionView,
    FailoverView,
    HostView,
    JobView,
    OrphanView,
    ProcessorView,
    over_with,
)
from samza_dagster.metadata.job_metadata import DEPLOYMENT_ID
from samza_dagster.metadata.placement_store import request_key
from samza_dagster.model import PlacementRequest, PlacementResponse, TaskMode
from samza_dagster.model.metrics_snapshots import metrics_topics
from samza_dagster.model.naming import active_task_of
from samza_dagster.model.numbers import long_or_none
from samza_dagster.model.own_requests import OwnRequest
from samza_dagster.placement.condition import degraded, is_deployed, paused_for_ms
from samza_dagster.placement.failures import is_flapping
from samza_dagster.placement.state import (
    Action,
    Host,
    JobState,
    Limits,
    Move,
    Orphan,
    PlacementAsk,
    Processor,
    SpinUp,
)

# Each with the older name that Samza reads too, where the newer isn't given.
_HOST_AFFINITY = ("job.host-affinity.enabled", "yarn.samza.host-affinity.enabled")
_CONTAINER_MEMORY = ("cluster-manager.container.memory.mb", "yarn.container.memory.mb")
_CONTAINER_CORES = ("cluster-manager.container.cpu.cores", "yarn.container.cpu.cores")
_QUEUED = "queued"


def _setting(config: Mapping[str, str], keys: tuple[str, str]) -> str:
    newer, older = keys
    return config.get(newer, config.get(older, "")).strip()


def _number(config: Mapping[str, str], keys: tuple[str, str]) -> int | None:
    return long_or_none(_setting(config, keys))


def _mode(tasks: Iterable[str], task_modes: Mapping[str, str]) -> TaskMode:
    """Standby if every task is a standby task; a task without a recorded mode is what its name says."""
    named = {True: TaskMode.ACTIVE, False: TaskMode.STANDBY}
    standby = all(
        task_modes.get(task, named[active_task_of(task) == task]) == TaskMode.STANDBY.value
        for task in tasks
    )
    return TaskMode.STANDBY if standby else TaskMode.ACTIVE


def _pending(
    deployment_id: str | None,
    requests: Mapping[str, PlacementRequest],
    responses: Mapping[str, PlacementResponse],
) -> tuple[tuple[ActionView, ...], tuple[ActionView, ...], tuple[ActionView, ...]]:
    """Requests that were taken and have no end, those that wait, and those of either that are over."""
    if deployment_id is None:  # nobody was ever there to ask
        return (), (), ()

    def action(of: PlacementRequest | PlacementResponse, stage: str) -> ActionView:
        return _action(of.uuid, of, stage, trouble=over_with(of.deployment_id, deployment_id))

    actions = [
        action(r, r.status_code.value.lower())
        for r in responses.values()
        if not r.status_code.is_terminal
    ]
    queued = [action(r, _QUEUED) for r in requests.values() if r.uuid not in responses]
    over = [action for action in (*actions, *queued) if action.trouble]
    return (
        _by_time(action for action in actions if not action.trouble),
        _by_time(action for action in queued if not action.trouble),
        _by_time(over),
    )


def _without_processor(
    deployment_id: str | None,
    processors: Mapping[str, ProcessorView],
    requests: Iterable[PlacementRequest],
) -> dict[str, str]:
    """Return keys of requests at which an AM with standbys throws: those for an unknown active.

    The AM looks up the active's standbys first (`ContainerManager`). A request for an unknown standby,
    which any `-` makes (`StandbyTaskUtil`), waits without an answer and blocks nothing.
    """
    if all(processor.mode is TaskMode.ACTIVE for processor in processors.values()):
        return {}
    return {
        request_key(r.uuid): f"it is for processor {r.processor_id!r}, which the job doesn't have"
        for r in requests
        if r.deployment_id == deployment_id
        and "-" not in r.processor_id
        and r.processor_id not in processors
    }


def _by_time(actions: Iterable[ActionView]) -> tuple[ActionView, ...]:
    return tuple(sorted(actions, key=lambda a: (a.since_ms, a.uuid)))


def view_of_stream(
    job_name: str,
    job_id: str,
    *,
    config: Mapping[str, str],
    task_containers: Mapping[str, str],
    task_modes: Mapping[str, str],
    localities: Mapping[str, str],
    requests: Mapping[str, PlacementRequest],
    responses: Mapping[str, PlacementResponse],
    now_ms: int,
    placed: Mapping[str, str] | None = None,
    asked_ms: Mapping[str, int] | None = None,
    unreadable: tuple[str, ...] = (),
    unreadable_placements: Mapping[str, str] | None = None,
) -> JobView:
    """The job as Samza's coordinator stream alone tells it.

    Processors come from the task assignments (a locality without a task is left
    over from an older, larger deployment); hosts from localities, and from finished actions, since a
    host that took a container once exists: the one that was asked for need not. `placed` is where a processor was
    started since it reported its host last, `asked_ms` when a request was written, by its UUID.
    """
    deployment_id = config.get(DEPLOYMENT_ID)
    tasks_of: dict[str, list[str]] = defaultdict(list)
    for task, processor_id in task_containers.items():
        tasks_of[processor_id].append(task)
    processors: dict[str, ProcessorView] = {}
    for processor_id, tasks in tasks_of.items():
        reported = localities.get(processor_id) or None
        host = (placed or {}).get(processor_id, reported)
        processors[processor_id] = ProcessorView(
            processor_id=processor_id,
            mode=_mode(tasks, task_modes),
            state=LAST_SEEN_STATE if host else UNKNOWN_STATE,
            host=host,
            tasks=tuple(sorted(tasks)),
            last_seen_host=reported,
        )
    names = {name for p in processors.values() for name in (p.host, p.last_seen_host) if name}
    names |= set(filter(None, map(started_on, responses.values())))
    actions, queued, over = _pending(deployment_id, requests, responses)
    answered = [r for r in responses.values() if r.deployment_id == deployment_id]
    reporters = metrics_topics(config)
    return JobView(
        job_name=job_name,
        job_id=job_id,
        deployment_id=deployment_id,
        processors=processors,
        poison={
            **(unreadable_placements or {}),
            **_without_processor(deployment_id, processors, requests.values()),
        },
        hosts={name: HostView(host=name, state=LAST_SEEN_STATE) for name in names},
        actions=actions,
        queued=queued,
        over=over,
        coordinator="samza",
        host_affinity=_setting(config, _HOST_AFFINITY).lower() == "true",
        container_memory_mb=_number(config, _CONTAINER_MEMORY),
        container_cores=_number(config, _CONTAINER_CORES),
        unreadable=unreadable,
        tells_lag=bool(reporters),
        report_every_s=max(reporters.values(), default=None),
        stop_budgets=stop_budgets(
            config,
            processors,
            answered,
            [action.processor_id for action in queued],
            now_ms,
            asked_ms or {},
        ),
    )


def with_state(base: JobView, state: CoordinatorState, now_ms: int) -> JobView:
    """Return `base` (of the stream) corrected by what our leading coordinator recorded.

    Tasks come from the stream; phases, hosts, actions and queues from the state. Requests that the
    coordinator hasn't read yet stay queued.
    """
    groups, hosts, limits = state.groups, state.hosts, state.limits
    processors = {
        p.processor_id: _processor_view(p, base.processors.get(p.processor_id), limits, now_ms)
        for group in groups.values()
        for p in group.processors.values()
    }
    actions = [_in_flight(g.action) for g in groups.values() if g.action is not None]
    queued = [_asked(ask, _QUEUED) for group in groups.values() for ask in group.queue]
    taken = {a.uuid for a in (*actions, *queued)}
    queued.extend(a for a in base.queued if a.uuid not in taken)
    queued.extend(
        _action(uuid, request, _QUEUED, kind=request.kind.value)
        for uuid, request in state.mail.requests.items()
        if request.deployment_id == state.deployment_id and uuid not in taken
    )
    return replace(
        base,
        poison={},
        deployment_id=state.deployment_id,
        processors=processors,
        hosts=dict(hosts),
        actions=_by_time(actions),
        queued=_by_time(queued),
        coordinator="samza_dagster",
        stop_budgets={},
        host_affinity=limits.host_affinity,
        container_memory_mb=limits.container_memory_mb,
        container_cores=limits.container_cores,
        failovers=tuple(
            FailoverView(f.active_id, f.standby_id, f.host, f.since_ms, f.why)
            for group in groups.values()
            if (f := group.failover) is not None
        ),
        orphans=tuple(
            _orphan_view(orphan) for group in groups.values() for orphan in group.orphans
        ),
        max_standbys=limits.max_standbys,
        leader=state.leader,
        deployed=is_deployed(groups.values()),
        degraded=degraded(groups.values(), limits, now_ms),
        state=JobState(
            base.job_name,
            state.deployment_id,
            groups=HashTrieMap(groups),
            hosts=HashTrieMap(
                {
                    name: Host(name, alive=host.state != LOST_STATE, fault_domain=host.fault_domain)
                    for name, host in hosts.items()
                }
            ),
            limits=limits,
            now_ms=now_ms,
        ),
    )


def _processor_view(
    processor: Processor, known: ProcessorView | None, limits: Limits, now_ms: int
) -> ProcessorView:
    incarnation, request = processor.incarnation, processor.request
    host = incarnation.host if incarnation else None
    if host is None and request is not None:
        host = request.allocated_host
    return ProcessorView(
        processor_id=processor.processor_id,
        mode=TaskMode(processor.role.value),
        state=processor.phase.value if processor.wanted else LEAVING_STATE,
        host=host,
        execution_id=incarnation.execution_id if incarnation else None,
        tasks=known.tasks if known else (),
        last_seen_host=host or processor.last_seen_host,
        flapping=is_flapping(processor, now_ms, limits),
        failures=processor.failures,
        extra=processor.extra,
        paused_for_ms=paused_for_ms(processor, now_ms),
    )


def _action(
    uuid: str,
    of: PlacementRequest | PlacementResponse | OwnRequest,
    stage: str,
    *,
    kind: str = "place",
    trouble: str = "",
) -> ActionView:
    return ActionView(
        uuid=uuid,
        processor_id=of.processor_id,
        destination=of.destination_host,
        stage=stage,
        since_ms=of.timestamp,
        kind=kind,
        expiry_ms=of.request_expiry,
        trouble=trouble,
    )


def _asked(ask: PlacementAsk, stage: str) -> ActionView:
    return ActionView(
        uuid=ask.uuid,
        processor_id=ask.processor_id,
        destination=ask.destination_host,
        stage=stage,
        since_ms=ask.timestamp_ms,
        kind=ask.kind.value,
        expiry_ms=ask.expiry_ms,
    )


def _in_flight(action: Action) -> ActionView:
    return replace(
        _asked(action.ask, action.stage.value),
        source_host=None if isinstance(action, SpinUp) else action.source_host,
        reserved_host=action.request.allocated_host if isinstance(action, Move) else None,
    )


def _orphan_view(orphan: Orphan) -> OrphanView:
    return OrphanView(
        orphan.processor_id,
        orphan.incarnation.execution_id,
        orphan.incarnation.host,
        orphan.lost_at_ms,
        orphan.lease_ends_ms,
        orphan.ended.value if orphan.ended else None,
        orphan.elsewhere,
    )
