"""Which request has started a standby, by the answers on record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from samza_dagster.errors import Refused
from samza_dagster.model import PlacementResponse, StatusCode
from samza_dagster.orchestration.requests.step_request import details_of, is_of_step

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient


def started_standby(response: PlacementResponse | None) -> str | None:
    """The standby that a response says was started for an active; None for any other response."""
    if response is None or response.status_code is not StatusCode.SUCCEEDED:
        return None
    started = details_of(response).started
    return started if started != response.processor_id else None


def newest_starts(client: PlacementClient) -> dict[str, PlacementResponse]:
    """Standby → the newest answer on record that says it was started.

    A standby's id is free again once it is removed, so an older answer may tell of another one.
    """
    found: dict[str, PlacementResponse] = {}
    for response in client.history():
        standby = started_standby(response)
        if standby is not None:
            found[standby] = response
    return found


def started_anew(client: PlacementClient, root_run_id: str, step: str, standby: str) -> str:
    """The request that has started a standby of this id for somebody else since; empty for none."""
    newest = newest_starts(client).get(standby)
    if newest is None or is_of_step(newest.uuid, root_run_id, step):
        return ""
    return newest.uuid


def refuse_beside_another(client: PlacementClient, root_run_id: str, step: str, host: str) -> None:
    """Before a chain starts a standby for its move: the one that it has started elsewhere is gone.

    Raises `Refused` otherwise: nobody would give that one back.
    """
    there = client.view().processors
    for standby, start in newest_starts(client).items():
        if standby in there and is_of_step(start.uuid, root_run_id, step):
            raise Refused(
                f"a standby on {host} for the move, the only one that this chain has started for it",
                seen=f"it has started standby {standby} on {start.destination_host} as well",
                fix=f"destination {start.destination_host} to go on with that one; or a new run, and"
                f" samza-dagster control-standby stop {standby} if it isn't wanted any more",
            )
