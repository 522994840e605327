"""Which system each input of a deployment is read from."""

from __future__ import annotations

import pytest

from samza_dagster.coordinator.deployment import input_topics, plan
from samza_dagster.errors import InvalidInput

pytestmark = pytest.mark.unit


def test_each_input_has_its_own_system() -> None:
    """All of them had the first one's: the others' topics were looked for at the wrong brokers."""
    config = {"job.name": "j", "task.inputs": "near.orders, far.clicks"}
    model = plan(config, {"orders": 2, "clicks": 1}, "run-1").job_model
    read = {
        (p.system, p.stream, p.partition)
        for container in model.containers.values()
        for task in container.tasks.values()
        for p in task.system_stream_partitions
    }
    assert read == {("near", "orders", 0), ("near", "orders", 1), ("far", "clicks", 0)}


def test_one_topic_of_two_systems_is_refused() -> None:
    """One of the two would silently not be read."""
    config = {"job.name": "j", "task.inputs": "near.orders, far.orders"}
    with pytest.raises(InvalidInput, match="topic orders of both near and far"):
        plan(config, {"orders": 1}, "run-1")


def test_an_application_that_has_its_streams_in_its_code_is_refused_by_its_name() -> None:
    """As most of Hello Samza: it said that `task.inputs` isn't set, which such a job never sets."""
    with pytest.raises(
        InvalidInput, match=r"com\.example\.App has its streams in its code"
    ) as refused:
        input_topics({"app.class": "com.example.App"})
    assert "Application Master" in refused.value.fix
    assert input_topics({"app.class": "com.example.App", "task.inputs": "kafka.in"}) == {
        "in": "kafka"
    }
