"""What a run's process has of a served world: a client of it, and the product's own jobs over it.

Each row of runs has a world of its own, so its jobs stand under a prefix of their own, as
those of several clusters do in one code location.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from multiprocessing.connection import Client
from typing import Any

import dagster as dg

from samza_dagster.client.responses import terminal
from samza_dagster.errors import DeadlineExceeded
from samza_dagster.model import PlacementResponse
from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.names import named
from samza_dagster.orchestration.naming_jobs import job_under
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import job_tag

OP_ENDED = "op_ended"
LONG_S = 3_600  # a run is held while others are killed


class ServedClient:
    """`Placement` over the world of a row."""

    def __init__(self, path: str, row: str) -> None:
        self._connection = Client(path, family="AF_UNIX")
        self._connection.send(row)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            self._connection.send((name, given, named))
            what, told = self._connection.recv()
            if what == "error":
                kind, asked, seen, fix = told
                raise kind(asked, seen=seen, fix=fix)
            return told

        return call

    def wait(
        self,
        uuid: str,
        *,
        timeout_s: float,
        on_response: Callable[[PlacementResponse], None] | None = None,
        until: Callable[[PlacementResponse], bool] = terminal,
    ) -> PlacementResponse:
        first = True
        while True:
            response = self.next_response(uuid, first)
            if response is None:
                raise DeadlineExceeded("the outcome", seen="it waits for its commit")
            first = False
            if on_response is not None:
                on_response(response)
            if until(response):
                return response

    def close(self) -> None:
        self._connection.close()


class ServedSamza(SamzaClientResource):
    """The resource; `bootstrap_servers` is the socket's path, `prefix` the row."""

    def open_client(self) -> ServedClient:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ServedClient(self.bootstrap_servers, self.prefix)


def served_repository(path: str, jobs: Mapping[str, str]) -> dg.RepositoryDefinition:
    """Row → the job that runs in it. A run's process makes its own job alone."""

    @dg.repository(name="served")
    def served() -> dict[str, dict[str, Callable[[], dg.JobDefinition]]]:
        return {"jobs": {named(row, job): _maker(path, row, job) for row, job in jobs.items()}}

    return served


def _maker(path: str, row: str, name: str) -> Callable[[], dg.JobDefinition]:
    def made() -> dg.JobDefinition:
        product = {job.name: job for job in placement_jobs(job_tag("demo/1", row))}[name]
        resources = {
            "samza": ServedSamza(bootstrap_servers=path, job_name="demo", prefix=row),
            "samza_policies": PlacementPolicies(
                timeout_s=LONG_S, verify_timeout_s=LONG_S, lag_limit=100
            ),
        }
        return job_under(row, product, resources).with_hooks({_op_boundary(path, row)})

    return made


def _op_boundary(path: str, row: str) -> dg.HookDefinition:
    """Tells the world's server that an op has ended, before the next one begins."""

    @dg.success_hook(name=OP_ENDED)
    def told(context: dg.HookContext) -> None:
        client = ServedClient(path, row)
        client.op_ended(context.step_key)
        client.close()

    return told
