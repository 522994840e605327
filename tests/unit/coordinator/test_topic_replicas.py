"""How many brokers keep a job's own topics, as Samza's settings say it."""

from __future__ import annotations

import pytest

from samza_dagster.coordinator.deployment import topic_replicas, wanted_replicas
from samza_dagster.coordinator.diagnosis import judged
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.replicas import (
    ENOUGH,
    IN_SYNC,
    WAITED_FOR,
    KeptTopic,
    KeptTopics,
    Partition,
)

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


def test_doctor_has_one_line_for_what_all_topics_meet_and_one_for_each_that_does_not() -> None:
    whole = Partition((1, 2, 3), (1, 2, 3))
    topics = {
        "well": KeptTopic("well", {0: whole}, 2),
        "one": KeptTopic("one", {0: Partition((1,), (1,))}, 1),
        "two": KeptTopic("two", {0: Partition((1, 2), (1, 2))}, 1),
    }
    found = list(judged(KeptTopics((1, 2, 3), topics), dict.fromkeys(topics, 3), "h:1"))
    assert [(each.check, each.ok) for each in found] == [
        (ENOUGH, False),
        (ENOUGH, False),
        (IN_SYNC, True),
        (WAITED_FOR, True),
    ]
    assert ["topic one" in found[0].seen, "topic two" in found[1].seen] == [True, True]
    one_broker = KeptTopics((1,), {"one": topics["one"]})
    assert all(each.ok for each in judged(one_broker, {"one": 3}, "h:1"))
