"""The log of a run's process as JSON, with the ids by which coordinator and agents log.

Dagster chooses a run's console logger by the run's config alone. What `dagster.yaml` may say are
handlers beside it: this one writes the line itself, and keeps the console from writing it again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

from samza_dagster.agent.logs import JsonLines, log_as
from samza_dagster.model.naming import own_name
from samza_dagster.orchestration.tags import ABOUT, ACTION, ALONE, BY_HOST, GROUP, JOB

SETTINGS: dict[str, Any] = {
    "dagster_handler_config": {"handlers": {"json": {"()": f"{__name__}.run_log"}}}
}
"""What `python_logs` of a `dagster.yaml` says."""


def run_log() -> logging.Handler:
    """The handler of a run's lines; from now on all else that this process logs is JSON, too."""
    log_as("json", {"part": "run"})
    logging.captureWarnings(True)
    return _RunLog()


class _RunLog(logging.StreamHandler[Any]):
    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_RunLines())

    def emit(self, record: logging.LogRecord) -> None:
        """Dagster's event log has had the record by now; the console, which comes next, writes nothing below DEBUG."""
        super().emit(record)
        record.levelno = logging.NOTSET


class _RunLines(JsonLines):
    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Without the ids that Dagster puts before the message of a text line: they are fields."""
        said = cast("Mapping[str, Any]", getattr(record, "dagster_meta", {}))
        event = said.get("dagster_event")
        ids = {
            **run_ids(said.get("job_tags") or {}),
            "dagster_run": said.get("run_id"),
            "dagster_job": said.get("job_name"),
            "step": said.get("step_key"),
            "event": event.event_type_value if event is not None else None,
        }
        # What the line's writer says itself: a run about several groups says each line's.
        ids |= {name: vars(record).get(name) or ids.get(name) for name in ("request", "group")}
        error = getattr(event.event_specific_data, "error", None) if event is not None else None
        return {
            **super().fields(record),
            "message": said.get("orig_message", record.getMessage()),
            **{name: value for name, value in ids.items() if value is not None},
            **({"exception": error.to_string()} if error is not None else {}),
        }


def run_ids(tags: Mapping[str, str]) -> dict[str, str]:
    """Job and container group of a run, spelled as the coordinator's log does; of a run about a whole job no group."""
    job = tags.get(JOB)
    if job is None:
        return {}
    ids = {"job": own_name(*job.split("/")[-2:])}
    group = tags.get(GROUP) or tags.get(ABOUT, "")
    if group.startswith(f"{job}/") and tags.get(ACTION) not in ALONE | BY_HOST:
        ids["group"] = group.removeprefix(f"{job}/")
    return ids
