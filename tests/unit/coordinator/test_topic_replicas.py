"""How many brokers keep a job's own topics, as Samza's settings say it."""

from __future__ import annotations

import pytest

from samza_dagster.coordinator.deployment import topic_replicas, wanted_replicas
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


def test_what_the_job_can_not_lose_is_wanted_as_often_as_samza_makes_it() -> None:
    """Its own setting, that of all stores, that of its system; else three, of a changelog two."""
    config = {
        "job.name": "j",
        "job.default.system": "kafka",
        "task.checkpoint.system": "kafka",
        "stores.a.changelog": "kafka.j-a",
        "stores.b.changelog": "other.j-b",
    }
    assert wanted_replicas(config) == {
        "__samza_coordinator_j_1": 3,
        "__samza_dagster_j_1": 3,
        "__samza_dagster_audit_j_1": 3,
        "__transaction_state": 3,
        "__samza_checkpoint_ver_1_for_j_1": 3,
        "j-a": 2,
        "j-b": 2,
    }
    config |= {OF_ITS_SYSTEM: "4", "task.checkpoint.replication.factor": "5"}
    wanted = wanted_replicas(config)
    assert wanted["__samza_checkpoint_ver_1_for_j_1"] == 5
    assert (wanted["__samza_dagster_j_1"], wanted["j-a"], wanted["j-b"]) == (4, 4, 2)
    config |= {"stores.default.changelog.replication.factor": "6"}
    config |= {"stores.a.changelog.replication.factor": "7"}
    wanted = wanted_replicas(config)
    assert (wanted["j-a"], wanted["j-b"]) == (7, 6)
