"""Asking what Samza's wire has a form for: a placement, through the job's coordinator stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from samza_dagster.client.access import JobAccess
from samza_dagster.client.asked import canonical_uuid, perhaps_written, same_placement
from samza_dagster.client.checks import (
    Permitted,
    check_budget,
    expiry_ms,
    find_deployment,
    find_processor,
    legal_destination,
)
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.model import PlacementRequest, PlacementResponse
from samza_dagster.model.naming import ANY_HOST, DESTINATION_WORDS


class StreamRequests:
    """Writes placement requests, each once per UUID."""

    def __init__(self, job: JobAccess) -> None:
        self._job = job
        self.placement = ContainerPlacementMetadataStore(
            job.store, now_ms=job.now_ms, on_malformed=lambda _: None
        )
        # UUID → where the stream ended before this client wrote the request, and its deployment.
        self.written: dict[str, tuple[int, str]] = {}

    def known(self, uuid: str) -> PlacementRequest | PlacementResponse | None:
        """The request while no coordinator has taken it, then its newest response."""
        return self.placement.read_request(uuid) or self.placement.read_response(uuid)

    def ask(
        self,
        processor_id: str,
        destination: str,
        *,
        deployment_id: str | None,
        request_expiry_s: float | None,
        uuid: str | None,
        on_notice: Callable[[str], None],
        **permitted: Unpack[Permitted],
    ) -> PlacementRequest:
        """Writes one request, unless its UUID is known already; see `PlacementClient.place`."""
        expiry = expiry_ms(request_expiry_s)
        self._job.store.prepare_writes()  # beside the reads that come first
        asked = canonical_uuid(uuid)
        known = self.known(asked) if uuid is not None else None
        if known is not None:
            chosen = known.destination_host not in DESTINATION_WORDS - {ANY_HOST}
            if chosen and (permitted.get("or_any_legal") or destination == ANY_HOST):
                destination = known.destination_host
            return same_placement(known, processor_id, destination)
        view, state = self._job.read()
        deployment = find_deployment(view, deployment_id)
        taken = state is not None and asked in state.uuids  # its response was cleaned up since
        if not taken:
            processor = find_processor(view, processor_id)
            destination = legal_destination(view, processor, destination, **permitted).asked
            beyond = permitted.get("beyond_budget", False)
            spent = check_budget(view, processor_id, beyond_budget=beyond)
            if spent:
                on_notice(spent)
        request = PlacementRequest(
            uuid=asked,
            deployment_id=deployment,
            processor_id=processor_id,
            destination_host=destination,
            timestamp=self._job.now_ms(),
            request_expiry=expiry,
        )
        if taken:
            return request
        self.written[asked] = self._job.store.end_position(), deployment
        try:
            self.placement.write_request(
                deployment,
                processor_id,
                destination,
                request_expiry_ms=expiry,
                timestamp_ms=request.timestamp,
                uuid=asked,
            )
        except Unreachable as error:
            raise perhaps_written(error, asked) from error
        return request
