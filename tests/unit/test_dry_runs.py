"""Each Dagster job that asks for something has a dry run; that one writes nothing is judged by the tests of each."""

from __future__ import annotations

import dagster as dg
import pytest

from samza_dagster import SamzaJobComponent

pytestmark = pytest.mark.unit
ONLY_READ = {"look_at_fleet", "snapshot_assets"}
"""Jobs without a dry run: they ask nothing of the Samza job in any run."""


def has_a_dry_run(job: dg.JobDefinition) -> bool:
    """In the config of one of its ops."""
    schemas = [op.config_schema.config_type for op in job.graph.iterate_op_defs()]
    return any("dry_run" in getattr(schema, "fields", {}) for schema in schemas)


def test_every_job_has_a_dry_run_or_only_reads() -> None:
    """All that a component has for a person to launch; a job that is added as well."""
    component = SamzaJobComponent(bootstrap_servers="none:9092", app_name="dry")
    made = dg.build_defs_for_component(component).get_repository_def().get_all_jobs()
    launched = [job for job in made if not job.name.startswith("__")]
    assert {job.name for job in launched if not has_a_dry_run(job)} == ONLY_READ
