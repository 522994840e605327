"""Decisions of each placement job by its config and the job's state. Pure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from samza_dagster.client import JobView, ProcessorView
from samza_dagster.client.checks import legal_destination
from samza_dagster.client.own_checks import require_our_coordinator
from samza_dagster.errors import Refused
from samza_dagster.model.naming import ANY_HOST, DESTINATION_WORDS, LAST_SEEN, STANDBY, one_more_of
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.config import (
    CatchUp,
    FailOverConfig,
    MoveContainerConfig,
    MoveViaNewStandbyConfig,
    MoveWithStandbyConfig,
    PlacementConfig,
    RelocateStandbyConfig,
    RestartContainerConfig,
    SpinUpStandbyConfig,
    ToLegalHostConfig,
)
from samza_dagster.orchestration.plans.move import (
    Kind,
    MovePlan,
    UnitLimits,
    find_processor,
    host_for_standby,
    host_map,
    require_named_hosts,
    standby_for,
    standbys_of,
)
from samza_dagster.orchestration.policies import PlacementPolicies, bounds

Config = TypeVar("Config", bound=PlacementConfig)
_SAID = ("allow_unknown_host", "beyond_budget", "execution_id", "keep_standby", "if_it_fails")
"""The fields of a plan that come unchanged from its config."""
_NOT_AWAITED = "samza-dagster control-standby start doesn't wait"


@dataclass(frozen=True)
class Choice:
    """A decision beyond the config: where to, the standby that makes room, the kind of request."""

    destination: str
    standby: ProcessorView | None = None
    kind: Kind = Kind.PLACE


def _decides(
    choose: Callable[[JobView, Config, Sequence[str]], Choice],
) -> Callable[[JobView, Config, PlacementPolicies, Sequence[str]], MovePlan]:
    """The plan of the action that `choose` is named after, within the bounds of config and policies."""

    @functools.wraps(choose)
    def decide(
        view: JobView, config: Config, policies: PlacementPolicies, hosts: Sequence[str]
    ) -> MovePlan:
        choice = choose(view, config, hosts)
        standby = choice.standby
        return MovePlan(
            job=f"{view.job_name}/{view.job_id}",
            action=choose.__name__,
            processor=config.processor,
            source_host=find_processor(view, config.processor).host,
            destination=choice.destination,
            standby=standby.processor_id if standby else None,
            standby_host=standby.host if standby else None,
            kind=choice.kind,
            before=host_map(view),
            coordinator=view.coordinator,
            any_host=view.takes_any_host,
            of_standby=view.is_standby(config.processor),
            **_bounds(config, policies, hosts),
        )

    return decide


@_decides
def move_container(view: JobView, config: MoveContainerConfig, hosts: Sequence[str]) -> Choice:
    """The processor goes to the first of its destinations that may take it now.

    Raises `Refused` of the last one: for a standby's destination outside the component's hosts,
    and for STANDBY where the coordinator might send the standby to such a one.
    """
    processor = find_processor(view, config.processor)
    *preferred, last = config.destinations
    for named in preferred:
        try:
            chosen = _of_container(view, processor, named, hosts, config)
            return Choice(_legal(view, processor, chosen, config))
        except Refused:
            continue
    return Choice(_of_container(view, processor, last, hosts, config))


def _of_container(
    view: JobView,
    processor: ProcessorView,
    named: str,
    hosts: Sequence[str],
    config: MoveContainerConfig,
) -> str:
    """Return one destination of a container, within the component's hosts."""
    destination = _permitted(view, "move_container", processor, named, hosts, config)
    swaps = view.capabilities.has_standby_destination
    if destination == STANDBY and swaps and _is_bounded(view, hosts):
        raise Refused(
            f"the standby of {processor.processor_id} goes to one of the component's hosts",
            seen="with STANDBY the coordinator chooses a host for it",
            fix="move_with_standby, which names one",
        )
    return destination


@_decides
def restart_container(
    view: JobView, config: RestartContainerConfig, hosts: Sequence[str]
) -> Choice:
    """Plan a restart of the processor where it was last seen."""
    return Choice(LAST_SEEN)


@_decides
def relocate_standby(view: JobView, config: RelocateStandbyConfig, hosts: Sequence[str]) -> Choice:
    """The standby goes where the config says, else to the legal host with most room.

    Raises `Refused` for an active, for a host that isn't one of the component's, and when no
    host is legal.
    """
    standby = find_processor(view, config.processor)
    if not view.is_standby(standby.processor_id):
        raise Refused(
            "relocate_standby moves a standby",
            seen=f"{standby.processor_id} is an active",
            fix="move_container, or move_with_standby",
        )
    if config.destination is None:
        return Choice(_legal_host(view, standby, hosts))
    named = config.destination
    return Choice(_permitted(view, "relocate_standby", standby, named, hosts, config))


@_decides
def spin_up_standby(view: JobView, config: SpinUpStandbyConfig, hosts: Sequence[str]) -> Choice:
    """Decide on another standby of the active; which host ANY_HOST is, the coordinator decides.

    Where the component has hosts for standbys, ANY_HOST is the legal one of them with most
    room. Raises `Refused` for another host, when none is legal, and when it could never be told
    that the standby is warm.
    """
    active, destination = find_processor(view, config.processor), config.destination
    require_our_coordinator(view, "spin_up_standby", RequestKind.START_STANDBY)
    require_known_lag(view, "spin_up_standby", _NOT_AWAITED)
    _require_among_hosts("spin_up_standby", destination, hosts)
    if destination == ANY_HOST and hosts:
        destination = _host_for_one_more(view, active, hosts)
    return Choice(destination, kind=Kind.START_STANDBY)


@_decides
def move_via_new_standby(
    view: JobView, config: MoveViaNewStandbyConfig, hosts: Sequence[str]
) -> Choice:
    """Choose to start a standby of the active at the destination; the active then takes its place.

    The host is named now: what the coordinator would choose later isn't known. Raises
    `Refused` for a standby, for one of Samza's words as the destination, and when no host is legal.
    """
    action = "move_via_new_standby"
    active, destination = find_processor(view, config.processor), config.destination
    require_our_coordinator(view, action, RequestKind.START_STANDBY)
    if view.is_standby(active.processor_id):
        raise Refused(
            f"{action} moves an active",
            seen=f"{active.processor_id} is a standby",
            fix="relocate_standby",
        )
    if destination in DESTINATION_WORDS:
        raise Refused(
            f"{action} to a host",
            seen=destination,
            fix="a host's name, or nothing: the legal host with most free memory",
        )
    destination = destination or _host_for_one_more(view, active, hosts)
    _require_among_hosts(action, destination, hosts)
    require_known_lag(view, action, _NOT_AWAITED)
    return Choice(destination, kind=Kind.START_STANDBY)


@_decides
def fail_over(view: JobView, config: FailOverConfig, hosts: Sequence[str]) -> Choice:
    """The active takes the place of the standby soonest ready, which gives way at once.

    Which one that is, the coordinator decides. Raises `Refused` for a standby, an active
    without one, and where Samza's AM coordinates.
    """
    active = find_processor(view, config.processor)
    standby_for(view, active, None)
    return Choice(STANDBY, _only(standbys_of(view, active)), kind=Kind.FAIL_OVER)


@_decides
def move_with_standby(view: JobView, config: MoveWithStandbyConfig, hosts: Sequence[str]) -> Choice:
    """The active takes the host of a standby, which leaves first.

    Where the coordinator has such a destination one request does both, unless the config or the component bounds
    what the coordinator may choose: such a choice has no form on the wire. Raises
    `Refused` without a standby, and for the active's own host.
    """
    active = find_processor(view, config.processor)
    standby = standby_for(view, active, config.standby)
    require_named_hosts(view, "move_with_standby")
    host = cast("str", standby.host)
    destination = config.destination or host
    if destination == active.host:
        raise Refused(
            "the destination must be another host than the active's",
            seen=f"{active.processor_id} is on {destination}",
            fix="restart_container to start it again where it is",
        )
    only = _only(standbys_of(view, active)) is not None
    named = config.standby is not None or config.destination is not None
    bounded = _is_bounded(view, hosts)
    swaps = view.capabilities.has_standby_destination
    if swaps and destination == host and not bounded and (only or not named):
        return Choice(STANDBY, standby if only else None)
    return Choice(destination, standby)


def _require_among_hosts(action: str, destination: str, hosts: Sequence[str]) -> None:
    """Raises `Refused` for a standby's host that isn't one of the component's, if it has any.

    Samza's words pass: they name no host.
    """
    if hosts and destination not in (*hosts, *DESTINATION_WORDS):
        raise Refused(
            f"{action}: a standby goes to one of the component's hosts",
            seen=destination,
            fix=f"one of {', '.join(hosts)}",
        )


def require_known_lag(view: JobView, action: str, instead: str) -> None:
    """Raise `Refused` if nothing reports a standby's progress, since a wait for it would never end."""
    if not view.tells_lag:
        raise Refused(
            f"{action}: a standby that is waited for until it is warm",
            seen="the job's config has no metrics reporter with a stream: nobody tells its lag",
            fix=f"metrics.reporters and metrics.reporter.<name>.stream; {instead}",
        )


def _chosen(
    view: JobView,
    action: str,
    processor: ProcessorView,
    destination: str,
    hosts: Sequence[str],
) -> str:
    """The destination; ANY_HOST by its name where that is ours to choose.

    It is for a standby where the component has hosts, and under Samza's own AM, which would
    look at the rules for ANY_HOST only after it has stopped the container.
    """
    of_component = view.is_standby(processor.processor_id) and bool(hosts)
    if of_component:
        _require_among_hosts(action, destination, hosts)
    by_name = not (view.capabilities.rules_before_stop or view.takes_any_host)
    if destination == ANY_HOST and (of_component or by_name):
        return _legal_host(view, processor, hosts)
    return destination


def _permitted(
    view: JobView,
    action: str,
    processor: ProcessorView,
    destination: str,
    hosts: Sequence[str],
    config: ToLegalHostConfig,
) -> str:
    """Return `_chosen`; with `or_any_legal`, for a standby that a rule forbids it, the legal host with most room."""
    if not (config.or_any_legal and view.is_standby(processor.processor_id)):
        return _chosen(view, action, processor, destination, hosts)
    try:
        chosen = _chosen(view, action, processor, destination, hosts)
        return _legal(view, processor, chosen, config)
    except Refused as refused:
        try:
            return _legal_host(view, processor, hosts)
        except Refused:
            raise refused from None


def _legal(
    view: JobView, processor: ProcessorView, destination: str, config: ToLegalHostConfig
) -> str:
    """The destination; raises `Refused` where a rule forbids it."""
    unknown = config.allow_unknown_host
    legal_destination(view, processor, destination, allow_unknown_host=unknown)
    return destination


def _host_for_one_more(view: JobView, active: ProcessorView, hosts: Sequence[str]) -> str:
    source = active.host or ""
    return host_for_standby(view, one_more_of(active.processor_id), source, source, hosts)


def _legal_host(view: JobView, processor: ProcessorView, hosts: Sequence[str]) -> str:
    pid, here = processor.processor_id, processor.host or ""
    if not view.is_standby(pid):
        return host_for_standby(view, pid, here, here)
    active = view.processors.get(view.group_of(pid))
    source = active.host if active is not None else None
    return host_for_standby(view, pid, source, here, hosts)


def _is_bounded(view: JobView, hosts: Sequence[str]) -> bool:
    return bool(hosts) and not set(view.hosts) <= set(hosts)


def renewed(
    former: MovePlan, config: PlacementConfig, policies: PlacementPolicies, hosts: Sequence[str]
) -> MovePlan:
    """Return the plan of an earlier run of the chain, within the bounds of this run.

    Chosen hosts and standbys stay chosen, since parts of the plan may be done already.
    """
    return replace(former, **_bounds(config, policies, hosts))


def _only(standbys: list[ProcessorView]) -> ProcessorView | None:
    return standbys[0] if len(standbys) == 1 else None


def _bounds(
    config: PlacementConfig, policies: PlacementPolicies, hosts: Sequence[str]
) -> dict[str, Any]:
    """Return the bounds of the config, beside hosts and standbys, else the policy's."""
    warm = CatchUp(0, 0.0, 0.0)  # nothing is waited for
    if isinstance(config, SpinUpStandbyConfig):
        warm = config.catch_up(policies.lag_limit, policies.lag_limit_s)
    return {
        "limits": UnitLimits(**bounds(config, policies), catch_up=warm),
        "allowed_hosts": tuple(hosts),
        **{name: getattr(config, name) for name in _SAID if hasattr(config, name)},
    }
