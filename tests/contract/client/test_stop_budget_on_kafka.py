"""Restarts by commands and jobs in turn, on a real topic, with the AM's recorded answers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from samza_dagster.cli.main import cli
from samza_dagster.metadata import KafkaCluster, ensure_topic
from samza_dagster.metadata.connection import Connection
from samza_dagster.model.naming import checkpoint_topic
from samza_dagster.orchestration.jobs import placement_jobs
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from tests.rig.recorded_am import JOB, running

pytestmark = pytest.mark.contract


def test_nine_restarts_by_commands_and_jobs_in_turn_do_not_end_the_job(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """The AM fails the job at the ninth. Whoever asks counts the stops of the others."""
    connection, cluster = Connection(bootstrap_servers, JOB), KafkaCluster(bootstrap_servers)
    ensure_topic(cluster, connection.coordinator_stream_topic)
    ensure_topic(cluster, checkpoint_topic(JOB, "1"))
    given = ["--json", "--bootstrap-servers", bootstrap_servers, "--job-name", JOB]
    defs = dg.Definitions(
        jobs=placement_jobs(f"{JOB}/1"),
        resources={
            "samza": SamzaClientResource(bootstrap_servers=bootstrap_servers, job_name=JOB),
            "samza_policies": PlacementPolicies(),
        },
    )

    def command() -> tuple[bool, str]:
        done = CliRunner().invoke(cli, ["place", "1-0", "--to", "LAST_SEEN", *given])
        return done.exit_code == 0, done.output

    def job() -> tuple[bool, str]:
        done = defs.get_job_def("restart_container").execute_in_process(
            run_config={"ops": {"plan_restart_container": {"config": {"processor": "1-0"}}}},
            raise_on_error=False,
        )
        if done.success:
            return True, ""
        data = done.failure_data_for_node("plan_restart_container")
        return False, str(data.user_failure_data if data is not None else None)

    with running(bootstrap_servers, tmp_path) as am:
        outcomes = [(command, job)[number % 2]() for number in range(9)]
        assert [succeeded for succeeded, _ in outcomes] == [True] * 7 + [False] * 2
        for _, told in outcomes[7:]:
            assert "this would be stop 8 of 1-0 in a row" in told
        assert Counter(stop["processor"] for stop in am.stops()) == {"1-0": 7}
        dry = CliRunner().invoke(cli, ["place", "1-0", "--to", "LAST_SEEN", "--dry-run", *given])
        assert "stop 8 of 1-0 in a row" in json.loads(dry.stdout)["refusal"]
