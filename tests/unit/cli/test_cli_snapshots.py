"""`samza-dagster snapshots stream`: which jobs, and what it says before Spark starts."""

from __future__ import annotations

from typing import Any

import pytest

from samza_dagster.cli import snapshots as command
from samza_dagster.cli.options import Target
from samza_dagster.cli.snapshots import jobs_of_target
from samza_dagster.errors import InvalidInput

pytestmark = pytest.mark.unit
ON = Target(bootstrap_servers="here:9092")


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["orders-*/1"], ["orders-a/1", "orders-b/1"]),
        (["orders-*/1", "billing"], ["billing/1", "orders-a/1", "orders-b/1"]),
        (["clicks/7"], ["clicks/7"]),
    ],
)
def test_a_pattern_stands_for_the_jobs_that_were_deployed(
    names: list[str], found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name stands for itself, with id 1 where it has none."""
    there = ["orders-a/1", "orders-b/1", "orders-c/2", "clicks/7"]
    monkeypatch.setattr(command, "deployed_jobs", lambda *_: there)
    jobs = jobs_of_target(ON, names)
    assert [f"{one.job_name}/{one.job_id}" for one in jobs] == found
    assert {one.bootstrap_servers for one in jobs} == {"here:9092"}


def test_a_pattern_of_no_job_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked stands in the refusal."""
    monkeypatch.setattr(command, "deployed_jobs", lambda *_: [])
    with pytest.raises(InvalidInput, match=r"no job on here:9092 is one of orders-\*"):
        jobs_of_target(ON, ["orders-*"])


def test_a_setting_without_a_value_is_refused(commands: Any) -> None:
    """As a wrong option is."""
    assert commands.run("snapshots", "stream", "--spark-config", "x").exit_code == 2
