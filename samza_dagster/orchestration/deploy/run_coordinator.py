"""A queued run coordinator that tags placement runs with their container group.

A run can come from the Launchpad, GraphQL, the command line, a schedule, a sensor or
a re-execution, and only its config names the processor. Tags are given where all
these meet, at submission, before the queue reads them for its limits.
"""

from __future__ import annotations

import dagster as dg

from samza_dagster.orchestration.tags import tags_from_run_config


class ContainerGroupRunCoordinator(dg.QueuedRunCoordinator):
    """`QueuedRunCoordinator` plus `samza/container-group`, who, why and ticket from the config.

    Named in `dagster.yaml` under `run_coordinator`; takes the same config as its base.
    A tag given by hand that contradicts the config is replaced: the config decides
    which container is touched.
    """

    def submit_run(self, context: dg.SubmitRunContext) -> dg.DagsterRun:
        """Tags the run, then queues it."""
        run = context.dagster_run
        implied = tags_from_run_config(run.run_config, run.tags, run.run_id)
        missing = {key: value for key, value in implied.items() if run.tags.get(key) != value}
        if missing:
            self._instance.add_run_tags(run.run_id, missing)
        return super().submit_run(context)
