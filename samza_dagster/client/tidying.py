"""Removing placement messages that are no longer needed."""

from __future__ import annotations

from collections.abc import Iterable

from samza_dagster.client.state_source import CoordinatorState
from samza_dagster.client.views import JobView
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.cleanup import Removal, Where, finished_or_foreign
from samza_dagster.metadata.own_requests import OwnMail, OwnRequestStore
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore, request_key
from samza_dagster.model import PlacementRequest, PlacementResponse
from samza_dagster.placement.reading import in_flight


def unneeded(
    placement: ContainerPlacementMetadataStore,
    view: JobView,
    state: CoordinatorState | None,
    older_than_s: float,
) -> tuple[Removal, ...]:
    """Return what `finished_or_foreign` finds in both topics, after what Samza's AM can't get past.

    An answer is as old as the coordinator's own clock has shown since: in its last sign of life, or
    in the newest answer. The clock of this machine counts for nothing. Where Samza's AM counts the
    stops of a processor, its answers stay. Raises `InvalidInput` before the first deployment.
    """
    if view.deployment_id is None:
        raise InvalidInput(
            "the running deployment",
            seen="no app.run.id in the coordinator stream",
            fix="deploy the job once: what is foreign can't be told before",
        )
    older_than_ms = round(older_than_s * 1000)
    counted = {pid for pid, budget in view.stop_budgets.items() if budget.counted}
    mail = state.mail if state is not None else OwnMail()
    answers = placement.responses()
    shown_ms = [one.timestamp for one in (*answers, *mail.responses.values())]
    if state is not None and state.leader is not None and state.leader.beat_ms is not None:
        shown_ms.append(state.leader.beat_ms)
    now_ms = max(shown_ms, default=0)

    # Silence is no proof that a job is dead, and what is removed can't be asked again.
    ended = view.dead if view.application is not None and view.dead else ""

    def is_old(answer: PlacementResponse) -> bool:
        kept = (
            not ended
            and answer.deployment_id == view.deployment_id
            and answer.processor_id in counted
        )
        return not kept and now_ms - answer.timestamp >= older_than_ms

    requests = placement.requests()
    return _stuck(view, requests) + finished_or_foreign(
        requests=requests,
        responses=answers,
        own_requests=mail.requests,
        own_responses=mail.responses,
        deployment_id=view.deployment_id,
        in_flight=in_flight(state.groups.values()) if state is not None else (),
        is_old=is_old,
        ended=ended,
    )


def _stuck(view: JobView, requests: Iterable[PlacementRequest]) -> tuple[Removal, ...]:
    """Where Samza's AM coordinates: what stops its placement thread, and what it never takes."""
    stream = Where.COORDINATOR_STREAM
    poison = [Removal(stream, "record", key, None, why) for key, why in view.poison.items()]
    waits = [
        Removal(stream, "request", r.uuid, r.timestamp, f"no processor {r.processor_id} is there")
        for r in requests
        if not view.capabilities.rules_before_stop
        and view.processors
        and r.deployment_id == view.deployment_id
        and r.processor_id not in view.processors
        and request_key(r.uuid) not in view.poison
    ]
    return (*poison, *waits)


def remove(
    placement: ContainerPlacementMetadataStore,
    mailbox: OwnRequestStore | None,
    removals: Iterable[Removal],
) -> int:
    """Deletes these messages, one by one; returns how many. Repeating it does no harm."""
    count = 0
    for removal in removals:
        is_request = removal.kind == "request"
        if removal.kind == "record":
            placement.delete_record(removal.uuid)
        elif removal.where is Where.STATE_TOPIC:
            assert mailbox is not None, "found by a client that has none"
            (mailbox.delete_request if is_request else mailbox.delete_response)(removal.uuid)
        elif is_request:
            placement.delete_request(removal.uuid)
        else:
            placement.delete_response(removal.uuid)
        count += 1
    return count
