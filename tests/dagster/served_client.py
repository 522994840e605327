"""What a run's process has of a served world: a client of it, and the product's own jobs over it.

Each row of runs has a world of its own, so its jobs stand under a prefix of their own, as
those of several clusters do in one code location.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from multiprocessing.connection import Client
from typing import Any

import dagster as dg
from dagster._core.definitions.repository_definition import CachingRepositoryData, RepositoryData

from samza_dagster.orchestration.jobs import of_component, placement_jobs
from samza_dagster.orchestration.names import named
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import job_tag

OP_ENDED = "op_ended"
RETURNED = "returned"
LONG_S = 3_600  # a run is held while others are killed


class ServedClient:
    """Calls the client that the world of a row has; what is called back is called here.

    Meanwhile it may be called again: a wait says what it sees.
    """

    def __init__(self, path: str, row: str) -> None:
        self._connection = Client(path, family="AF_UNIX")
        self._connection.send(row)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            back = {key: value for key, value in named.items() if callable(value)}
            plain = {key: value for key, value in named.items() if key not in back}
            self._connection.send((name, given, plain, tuple(back)))
            while True:
                what, told = self._connection.recv()
                if what == "call":
                    key, args = told
                    self._connection.send((RETURNED, back[key](*args)))
                elif what == "error":
                    kind, asked, seen, fix = told
                    raise kind(asked, seen=seen, fix=fix)
                else:
                    return told

        return call

    def close(self) -> None:
        self._connection.close()


class ServedSamza(SamzaClientResource):
    """The resource; `bootstrap_servers` is the socket's path, `prefix` the row."""

    def open_client(self) -> ServedClient:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ServedClient(self.bootstrap_servers, self.prefix)


def served_repository(path: str, jobs: Mapping[str, str]) -> dg.RepositoryDefinition:
    """Row → the job that runs in it. A run's process makes its own job alone."""

    def making(row: str, job: str) -> Callable[[], dg.JobDefinition]:
        return lambda: _served_job(path, row, job)

    @dg.repository(name="served")
    def served() -> RepositoryData:
        made = {named(row, job): making(row, job) for row, job in jobs.items()}
        lazily: dict[str, dict[str, Callable[[], Any]]] = {"jobs": {**made}}
        return CachingRepositoryData.from_dict(lazily)

    return served


def _served_job(path: str, row: str, name: str) -> dg.JobDefinition:
    tag = job_tag("demo/1", row)
    product = next(job for job in placement_jobs(tag) if job.name == name)
    resources = {
        "samza": ServedSamza(bootstrap_servers=path, job_name="demo", prefix=row),
        "samza_policies": PlacementPolicies(
            timeout_s=LONG_S, verify_timeout_s=LONG_S, lag_limit=100
        ),
    }
    own = of_component(product, tag, row, resources)
    return own.with_hooks({_op_boundary(path, row)})


def _op_boundary(path: str, row: str) -> dg.HookDefinition:
    """Tells the world's server that an op has ended, before the next one begins."""

    @dg.success_hook(name=OP_ENDED)
    def told(context: dg.HookContext) -> None:
        client = ServedClient(path, row)
        client.op_ended(context.step_key)
        client.close()

    return told
