"""A task's metrics snapshot as its container's reporter writes it, of the gauges that are read."""

from __future__ import annotations

import json
from collections.abc import Mapping


def task_report(
    job_name: str,
    task: str,
    gauges: Mapping[str, object],
    *,
    host: str,
    at_ms: int,
    execution_id: str = "",
    **header: object,
) -> bytes:
    """Return the record's value: of the job with id 1, dated by its host's clock."""
    known = {
        "job-name": job_name,
        "job-id": "1",
        "source": f"TaskName-{task}",
        "host": host,
        "time": at_ms,
        "exec-env-container-id": execution_id,
        **header,
    }
    metrics = {"org.apache.samza.container.TaskInstanceMetrics": gauges}
    return json.dumps({"header": known, "metrics": metrics}).encode()
