"""Runs of a running Dagster: launches, terminates and awaits them over GraphQL."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from samza_dagster.errors import DeadlineExceeded, InvalidInput
from samza_dagster.sandbox import graphql

ENDED = frozenset({"SUCCESS", "FAILURE", "CANCELED"})
_POLL_S = 1.0


class DagsterRuns:
    """The runs of one code location; `url` is the web server's.

    Every call raises `Unreachable` when the web server doesn't answer.
    """

    def __init__(self, url: str, location: str, repository: str = "__repository__") -> None:
        self._url = url
        self._location = location
        self._repository = repository

    def launch(
        self,
        job_name: str,
        run_config: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """Launch a run and return its id; raise `InvalidInput` with Dagster's reason."""
        params = {
            "selector": {
                "jobName": job_name,
                "repositoryName": self._repository,
                "repositoryLocationName": self._location,
            },
            "runConfigData": dict(run_config or {}),
            "executionMetadata": {
                "tags": [{"key": key, "value": value} for key, value in (tags or {}).items()]
            },
        }
        answer = graphql.run(self._url, "Launch", {"params": params})["launchRun"]
        return graphql.run_id_of(answer, f"launch job {job_name}")

    def switch_on(self, schedule: str) -> None:
        """Start a schedule; raise `InvalidInput` with Dagster's reason."""
        selector = {
            "scheduleName": schedule,
            "repositoryName": self._repository,
            "repositoryLocationName": self._location,
        }
        answer = graphql.run(self._url, "SwitchOn", {"selector": selector})["startSchedule"]
        if "message" in answer:
            raise InvalidInput(f"switch on schedule {schedule}", seen=str(answer["message"]))

    def terminate(self, run_id: str) -> None:
        """Request the termination of a run."""
        graphql.run(self._url, "Terminate", {"runId": run_id})

    def wait(self, run_id: str, *, timeout_s: float = 300) -> str:
        """Return the final status of a run: SUCCESS, FAILURE or CANCELED.

        Raises `DeadlineExceeded` after `timeout_s`; the run continues.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            run = graphql.run(self._url, "Status", {"runId": run_id})["runOrError"]
            if run["__typename"] != "Run":
                raise InvalidInput(f"run {run_id}", seen=str(run.get("message")))
            status = str(run["status"])
            if status in ENDED:
                return status
            if time.monotonic() > deadline:
                raise DeadlineExceeded(f"run {run_id} ended within {timeout_s:g} s", seen=status)
            time.sleep(_POLL_S)

    def run_url(self, run_id: str) -> str:
        """Return the page of a run."""
        return f"{self._url}/runs/{run_id}"
