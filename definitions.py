"""What a user writes: the Samza job of `samza_job.yaml`, in Dagster."""

from pathlib import Path

import dagster as dg

from samza_dagster import SamzaJobComponent

defs = dg.build_defs_for_component(
    SamzaJobComponent.from_file(Path(__file__).with_name("samza_job.yaml"))
)
