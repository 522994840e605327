"""A component of several Samza jobs, over a world for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
from lookout import LOOKOUTS
from placement_runs import WORLDS

from samza_dagster import SamzaJobComponent
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from tests.rig.stepped_job import SteppedJob

SEVERAL = ["orders", "billing/2"]


class Worlds(SamzaClientResource):
    """The resource over a world for each job; `bootstrap_servers` says of which kind."""

    def open_client(self) -> Any:
        if self.bootstrap_servers == "watched":
            return LOOKOUTS[self.job].client()
        return WORLDS[self.job].client()

    def deployed_jobs(self) -> list[str]:
        return [*WORLDS, *LOOKOUTS]


class Several(SamzaJobComponent):
    """The component over those worlds."""

    def build_resources(self) -> dict[str, Any]:
        made = super().build_resources()
        samza = made["samza"]
        fields = {name: getattr(samza, name) for name in SamzaClientResource.model_fields}
        return {**made, "samza": Worlds(**fields)}


def component(**attributes: Any) -> SamzaJobComponent:
    given: dict[str, Any] = {"bootstrap_servers": "placed", "jobs": SEVERAL} | attributes
    return Several(policies=PlacementPolicies(verify_timeout_s=1), **given)


def loaded(**attributes: Any) -> dg.RepositoryDefinition:
    return dg.build_defs_for_component(component(**attributes)).get_repository_def()


@contextmanager
def two_jobs(home: str) -> Iterator[dg.DagsterInstance]:
    """Their worlds, and an instance on SQLite, which threads may share."""
    WORLDS.update({job: SteppedJob.demo() for job in ("orders/1", "billing/2")})
    with dg.DagsterInstance.from_config(home) as made:
        yield made
    WORLDS.clear()
    LOOKOUTS.clear()
