"""What a run's process has of a served world: a client of it, and the product's own jobs over it.

Each row of runs has a world of its own, so its jobs stand under a prefix of their own, as
those of several clusters do in one code location.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from multiprocessing.connection import Client
from typing import Any

import dagster as dg
from dagster._core.definitions.repository_definition import CachingRepositoryData, RepositoryData

from samza_dagster.orchestration.jobs import of_component, placement_jobs
from samza_dagster.orchestration.names import named
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import job_tag
from samza_dagster.orchestration.waits.continuation import SENSOR, continuations_sensor

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


def served_repository(
    path: str, jobs: Mapping[str, Sequence[str]], waiting: Collection[str] = ()
) -> dg.RepositoryDefinition:
    """Row → the jobs that run in it; of those in `waiting` a wait ends the run at once.

    A run's process makes its own job alone. The first of a row that waits is what its sensor continues.
    """

    rows = {row: _Served(path, row, row in waiting) for row in jobs}
    samza = {named(row, "samza"): rows[row].samza.get_resource_definition() for row in waiting}

    @dg.repository(name="served")
    def served() -> RepositoryData:
        lazily: dict[str, dict[str, Callable[[], Any]]] = {
            "jobs": {
                named(row, job): rows[row].making(job)
                for row, of_row in jobs.items()
                for job in of_row
            },
            "sensors": {named(row, SENSOR): rows[row].sensing(jobs[row][0]) for row in waiting},
        }
        made = CachingRepositoryData.from_dict(lazily)
        # Dagster takes no resources beside functions; a sensor finds its own among these.
        made._top_level_resources = samza
        return made

    return served


class _Served:
    """What a row has in the code location."""

    def __init__(self, path: str, row: str, waits: bool) -> None:
        self._path, self._row = path, row
        self.samza = ServedSamza(bootstrap_servers=path, job_name="demo", prefix=row)
        self._resources = {
            "samza": self.samza,
            "samza_policies": PlacementPolicies(
                timeout_s=LONG_S,
                verify_timeout_s=LONG_S,
                lag_limit=100,
                wait_in_run_s=0 if waits else LONG_S,
            ),
        }
        self._jobs: dict[str, dg.JobDefinition] = {}

    def making(self, name: str) -> Callable[[], dg.JobDefinition]:
        """Dagster takes functions alone."""
        return lambda: self._job(name)

    def sensing(self, name: str) -> Callable[[], dg.SensorDefinition]:
        """What continues the job of that name."""

        def made() -> dg.SensorDefinition:
            job = self._job(name)
            return continuations_sensor([job], prefix=self._row)

        return made

    def _job(self, name: str) -> dg.JobDefinition:
        """Made once: a sensor launches the very definition."""
        if name not in self._jobs:
            tag = job_tag("demo/1", self._row)
            product = next(job for job in placement_jobs(tag) if job.name == name)
            told = _op_boundary(self._path, self._row)
            own = of_component(product, tag, self._row, self._resources)
            self._jobs[name] = own.with_hooks({told})
        return self._jobs[name]


def _op_boundary(path: str, row: str) -> dg.HookDefinition:
    """Tells the world's server that an op has ended, before the next one begins."""

    @dg.success_hook(name=OP_ENDED)
    def told(context: dg.HookContext) -> None:
        client = ServedClient(path, row)
        client.op_ended(context.step_key)
        client.close()

    return told
