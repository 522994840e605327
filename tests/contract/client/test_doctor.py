"""`doctor` without a config, against a real broker: a job that is there, and one that isn't."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from samza_dagster.cli.main import cli
from samza_dagster.coordinator import diagnosis
from tests.contract.client.conftest import KafkaJob

pytestmark = pytest.mark.contract


def checks(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["check"]: check for check in document["checks"]}


def test_it_says_of_a_deployed_job_who_coordinates_it_and_what_its_login_may(
    kafka_job: KafkaJob,
) -> None:
    """By its coordinator stream alone; nothing is written."""
    before = kafka_job.end()
    _, document = kafka_job.cli("doctor")
    told = checks(document)
    assert told["the brokers answer"]["seen"]
    assert told["the job was deployed once"]["ok"] is True
    assert told["this login may use the job's topics"]["ok"] is True
    assert "Application Master" in told["whoever coordinates the job is known"]["seen"]
    assert document["unread"] == []
    assert kafka_job.end() == before


def test_of_a_job_that_nobody_deployed_it_says_so(kafka_job: KafkaJob) -> None:
    given = ["doctor", "--json", "--bootstrap-servers", kafka_job.bootstrap_servers]
    done = CliRunner().invoke(cli, [*given, "--job-name", f"not-{kafka_job.name}"])
    told = checks(json.loads(done.stdout))
    assert done.exit_code == 1
    missing = told["the job was deployed once"]
    assert (missing["ok"], "samza-dagster config show" in missing["fix"]) == (False, True)


def test_brokers_that_dont_answer_are_unknown_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 4, with what this machine has."""
    monkeypatch.setattr(diagnosis, "_ANSWER_S", 0.5)
    given = ["doctor", "--json", "--bootstrap-servers", "127.0.0.1:9", "--job-name", "j"]
    done = CliRunner().invoke(cli, given)
    document = json.loads(done.stdout)
    assert (done.exit_code, document["ok"]) == (4, False)
    assert "127.0.0.1:9" in document["unread"][0]["asked"]
    assert "what is installed is known" in checks(document)
