"""Where the `dagster.yaml` of former releases names the run coordinator."""

from samza_dagster.orchestration.deploy.run_coordinator import ContainerGroupRunCoordinator

__all__ = ["ContainerGroupRunCoordinator"]
