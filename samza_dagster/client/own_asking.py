"""What a client asks of our own coordinator alone."""

from __future__ import annotations

from abc import abstractmethod

from samza_dagster.client.asked import Asked
from samza_dagster.client.checks import find_processor, legal_destination
from samza_dagster.client.own_checks import (
    check_about,
    check_fail_over,
    check_start_standby,
    check_stop_standby,
    require_our_coordinator,
)
from samza_dagster.client.own_plan import make_own_plan
from samza_dagster.client.own_requests import OwnRequests, Wanted
from samza_dagster.client.plan import Plan
from samza_dagster.client.request_uuid import canonical_uuid
from samza_dagster.client.views import ActionView, JobView
from samza_dagster.model import PlacementResponse
from samza_dagster.model.naming import ANY_HOST, STANDBY
from samza_dagster.model.own_requests import RequestKind


class OwnAsking:
    """The part of `PlacementClient` for requests that Samza's wire has no form for.

    Every method raises `Refused` where Samza's own AM coordinates the job.
    """

    _own: OwnRequests

    @abstractmethod
    def view(self) -> JobView:
        """The job now."""

    @abstractmethod
    def response(self, uuid: str) -> PlacementResponse | None:
        """The newest response; None while there is none."""

    def reserve(
        self,
        processor_id: str,
        destination: str,
        *,
        deployment_id: str | None = None,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
    ) -> Asked:
        """Asks for a move that waits, once its destination is held, for a `commit`.

        The container isn't touched before that. A hold that is neither committed nor
        released ends FAILED after `request_expiry_s` (None: the job's request time-out).
        Raises as `place` does; only our own coordinator knows it.
        """

        def check(view: JobView) -> Wanted:
            require_our_coordinator(view, f"place {processor_id} --hold", RequestKind.PLACE)
            processor = find_processor(view, processor_id)
            legal_destination(view, processor, destination)
            return Wanted(processor_id, destination, hold=True)

        return self._own.ask(
            RequestKind.PLACE,
            check,
            processor_id=processor_id,
            uuid=uuid,
            deployment_id=deployment_id,
            request_expiry_s=request_expiry_s,
        )

    def commit(self, reservation: str, *, uuid: str | None = None) -> Asked:
        """Lets a held reservation go on: stop, then start on the host that is held."""
        return self._about(RequestKind.COMMIT, reservation, uuid)

    def release(self, reservation: str, *, uuid: str | None = None) -> Asked:
        """Gives a held reservation back; its container was never touched."""
        return self._about(RequestKind.RELEASE, reservation, uuid)

    def cancel(self, request: str, *, uuid: str | None = None) -> Asked:
        """Ends a request that waits or reserves; refused once its container is being stopped."""
        return self._about(RequestKind.CANCEL, request, uuid)

    def start_standby(
        self,
        processor_id: str,
        destination: str = ANY_HOST,
        *,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
    ) -> Asked:
        """Spins up one more standby of an active, on a host or on any legal one."""

        def check(view: JobView) -> Wanted:
            active, _, _ = check_start_standby(view, processor_id, destination)
            return Wanted(active.processor_id, destination)

        return self._own.ask(
            RequestKind.START_STANDBY,
            check,
            processor_id=processor_id,
            uuid=uuid,
            request_expiry_s=request_expiry_s,
        )

    def stop_standby(self, processor_id: str, *, uuid: str | None = None) -> Asked:
        """Stops a standby and removes it from the job; an active's id stands for its only one."""

        def check(view: JobView) -> Wanted:
            standby = check_stop_standby(view, processor_id)
            return Wanted(standby.processor_id, standby.host or ANY_HOST)

        return self._own.ask(RequestKind.STOP_STANDBY, check, uuid=uuid)

    def fail_over(
        self, processor_id: str, *, uuid: str | None = None, execution_id: str | None = None
    ) -> Asked:
        """Moves an active onto the host of the standby soonest ready, which gives way.

        With `execution_id` only while the active is that incarnation: the coordinator
        refuses it, or fails it at its turn, once another one has started.
        """

        def check(view: JobView) -> Wanted:
            active, _ = check_fail_over(view, processor_id, execution_id)
            return Wanted(active.processor_id, STANDBY, execution_id=execution_id)

        return self._own.ask(RequestKind.FAIL_OVER, check, processor_id=processor_id, uuid=uuid)

    def plan_own(self, kind: RequestKind, processor_id: str, destination: str = ANY_HOST) -> Plan:
        """What `start_standby`, `stop_standby` or `fail_over` would ask. Nothing is written."""
        return make_own_plan(self.view(), kind, processor_id, destination)

    def check_about(self, kind: RequestKind, request: str) -> ActionView:
        """The action that a commit, release or cancel would be about; raises when it is refused."""
        return self._action(self.view(), kind, canonical_uuid(request))

    def _action(self, view: JobView, kind: RequestKind, target: str) -> ActionView:
        action = next((a for a in (*view.actions, *view.queued) if a.uuid == target), None)
        return check_about(view, kind, target, action=action, response=self.response(target))

    def _about(self, kind: RequestKind, about: str, uuid: str | None) -> Asked:
        target = canonical_uuid(about)

        def check(view: JobView) -> Wanted:
            action = self._action(view, kind, target)
            return Wanted(action.processor_id, action.destination, refers_to=target)

        return self._own.ask(kind, check, uuid=uuid)
