"""How a step's request is written, held, given back and ended, whichever job asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from samza_dagster.errors import InvalidInput, SamzaDagsterError
from samza_dagster.model.capabilities import capabilities
from samza_dagster.orchestration.plans.units import Kind, UnitStep
from samza_dagster.orchestration.requests.step_request import (
    Outcome,
    StepRequest,
    details_of,
    request_uuid,
)

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient
    from samza_dagster.client.requests import Request
    from samza_dagster.model import PlacementRequest

COMMIT = "commit"
RELEASE = "release"
ANSWER_S = 10.0


def ask(
    client: PlacementClient,
    step: UnitStep,
    processor_id: str,
    *,
    asked: StepRequest,
    hold: HeldRequest | None = None,
    expiry_s: float | None = None,
) -> Outcome:
    """Ask a step's request, unless an earlier run did; it is then taken as it stands.

    `hold`: its destination is held until the commit. Raises what the client raises.
    """
    response, made = asked.response, None
    is_past = response is not None and (
        response.status_code.is_terminal or bool(details_of(response).stopped)
    )
    if hold is not None and not is_past:
        hold.note()
    if response is None:
        try:
            made = write(
                *(client, step, processor_id),
                uuid=asked.uuid,
                expiry_s=expiry_s,
                hold=hold is not None,
            )
        except InvalidInput:  # nothing was written, so there is nothing to give back
            if hold is not None:
                hold.forget()
            raise
    return Outcome.of(step, asked, made, hold=hold is not None)


def write(
    client: PlacementClient,
    step: UnitStep,
    processor_id: str,
    *,
    uuid: str,
    expiry_s: float | None,
    hold: bool,
) -> PlacementRequest | Request:
    """Write a step's request; one of this uuid that was written before is left as it is.

    `hold`: nothing is stopped before its commit. Raises what the client raises.
    """
    kind, destination = step.kind, step.destination
    if kind is Kind.FAIL_OVER:
        return client.fail_over(processor_id, uuid=uuid, execution_id=step.execution_id or None)
    if kind is Kind.STOP_STANDBY:
        return client.stop_standby(processor_id, uuid=uuid)
    if kind is Kind.START_STANDBY:
        return client.start_standby(processor_id, destination, request_expiry_s=expiry_s, uuid=uuid)
    if hold:
        return client.reserve(processor_id, destination, request_expiry_s=expiry_s, uuid=uuid)
    # The plan has looked at the host: under Samza's AM one that its last container has left
    # since, as a standby that made room, is known no more.
    return client.place(
        processor_id,
        destination,
        request_expiry_s=expiry_s,
        uuid=uuid,
        beyond_budget=step.beyond_budget,
        allow_unknown_host=True,
    )


@dataclass(frozen=True)
class HeldRequest:
    """A request that holds its destination: given back unless it is committed.

    `holds` has those of the run, with the uuid of the release of each. Of `step`, the name of its own
    step, those of the steps are made that commit and release it.
    """

    client: PlacementClient
    root_run_id: str
    holds: dict[str, str]
    uuid: str
    attempt: int
    step: str = ""

    @property
    def is_held_only(self) -> bool:
        """Asked for, and nothing of it was stopped."""
        return self.uuid in self.holds

    def note(self) -> None:
        """Before it is written: a run that ends gives back what is noted."""
        self.holds[self.uuid] = self._uuid(RELEASE)

    @property
    def commit_uuid(self) -> str:
        """The uuid of its commit."""
        return self._uuid(COMMIT)

    def commit(self) -> None:
        """Writes the commit, once; from then on there is nothing to give back."""
        self.client.commit(self.uuid, uuid=self.commit_uuid)
        self.forget()

    def forget(self) -> None:
        """There is nothing to give back any more."""
        self.holds.pop(self.uuid, None)

    def give_back(self) -> str:
        """Releases what is held only; what became of it, or nothing where nothing was."""
        release_uuid = self.holds.pop(self.uuid, None)
        return release(self.client, self.uuid, release_uuid) if release_uuid else ""

    def _uuid(self, verb: str) -> str:
        head, _, rest = self.step.partition("/")
        return request_uuid(
            self.root_run_id, f"{head}-{verb}/{rest}" if rest else verb, self.attempt
        )


def release(client: PlacementClient, reservation: str, uuid: str) -> str:
    """Releases a reservation that isn't committed; returns what became of it, for a log.

    Raises nothing of ours: what can't be released ends by itself when its time is up.
    """
    try:
        client.release(reservation, uuid=uuid)
        answer = client.wait(reservation, timeout_s=ANSWER_S)
    except SamzaDagsterError as error:
        return (
            f"reservation {reservation} isn't released: {error}; uncommitted, it expires by itself"
        )
    return f"reservation {reservation}: {answer.status_code.value}: {answer.response_message}"


def cancel(client: PlacementClient, root_run_id: str, request: str) -> str:
    """End a request of which nothing is stopped or started yet; return what became of it, for a log.

    Where the coordinator takes no cancel it goes on: Samza's wire has none, and a container that is
    down comes back by going on alone. Raises nothing of ours.
    """
    goes_on = "the coordinator goes on with it: re-execute this run from failure to follow"
    try:
        if not capabilities(client.view().coordinator).has_own_requests:
            return goes_on
        client.cancel(request, uuid=request_uuid(root_run_id, f"cancel/{request}", 0))
        answer = client.wait(request, timeout_s=ANSWER_S)
    except SamzaDagsterError as error:
        return f"{goes_on} ({error})"
    return (
        f"request {request} is ended: {answer.status_code.value}: {answer.response_message};"
        " re-execute this run from failure to ask anew"
    )
