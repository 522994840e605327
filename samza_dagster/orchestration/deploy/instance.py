"""`dagster.yaml` of an embedded instance, and the limits that any instance should have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from samza_dagster.orchestration.deploy import run_log
from samza_dagster.orchestration.tags import GROUP, SLOT

FILE = "dagster.yaml"
POSTGRES_URL = "DAGSTER_POSTGRES_URL"
Storage = Literal["sqlite", "postgres"]
SENSOR_THREADS = 32
"""Of the daemon: two for each of 16 jobs. A calm tick of a job's `auto_failover` holds one nearly
always, and waits; the job's other sensors take less than half of one together."""
CODE_SERVER_THREADS = 48
"""Of `dagster api grpc`: what the daemon's ticks may hold there, and what starts runs, answers the
web server and says that the server lives. Dagster's own default is four more than processors."""
LAUNCHES_AT_ONCE = 4
"""Of what one look at the queue finds; the next look begins when all of that is over."""
# Dagster's default is SQLite files below its home, so nothing names it.
_STORAGE: dict[Storage, dict[str, Any]] = {
    "sqlite": {},
    "postgres": {"storage": {"postgres": {"postgres_url": {"env": POSTGRES_URL}}}},
}


def instance_settings(
    *,
    storage: Storage = "sqlite",
    log_format: str = "text",
    runs_at_once: int = 10,
    runs_per_job: int = 8,
) -> dict[str, Any]:
    """Settings of an instance whose queue keeps one run per container group.

    On `postgres` the variable `DAGSTER_POSTGRES_URL` holds the address with its password:
    `postgresql+psycopg2://user:password@host:5432/database`. The driver must be named:
    without it SQLAlchemy takes one that isn't installed. `runs_per_job` bounds the runs that ask something of one Samza job, `runs_at_once` all runs. The limits
    stand under `concurrency`: beside limits under `run_coordinator` Dagster refuses to
    start. The queue is looked at every second, which is its finest step.
    Sensors have threads for 16 jobs; a thread begins when it is first needed. With `log_format`
    json the process of a run logs as `run_log` says.
    """

    def limit(tag: str, at_once: int) -> dict[str, Any]:
        return {"key": tag, "value": {"applyLimitPerUniqueValue": True}, "limit": at_once}

    return {
        **_STORAGE[storage],
        **({"python_logs": run_log.SETTINGS} if log_format == "json" else {}),
        "run_coordinator": {
            "module": "samza_dagster.orchestration.deploy.run_coordinator",
            "class": "ContainerGroupRunCoordinator",
            "config": {
                "dequeue_interval_seconds": 1,
                # A launch lasts until its worker has imported everything: those beside it go on.
                "dequeue_use_threads": True,
                "dequeue_num_workers": LAUNCHES_AT_ONCE,
                # A code server that is restarted is back before that; Dagster's own default fails
                # what it would launch meanwhile for good.
                "max_user_code_failure_retries": 10,
                "user_code_failure_retry_delay": 5,
            },
        },
        "run_launcher": {
            "module": "samza_dagster.orchestration.deploy.run_launcher",
            "class": "WatchedRunLauncher",
        },
        "concurrency": {
            "runs": {
                "max_concurrent_runs": runs_at_once,
                "tag_concurrency_limits": [limit(GROUP, 1), limit(SLOT, runs_per_job)],
            }
        },
        # A job whose runs are retried when their worker dies says so by tag dagster/max_retries.
        "run_retries": {"enabled": True, "max_retries": 0, "retry_on_asset_or_op_failure": False},
        "sensors": {"use_threads": True, "num_workers": SENSOR_THREADS},
        "run_monitoring": {
            "enabled": True,
            # A worker whose process is gone is noticed by the launcher; this is for one that hangs. On
            # two busy cores one that works was seen to take more than two minutes to begin.
            "start_timeout_seconds": 600,
            "poll_interval_seconds": 30,
        },
        "telemetry": {"enabled": False},
        "nux": {"enabled": False},
    }


def names_storage(home: Path) -> bool:
    """Whether the `dagster.yaml` in `home` says where runs and events are kept."""
    import yaml

    settings: object = yaml.safe_load((home / FILE).read_text(encoding="utf-8"))
    return isinstance(settings, dict) and "storage" in settings


def prepare_storage(home: Path) -> None:
    """Creates the instance's databases, so that processes which start together find them.

    Created by several at once, they may end with two heads of their schema: SQLite's can't be
    opened then, PostgreSQL's can't be migrated. `dagster instance migrate` does the same.
    """
    import dagster as dg

    with dg.DagsterInstance.from_config(str(home)):
        pass


def instance_text(storage: Storage = "sqlite", log_format: str = "text") -> str:
    """The content of `dagster.yaml`."""
    import yaml

    settings = instance_settings(storage=storage, log_format=log_format)
    return yaml.safe_dump(settings, sort_keys=False)


def write_instance(home: Path, *, storage: Storage = "sqlite", log_format: str = "text") -> Path:
    """Writes `dagster.yaml` into `home` (a DAGSTER_HOME, made if it isn't there); its path."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / FILE
    path.write_text(instance_text(storage, log_format), encoding="utf-8")
    return path
