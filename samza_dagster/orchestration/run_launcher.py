"""Where the `dagster.yaml` of former releases names the run launcher."""

from samza_dagster.orchestration.deploy.run_launcher import WatchedRunLauncher

__all__ = ["WatchedRunLauncher"]
