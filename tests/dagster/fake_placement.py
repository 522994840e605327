"""A small world of containers behind the client's interface: values that change as asked.

Rules and plans are the client's own; only the coordinator's answers are scripted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import dagster as dg

from samza_dagster.client.plan import Plan, check_destination, find_processor, make_plan
from samza_dagster.client.views import HostView, JobView, ProcessorView, Progress
from samza_dagster.errors import DeadlineExceeded
from samza_dagster.model import PlacementRequest, PlacementResponse, StatusCode, TaskMode
from samza_dagster.model.naming import LAST_SEEN
from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource

RESERVING = (StatusCode.IN_PROGRESS, "Preferred Resources requested")
STOPPING = (StatusCode.IN_PROGRESS, "Active container stop in progress")
BEGIN_MS = 1_700_000_000_000


@dataclass
class World:
    """Containers on hosts, and what the coordinator will answer to the next requests."""

    hosts: dict[str, HostView]
    at: dict[str, str]
    ends: list[tuple[StatusCode, str]] = field(default_factory=list)
    breaks_once: BaseException | None = None
    processes: bool = True
    now_ms: int = BEGIN_MS
    asked: list[tuple[str, str]] = field(default_factory=list)
    requests: dict[str, PlacementRequest] = field(default_factory=dict)
    answers: dict[str, list[PlacementResponse]] = field(default_factory=dict)
    opened: int = 0
    closed: int = 0
    prepared: int = 0
    after_ms: int = 0

    @classmethod
    def demo(cls) -> World:
        """The demo job: actives on host-1 and host-2, standbys on host-3 and host-4."""
        free = {"host-1": 500, "host-2": 900, "host-3": 500, "host-4": 700}
        return cls(
            hosts={h: HostView(h, "alive", free_memory_mb=mb) for h, mb in free.items()},
            at={"0": "host-1", "1": "host-2", "0-0": "host-3", "1-0": "host-4"},
        )

    def view(self) -> JobView:
        """As the real client shows it."""
        return JobView(
            job_name="demo",
            job_id="1",
            deployment_id="run-1",
            processors={
                p: ProcessorView(
                    p,
                    TaskMode.STANDBY if "-" in p else TaskMode.ACTIVE,
                    "running",
                    host,
                    f"{p}@{host}",
                    (f"Partition {p[0]}",),
                )
                for p, host in self.at.items()
            },
            hosts=dict(self.hosts),
            coordinator="samza_dagster",
        )

    def answer(self, uuid: str, status: StatusCode, message: str) -> PlacementResponse:
        """One more status of a request."""
        self.now_ms += 250
        request = self.requests[uuid]
        response = PlacementResponse(
            uuid=uuid,
            deployment_id=request.deployment_id,
            processor_id=request.processor_id,
            destination_host=request.destination_host,
            status_code=status,
            timestamp=self.now_ms,
            response_message=message,
        )
        self.answers.setdefault(uuid, []).append(response)
        return response

    def carry_out(self, uuid: str) -> list[PlacementResponse]:
        """The coordinator's work on one request, to its end."""
        request = self.requests[uuid]
        host = request.destination_host
        status, text = (
            self.ends.pop(0) if self.ends else (StatusCode.SUCCEEDED, f"started on {host}")
        )
        if status is StatusCode.BAD_REQUEST:
            return [self.answer(uuid, status, text)]
        done = [self.answer(uuid, *RESERVING), self.answer(uuid, *STOPPING)]
        if status is StatusCode.SUCCEEDED and host != LAST_SEEN:
            self.at[request.processor_id] = host
        return [*done, self.answer(uuid, status, text)]


class FakeClient:
    """`Placement` over a `World`."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.opened += 1

    def prepare(self) -> None:
        self.world.prepared += 1

    def view(self) -> JobView:
        return self.world.view()

    def plan(self, processor_id: str, destination: str) -> Plan:
        return make_plan(self.world.view(), processor_id, destination)

    def place(
        self,
        processor_id: str,
        destination: str,
        *,
        deployment_id: str | None = None,
        request_expiry_s: float | None = None,
        uuid: str | None = None,
    ) -> PlacementRequest:
        assert uuid is not None
        if uuid in self.world.requests:
            return self.world.requests[uuid]
        view = self.world.view()
        check_destination(view, find_processor(view, processor_id), destination)
        request = PlacementRequest(
            uuid=uuid,
            deployment_id="run-1",
            processor_id=processor_id,
            destination_host=destination,
            timestamp=self.world.now_ms,
            request_expiry=int((request_expiry_s or 0) * 1000),
        )
        self.world.requests[uuid] = request
        self.world.asked.append((processor_id, destination))
        return request

    def request(self, uuid: str) -> PlacementRequest | None:
        return None if uuid in self.world.answers else self.world.requests.get(uuid)

    def response(self, uuid: str) -> PlacementResponse | None:
        answers = self.world.answers.get(uuid)
        return answers[-1] if answers else None

    def wait(
        self,
        uuid: str,
        *,
        timeout_s: float,
        on_response: Callable[[PlacementResponse], None] | None = None,
    ) -> PlacementResponse:
        broken, self.world.breaks_once = self.world.breaks_once, None
        if broken is not None:
            raise broken
        last = self.response(uuid)
        news = [last] if last and last.status_code.is_terminal else self.world.carry_out(uuid)
        for response in news:
            if on_response is not None:
                on_response(response)
        return news[-1]

    def processing(self, processor_id: str, since_ms: int) -> Progress:
        self.world.after_ms = since_ms
        return Progress(processor_id, since_ms, self.world.processes, ())

    def responses_since(
        self, position: int | None
    ) -> tuple[tuple[tuple[int, PlacementResponse], ...], int]:
        raise NotImplementedError

    def close(self) -> None:
        self.world.closed += 1


WORLDS: dict[str, World] = {}


class FakeSamza(SamzaClientResource):
    """The resource, with a world in the cluster's place; `bootstrap_servers` names the world."""

    def open_client(self) -> FakeClient:  # pyright: ignore[reportIncompatibleMethodOverride]
        return FakeClient(WORLDS[self.bootstrap_servers])


def too_late() -> DeadlineExceeded:
    return DeadlineExceeded("the outcome", seen="last IN_PROGRESS: Preferred Resources requested")


def fake_definitions(world: str) -> dg.Definitions:
    """The product's own jobs over a world."""
    return dg.Definitions(
        jobs=placement_jobs("demo/1"),
        resources={
            "samza": FakeSamza(bootstrap_servers=world, job_name="demo", job_id="1"),
            "samza_policies": PlacementPolicies(verify_timeout_s=1),
        },
    )


def fake_move_with_standby() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_definitions("reexecuted").get_job_def("move_with_standby")


def fake_move_container() -> dg.JobDefinition:
    """For `dg.reconstructable`, which takes a function's name."""
    return fake_definitions("reexecuted").get_job_def("move_container")
