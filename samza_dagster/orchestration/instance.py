"""`dagster.yaml` of an embedded instance, and the limits that any instance should have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samza_dagster.orchestration.tags import GROUP, JOB

FILE = "dagster.yaml"


def instance_settings(*, runs_at_once: int = 10, runs_per_job: int = 8) -> dict[str, Any]:
    """Settings of an instance on SQLite whose queue keeps one run per container group.

    `runs_per_job` bounds the runs of one Samza job, `runs_at_once` all runs. The limits
    stand under `concurrency`: beside limits under `run_coordinator` Dagster refuses to
    start. The queue is looked at every second, which is its finest step.
    """
    per_value = {"applyLimitPerUniqueValue": True}
    return {
        "run_coordinator": {
            "module": "samza_dagster.orchestration.run_coordinator",
            "class": "ContainerGroupRunCoordinator",
            "config": {"dequeue_interval_seconds": 1},
        },
        "concurrency": {
            "runs": {
                "max_concurrent_runs": runs_at_once,
                "tag_concurrency_limits": [
                    {"key": GROUP, "value": per_value, "limit": 1},
                    {"key": JOB, "value": per_value, "limit": runs_per_job},
                ],
            }
        },
        # A job whose runs are retried when their worker dies says so by tag dagster/max_retries.
        "run_retries": {"enabled": True, "max_retries": 0, "retry_on_asset_or_op_failure": False},
        "sensors": {"use_threads": True, "num_workers": 4},
        "run_monitoring": {
            "enabled": True,
            "start_timeout_seconds": 120,
            "poll_interval_seconds": 30,
        },
        "telemetry": {"enabled": False},
        "nux": {"enabled": False},
    }


def prepare_storage(home: Path) -> None:
    """Creates the instance's SQLite databases, so that processes which start together find them.

    Created by several at once, they end with two heads of their schema and can't be opened.
    """
    import dagster as dg

    with dg.DagsterInstance.from_config(str(home)):
        pass


def write_instance(home: Path) -> Path:
    """Writes `dagster.yaml` into `home` (a DAGSTER_HOME, made if it isn't there); its path.

    Storage isn't named: Dagster's default is SQLite files below `home`.
    """
    import yaml

    home.mkdir(parents=True, exist_ok=True)
    path = home / FILE
    path.write_text(yaml.safe_dump(instance_settings(), sort_keys=False), encoding="utf-8")
    return path
