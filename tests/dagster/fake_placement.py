"""The client's interface over a small world of containers (`fake_world`).

Rules and plans are the client's own; only the coordinator's answers are scripted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import dagster as dg
from fake_world import (  # noqa: F401 - tests have them from here
    BAD_REQUEST,
    EXPIRED,
    FAILED,
    HOLD_EXPIRED,
    NOT_STARTED,
    SUCCEEDED,
    World,
)

from samza_dagster.client import PlacementClient
from samza_dagster.client.checkpoints import ProcessorProgress
from samza_dagster.client.checks import check_budget, find_processor, legal_destination
from samza_dagster.client.readiness import StandbysNow, standbys_now
from samza_dagster.client.requests import Request, Wanted
from samza_dagster.client.responses import never_answered, terminal
from samza_dagster.client.views import JobView, ReplicaLag, over_with
from samza_dagster.errors import DeadlineExceeded, Refused, Unreachable
from samza_dagster.lag import NewestReadiness
from samza_dagster.model import PlacementRequest, PlacementResponse, TaskMode
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.placement import texts


class Killed(Exception):
    """The run's worker is gone: from then on nothing that it asks gets anywhere."""


class FakeClient(PlacementClient):
    """The client's own checks and plans over a `World`, in the place of its stores."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._wrote: set[str] = set()
        self._killed = False
        self._requests = self  # its `ask` stands for that of `Requests`
        world.opened += 1

    @property
    def world(self) -> World:
        """The world, unless this client's worker was killed or Kafka is away."""
        if self._killed:
            raise Killed
        if self._world.is_away:
            raise Unreachable("Kafka", seen="no broker answers", fix="start it")
        return self._world

    def prepare(self) -> None:
        self.world.prepared += 1

    def view(self) -> JobView:
        return self.world.view()

    def place(
        self,
        processor_id: str,
        destination: str,
        *,
        request_expiry_s: float | None = None,
        uuid: str,
        allow_unknown_host: bool = False,
        beyond_budget: bool = False,
        **_: Any,
    ) -> PlacementRequest:
        if uuid not in self.world.requests or uuid in self.world.dropped:
            view = self.world.view()
            check_budget(view, processor_id, beyond_budget=beyond_budget)
            processor = find_processor(view, processor_id)
            destination = legal_destination(
                view, processor, destination, allow_unknown_host=allow_unknown_host
            ).asked
        return self._ask("place", processor_id, destination, request_expiry_s, uuid)

    def ask(
        self,
        kind: RequestKind,
        check: Callable[[JobView], Wanted],
        *,
        uuid: str,
        request_expiry_s: float | None = None,
        **_: Any,
    ) -> Request:
        """Writes a request of our own; each uuid has an effect once."""
        if kind is RequestKind.COMMIT:
            self._break("commit")
        world = self.world
        if uuid in world.own:
            return world.own[uuid]
        wanted = check(world.view())
        about = wanted.refers_to or uuid
        if kind is RequestKind.COMMIT:
            world.committed[about] = uuid
        elif kind is RequestKind.RELEASE:
            world.released[about] = uuid
            world.answer(about, FAILED, texts.RELEASED)
        elif kind is RequestKind.CANCEL:
            if world.too_late_to_cancel:
                raise Refused("cancel", seen="stage starting", fix="wait for its end")
            world.cancelled.append(about)
            world.answer(about, FAILED, texts.CANCELLED)
        else:
            name = "hold" if wanted.hold else kind.value
            self._ask(name, wanted.processor_id, wanted.destination, request_expiry_s, uuid)
        return world.own.setdefault(uuid, _as_own(kind, world.requests[about]))

    def _ask(
        self, kind: str, processor_id: str, destination: str, expiry_s: float | None, uuid: str
    ) -> PlacementRequest:
        if uuid not in self.world.requests or uuid in self.world.dropped:
            self._wrote.add(uuid)
        self.world.ask(kind, processor_id, destination, uuid, expiry_s or 0)
        return self.world.requests[uuid]

    def release(self, reservation: str, *, uuid: str | None = None) -> Request:
        if self.world.is_waiting(reservation):  # the coordinator takes it up meanwhile
            self.world.go_on(reservation)
        return super().release(reservation, uuid=uuid)

    def lag(self) -> tuple[ReplicaLag, ...]:
        self._break("lag")
        lags = self.world.lags.pop(0) if self.world.lags else self.world.lag_now
        told_ms = self.world.reported_ms()
        return tuple(
            ReplicaLag(p, "task", TaskMode.STANDBY, "store", "log", n, None, 0, None, lag, told_ms)
            for p, of_stores in lags.items()
            for n, lag in enumerate(of_stores)
        )

    def readiness(self, lags: Collection[ReplicaLag]) -> NewestReadiness:
        return self.world.newest

    def standbys_now(self, processor_id: str) -> StandbysNow:
        view = self.world.view()
        mine = [p for p in view.processors if view.is_standby(p) and view.group_of(p) == view.group_of(processor_id)]  # fmt: skip
        if not (self.world.newest.standbys or self.world.newest.unused):
            return StandbysNow(tuple(sorted(mine)))
        return standbys_now(self.world.newest, self.lag(), sorted(mine))

    def request(self, uuid: str) -> PlacementRequest | None:
        return self._waiting(uuid, self.world.kinds.get(uuid) == "place")

    def own_request(self, uuid: str) -> Request | None:
        found = self._waiting(uuid, self.world.kinds.get(uuid) != "place")
        return None if found is None else _as_own(RequestKind.PLACE, found)

    def _waiting(self, uuid: str, here: bool) -> PlacementRequest | None:
        return self.world.requests[uuid] if here and self.world.is_waiting(uuid) else None

    def response(self, uuid: str) -> PlacementResponse | None:
        answers = self.world.answers.get(uuid)
        return answers[-1] if answers else None

    def remembered(self) -> frozenset[str]:
        if self.world.coordinator == "samza":
            return frozenset()  # as the client knows it
        return frozenset(self.world.answers) | self.world.forgotten

    def standby_origins(self) -> dict[str, str]:
        self._break("audit")
        return dict(self.world.origins)

    def history(
        self, processor_id: str | None = None, *, limit: int | None = None
    ) -> tuple[PlacementResponse, ...]:
        newest = (answers[-1] for answers in self.world.answers.values())
        return tuple(sorted(newest, key=lambda response: response.timestamp))

    def wait(
        self,
        uuid: str,
        *,
        timeout_s: float,
        on_response: Callable[[PlacementResponse], None] | None = None,
        until: Callable[[PlacementResponse], bool] = terminal,
        on_notice: Callable[[str], object] = lambda _: None,
        on_look: Callable[[float], object] | None = None,
    ) -> PlacementResponse:
        known = list(self.world.answers.get(uuid, []))
        todo = known if uuid in self._wrote else known[-1:]
        while True:
            self._break("wait")
            if uuid in self.world.forgotten:
                raise too_late()
            again = bool(todo)
            for action in self.world.view().actions if self.world.yarn else ():
                if action.uuid == uuid and action.trouble:
                    on_notice(action.trouble)
            response = todo.pop(0) if todo else self.world.go_on(uuid)
            if response is None:
                asked_of = self.world.requests[uuid].deployment_id
                if over := over_with(asked_of, self.world.deployment):
                    raise never_answered(uuid, over, self.response(uuid))
                raise DeadlineExceeded("the outcome", seen="it waits for its commit")
            if response.response_message.startswith("Reserved"):
                self._break("held")
            if on_response is not None:
                on_response(response)
            if terminal(response):
                self._go_away(response.response_message)
            if until(response):
                return response
            self._break(response.response_message)
            if self.world.slow and on_look is not None:
                on_look(timeout_s)
            elif self.world.slow and not again:
                raise DeadlineExceeded("the outcome", seen="it is in progress")

    def _break(self, where: str) -> None:
        if self.world.breaks_after.get(where, 0) and where in self.world.breaks:
            self.world.breaks_after[where] -= 1
            return
        error = self.world.breaks.pop(where, None)
        if error is None:
            return
        self._killed = isinstance(error, Killed)
        self._go_away(where)
        raise error

    def _go_away(self, where: str) -> None:
        self._world.is_away = self._world.is_away or self._world.away_at == where

    def checkpoints_end(self) -> int:
        self._break("commits")
        return self.world.commits

    def processing(self, processor_id: str, since: int) -> ProcessorProgress:
        self.world.since = since
        self.world.work_after -= 1
        works = self.world.processes and self.world.work_after < 0
        # Up to its stop its former process has committed too.
        works = works or since < self.world.last_commit.get(processor_id, 0)
        return ProcessorProgress(processor_id, since, works, (), self.world.commits)

    def close(self) -> None:
        self._world.closed += 1


def _as_own(kind: RequestKind, made: PlacementRequest) -> Request:
    return Request(
        uuid=made.uuid,
        kind=kind.value,
        processor_id=made.processor_id,
        destination_host=made.destination_host,
        deployment_id=made.deployment_id,
        timestamp=made.timestamp,
    )


WORLDS: dict[str, World] = {}


class FakeSamza(SamzaClientResource):
    """The resource, with a world in the cluster's place; `bootstrap_servers` names the world."""

    def open_client(self) -> FakeClient:  # pyright: ignore[reportIncompatibleMethodOverride]
        return FakeClient(WORLDS[self.bootstrap_servers])


def too_late() -> DeadlineExceeded:
    return DeadlineExceeded("the outcome", seen="last IN_PROGRESS: Preferred Resources requested")


Run = Callable[..., dg.ExecuteInProcessResult]
"""Runs a placement job of this name, with this config of its plan: a test's fixture `run`."""


def fake_definitions(world: str) -> dg.Definitions:
    """The product's own jobs over a world."""
    return dg.Definitions(
        jobs=placement_jobs("demo/1"),
        resources={
            "samza": FakeSamza(bootstrap_servers=world, job_name="demo", job_id="1"),
            "samza_policies": PlacementPolicies(verify_timeout_s=1, lag_limit=100),
        },
    )


def fake_job(name: str, wait_in_run_s: int = 120) -> dg.JobDefinition:
    """One of the jobs over the world of re-executions."""
    definitions = fake_definitions("reexecuted")
    policies = PlacementPolicies(verify_timeout_s=1, lag_limit=100, wait_in_run_s=wait_in_run_s)
    resources = {**(definitions.resources or {}), "samza_policies": policies}
    return dg.Definitions(jobs=definitions.jobs, resources=resources).get_job_def(name)


def fake_move_with_standby() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_definitions("reexecuted").get_job_def("move_with_standby")


def fake_move_via() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_job("move_via_new_standby")


def fake_move_via_waiting() -> dg.JobDefinition:
    """The same; a wait ends its run at once."""
    return fake_job("move_via_new_standby", wait_in_run_s=0)


def fake_move_container() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_definitions("reexecuted").get_job_def("move_container")


def fake_drain() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_job("drain_host")


def fake_cancel_waiting() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_job("cancel_waiting")


def fake_spin_up() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_job("spin_up_standby")


def fake_fail_over() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_job("fail_over")
