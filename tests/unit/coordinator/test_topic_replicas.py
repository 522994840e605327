"""How many brokers keep a job's own topics, as Samza's settings say it."""

from __future__ import annotations

import pytest

from samza_dagster.coordinator.deployment import topic_replicas
from samza_dagster.errors import InvalidInput

pytestmark = pytest.mark.unit
OWN = "job.coordinator.replication.factor"
OF_ITS_SYSTEM = "systems.kafka.default.stream.replication.factor"


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({}, 3),
        ({OWN: "2", OF_ITS_SYSTEM: "1", "job.coordinator.system": "kafka"}, 2),
        ({OF_ITS_SYSTEM: "1", "job.coordinator.system": "kafka"}, 1),
        ({OF_ITS_SYSTEM: "1", "job.default.system": "kafka"}, 1),
        ({OF_ITS_SYSTEM: "1", "job.coordinator.system": "other"}, 3),
    ],
)
def test_the_replicas_are_samza_s_setting_or_that_of_its_system(
    config: dict[str, str], wanted: int
) -> None:
    """In that order; three without either (`KafkaConfig`)."""
    assert topic_replicas(config) == wanted


@pytest.mark.parametrize("value", ["0", "-1", "two"])
def test_no_replicas_are_refused_by_the_name_of_the_setting(value: str) -> None:
    with pytest.raises(InvalidInput, match=OWN):
        topic_replicas({OWN: value})
