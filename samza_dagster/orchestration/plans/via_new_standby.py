"""Config and decision of `move_via_new_standby`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from pydantic import Field

from samza_dagster.errors import Refused
from samza_dagster.model.naming import DESTINATION_WORDS, one_more_of
from samza_dagster.orchestration.config import HOST_PATTERN, IfItFailsConfig, SpinUpStandbyConfig
from samza_dagster.orchestration.moves import MovePlan, find_processor, host_for_standby
from samza_dagster.orchestration.plans import decisions
from samza_dagster.orchestration.policies import PlacementPolicies

if TYPE_CHECKING:
    from samza_dagster.client import JobView


ACTION = "move_via_new_standby"


class MoveViaNewStandbyConfig(IfItFailsConfig, SpinUpStandbyConfig):
    """Which active moves where, by way of a standby that is started there first."""

    destination: str = Field(
        default="",
        max_length=255,
        pattern=rf"^$|{HOST_PATTERN}",
        description="Host for the active: the new standby warms up there first. Empty: the "
        "legal host with most free memory.",
    )
    keep_standby: bool = Field(
        default=False,
        description="Off: the new standby gives its place to the active and is gone: as many "
        "standbys as before. On: it is relocated, and the active has one more from then on.",
    )


def move_via_new_standby(
    view: JobView,
    config: MoveViaNewStandbyConfig,
    policies: PlacementPolicies,
    hosts: Sequence[str],
) -> MovePlan:
    """A standby of the active is started at the destination, whose place it then takes.

    The host is named now: what the coordinator would choose later isn't known. Raises
    `Refused` for a standby, for one of Samza's words as the destination, and when no host is legal.
    """
    active = find_processor(view, config.processor)
    decisions.require_standbys_on_request(view, ACTION)
    if view.is_standby(active.processor_id):
        raise Refused(
            f"{ACTION} moves an active",
            seen=f"{active.processor_id} is a standby",
            fix="relocate_standby",
        )
    if config.destination in DESTINATION_WORDS:
        raise Refused(
            f"{ACTION} to a host",
            seen=config.destination,
            fix="a host's name, or nothing: the legal host with most free memory",
        )
    destination = config.destination
    if not destination:
        source = active.host or ""
        new = one_more_of(active.processor_id)
        destination = host_for_standby(view, new, source, source, hosts)
    decisions.require_among_hosts(ACTION, destination, hosts)
    named = config.model_copy(update={"destination": destination})
    made = decisions.spin_up_standby(view, cast("SpinUpStandbyConfig", named), policies, hosts)
    return _with_fate(replace(made, action=ACTION), config)


def renewed(
    former: MovePlan,
    config: MoveViaNewStandbyConfig,
    policies: PlacementPolicies,
    hosts: Sequence[str],
) -> MovePlan:
    """As `decisions.renewed`; what becomes of the new standby is as this run is told, too."""
    return _with_fate(decisions.renewed(former, config, policies, hosts), config)


def _with_fate(plan: MovePlan, config: MoveViaNewStandbyConfig) -> MovePlan:
    return replace(plan, keep_standby=config.keep_standby, if_it_fails=config.if_it_fails)


def steps_after_warm(plan: MovePlan) -> list[str]:
    """What `move_via_new_standby` does once its standby is warm; nothing for another action."""
    if plan.action != ACTION:
        return []
    gives = (
        f"the new standby leaves `{plan.destination}` for another legal host and is kept"
        if plan.keep_standby
        else f"the new standby stops and is removed; its store stays on `{plan.destination}`"
    )
    return [
        gives,
        f"`{plan.processor}` on `{plan.source_host}`: reserve `{plan.destination}` (within"
        f" {plan.request_expiry_s:g} s) and hold it: the container is untouched until then",
        "commit: stop, start there, over the store that the standby has kept warm",
        f"verify that it runs and processes (within {plan.verify_timeout_s:g} s)",
        "if it fails before that, the new standby is "
        + ("kept" if plan.if_it_fails == "keep" else "removed"),
    ]
