"""The topics of a job: what is made for it, as Samza would, and what is refused."""

from __future__ import annotations

import pytest

from samza_dagster.coordinator.deployment import input_topics, plan
from samza_dagster.coordinator.diagnosis import judged
from samza_dagster.coordinator.fencing.container_topics import container_topics
from samza_dagster.coordinator.samza_topics import coordinator_stream, own_topics, samza_topics
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.replicas import (
    ENOUGH,
    IN_SYNC,
    WAITED_FOR,
    KeptTopic,
    KeptTopics,
    Partition,
)
from samza_dagster.metadata.topics import TopicSpec, contradictions

pytestmark = pytest.mark.unit

OWN = "job.coordinator.replication.factor"
OF_ITS_SYSTEM = "systems.kafka.default.stream.replication.factor"
CHECKPOINTS = "__samza_checkpoint_ver_1_for_j_1"
JOB = {
    "job.name": "j",
    "job.default.system": "kafka",
    "systems.kafka.consumer.bootstrap.servers": "b-1:9092,b-2:9092",
    "systems.same.producer.bootstrap.servers": "b-2:9092",
    "systems.apart.producer.bootstrap.servers": "c-1:9092",
    "task.checkpoint.factory": "org.apache.samza.checkpoint.kafka.KafkaCheckpointManagerFactory",
    "stores.a.factory": "org.apache.samza.storage.kv.RocksDbKeyValueStorageEngineFactory",
    "stores.a.changelog": "kafka.j-a",
    "stores.b.changelog": "same.j-b",
    "stores.c.changelog": "apart.j-c",
}
MIB = 1024 * 1024


def made(tasks: int = 4, **settings: str) -> dict[str, TopicSpec]:
    """By name; `_` in a setting's name stands for a dot."""
    config = JOB | {key.replace("_", "."): value for key, value in settings.items()}
    return {spec.name: spec for spec in samza_topics(config, tasks)}


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
    assert coordinator_stream({"job.name": "j", **config}).replicas == wanted


@pytest.mark.parametrize("value", ["0", "-1", "two"])
def test_no_replicas_are_refused_by_the_name_of_the_setting(value: str) -> None:
    with pytest.raises(InvalidInput, match=OWN):
        coordinator_stream({"job.name": "j", OWN: value})


def test_a_job_gets_what_samza_s_coordinators_make_for_it() -> None:
    """What is at other brokers than the coordinator stream isn't made."""
    found = made()
    assert list(found) == ["__samza_coordinator_j_1", CHECKPOINTS, "j-a", "j-b"]
    compact = {"cleanup.policy": "compact"}
    short = compact | {"segment.bytes": str(25 * MIB)}
    assert found["__samza_coordinator_j_1"] == TopicSpec("__samza_coordinator_j_1", 1, 3, short)
    largest = {"max.message.bytes": "1000012"}
    assert found[CHECKPOINTS] == TopicSpec(CHECKPOINTS, 1, 3, short | largest)
    settings = compact | largest
    settings |= {"segment.bytes": str(512 * MIB), "delete.retention.ms": "86400000"}
    # Without standbys, and with Samza's default, a restore is transactional.
    settings |= {"min.compaction.lag.ms": "14400000"}
    assert found["j-a"] == TopicSpec("j-a", 4, 2, settings, at_least=True)


def test_a_job_without_checkpoints_or_stores_needs_the_coordinator_stream_alone() -> None:
    config = {"job.name": "j", "task.checkpoint.system": "kafka"}
    assert [spec.name for spec in samza_topics(config, 4)] == ["__samza_coordinator_j_1"]


def test_own_settings_come_before_those_of_all_stores_and_of_the_system() -> None:
    """Of replicas, segments and the largest record."""
    system = {
        "systems_kafka_default_stream_replication_factor": "4",
        "systems_kafka_default_stream_segment_bytes": "5",
        "systems_kafka_default_stream_max_message_bytes": "6",
    }
    found = made(**system)
    assert {spec.replicas for name, spec in found.items() if name != "j-b"} == {4}
    assert (found["j-b"].replicas, found["j-b"].config["max.message.bytes"]) == (2, "1000012")
    assert found[CHECKPOINTS].config["segment.bytes"] == "5"
    assert found["__samza_coordinator_j_1"].config["segment.bytes"] == "5"
    assert found["j-a"].config["segment.bytes"] == str(512 * MIB)
    assert found["j-a"].config["max.message.bytes"] == "6"
    found = made(
        **system,
        task_checkpoint_replication_factor="5",
        task_checkpoint_segment_bytes="7",
        task_checkpoint_max_message_bytes="8",
        job_coordinator_segment_bytes="9",
        stores_default_changelog_replication_factor="6",
        stores_a_changelog_replication_factor="7",
        stores_a_changelog_max_message_bytes="10",
        stores_a_changelog_delete_retention_ms="11",
        stores_default_changelog_min_compaction_lag_ms="12",
        stores_a_changelog_kafka_segment_bytes="13",
        stores_a_changelog_kafka_compression_type="lz4",
    )
    assert [found[it].replicas for it in (CHECKPOINTS, "j-a", "j-b")] == [5, 7, 6]
    checkpoints, changelog = found[CHECKPOINTS].config, found["j-a"].config
    assert [checkpoints[it] for it in ("segment.bytes", "max.message.bytes")] == ["7", "8"]
    assert found["__samza_coordinator_j_1"].config["segment.bytes"] == "9"
    assert changelog == {
        "cleanup.policy": "compact",
        "max.message.bytes": "10",
        "delete.retention.ms": "11",
        "min.compaction.lag.ms": "12",
        "segment.bytes": "13",
        "compression.type": "lz4",
    }


@pytest.mark.parametrize(
    ("settings", "policy", "retention"),
    [
        ({"stores_a_rocksdb_ttl_ms": "5000"}, "delete", "5000"),
        (
            {"stores_a_rocksdb_ttl_ms": "5000", "stores_a_changelog_kafka_retention_ms": "9"},
            "delete",
            "9",
        ),
        (
            {
                "stores_a_rocksdb_ttl_ms": "5000",
                "stores_a_changelog_kafka_cleanup_policy": "compact",
            },
            "compact",
            None,
        ),
        ({"stores_a_rocksdb_ttl_ms": "-1"}, "compact", None),
    ],
)
def test_records_that_expire_are_dropped_from_their_changelog_by_time(
    settings: dict[str, str], policy: str, retention: str | None
) -> None:
    config = made(**settings)["j-a"].config
    assert (config["cleanup.policy"], config.get("retention.ms")) == (policy, retention)


@pytest.mark.parametrize(
    "settings",
    [
        {"job_standbytasks_replication_factor": "2"},
        {"task_async_commit": "true"},
        {"task_transactional_state_restore_enabled": "false"},
    ],
)
def test_only_a_transactional_restore_needs_records_that_lie_uncompacted(
    settings: dict[str, str],
) -> None:
    assert "min.compaction.lag.ms" not in made(**settings)["j-a"].config


def test_an_access_log_is_made_beside_its_changelog() -> None:
    """By the brokers' own settings; its replicas are its system's."""
    found = made(
        stores_a_accesslog_enabled="true", systems_kafka_default_stream_replication_factor="3"
    )
    assert found["j-a-access-log"] == TopicSpec("j-a-access-log", 4, 3, {}, at_least=True)


def test_a_batch_job_has_topics_of_its_own_for_each_run() -> None:
    found = made(app_mode="BATCH", app_run_id="17-ab")
    assert found[f"{CHECKPOINTS}-17-ab"].config["cleanup.policy"] == "compact,delete"
    assert found[f"{CHECKPOINTS}-17-ab"].config["retention.ms"] == "86400000"
    assert "j-a-17-ab" in found


def test_our_own_topics_have_the_replicas_of_the_coordinator_stream() -> None:
    config = JOB | {OF_ITS_SYSTEM: "4", "samza.dagster.audit.retention.ms": "-1"}
    state, audit = own_topics(config)
    assert (state.name, state.replicas, audit.replicas) == ("__samza_dagster_j_1", 4, 4)
    assert (audit.name, audit.config["retention.ms"]) == ("__samza_dagster_audit_j_1", "-1")


@pytest.mark.parametrize(
    ("spec", "partitions", "policy", "seen", "fix"),
    [
        (TopicSpec("t", 4, at_least=True), 4, "compact", "", ""),
        (TopicSpec("t", 4, at_least=True), 5, "compact", "", ""),
        (TopicSpec("t", 4, at_least=True), 3, "compact", "3 partitions instead of 4", "--partitions 4"),
        (TopicSpec("t"), 2, "compact", "2 partitions instead of 1", "delete t"),
        (TopicSpec("t"), 1, "delete", "cleanup.policy=delete", "cleanup.policy=compact"),
        (TopicSpec("t"), 1, "compact,delete", "cleanup.policy=compact,delete", "compact"),
        (TopicSpec("t", 1, None, {"cleanup.policy": "delete"}), 1, "compact", "policy=compact", ""),
        (TopicSpec("t", 1, None, {"cleanup.policy": "delete,compact"}), 1, "compact,delete", "", ""),
        (TopicSpec("t", 1, None, {"cleanup.policy": "delete"}, at_least=True), 1, "compact", "", ""),
        (TopicSpec("t", 1, None, {}), 1, "delete", "", ""),
    ],
)  # fmt: skip
def test_a_topic_that_is_there_contradicts_what_would_be_made(
    spec: TopicSpec, partitions: int, policy: str, seen: str, fix: str
) -> None:
    """A changelog may have more partitions, and keep expired records longer; no other topic may differ."""
    whole = dict.fromkeys(range(partitions), Partition((1,), (1,)))
    topic = KeptTopic("t", whole, {"cleanup.policy": policy})
    found = list(contradictions(spec, topic, "b:1"))
    assert len(found) == bool(seen)
    if found:
        assert seen in found[0].seen
        assert fix in found[0].fix


def test_the_command_that_makes_a_topic_has_all_of_its_settings() -> None:
    spec = made(job_standbytasks_replication_factor="2")["j-a"]
    assert spec.creation(1, "b:1") == (
        "kafka-topics.sh --bootstrap-server b:1 --create --topic j-a --partitions 4 "
        "--replication-factor 1 --config cleanup.policy=compact --config delete.retention.ms=86400000 "
        "--config max.message.bytes=1000012 --config segment.bytes=536870912"
    )
    three = TopicSpec("t", replicas=3)
    assert "--replication-factor 3" in three.creation(5, "b:1")
    assert "min.insync.replicas=2" in three.creation(5, "b:1")
    assert "--replication-factor" not in TopicSpec("t").creation(5, "b:1")


def test_doctor_has_one_line_for_what_all_topics_meet_and_one_for_each_that_does_not() -> None:
    whole = Partition((1, 2, 3), (1, 2, 3))
    topics = {
        "well": KeptTopic("well", {0: whole}, {"min.insync.replicas": "2"}),
        "one": KeptTopic("one", {0: Partition((1,), (1,))}, {"min.insync.replicas": "1"}),
        "two": KeptTopic("two", {0: Partition((1, 2), (1, 2))}, {"min.insync.replicas": "1"}),
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


# What a container reads and writes at the brokers, as far as its job's config tells.

READ, WRITE = frozenset({"READ"}), frozenset({"WRITE"})
BOTH = READ | WRITE
CONFIG = {"job.name": "j", "job.default.system": "kafka", "task.inputs": "kafka.in"}
ALWAYS = {"__samza_coordinator_j_1": BOTH, "in": READ}


def topics(systems: tuple[str, ...] = ("kafka",), **config: str) -> dict[str, frozenset[str]]:
    """Those of a job with these settings beside its least ones; `__` stands for a dot."""
    added = {key.replace("__", "."): value for key, value in config.items()}
    return container_topics({**CONFIG, **added}, systems)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, {}),
        ({"stores__s__changelog": "kafka.j-s"}, {"j-s": BOTH}),
        (
            {"task__checkpoint__factory": "x.KafkaCheckpointManagerFactory"},
            {"__samza_checkpoint_ver_1_for_j_1": BOTH},
        ),
        (
            {"metrics__reporters": "a, b", "metrics__reporter__a__stream": "kafka.m"},
            {"m": WRITE},
        ),
        ({"task__broadcast__inputs": "kafka.b#0, kafka.c#[0-3]"}, {"b": READ, "c": READ}),
        (
            {"stores__s__factory": "x", "stores__s__side__inputs": "kafka.d,e"},
            {"d": READ, "e": READ},
        ),
        (
            {"streams__o__samza__system": "kafka", "streams__o__samza__physical__name": "orders"},
            {"orders": WRITE},
        ),
        ({"streams__o__samza__key__serde": "json"}, {"o": WRITE}),
        ({"streams__o__samza__intermediate": "true"}, {"o": BOTH}),
        ({"streams__in__samza__bootstrap": "true"}, {}),
        (
            {"streams__f__samza__physical__name": "far", "stores__s__side__inputs": "f"},
            {"far": READ},
        ),
    ],
)
def test_every_topic_that_the_config_names_is_asked_for(
    config: dict[str, str], expected: dict[str, frozenset[str]]
) -> None:
    """A container that may not use one of them ends, or works without metrics."""
    assert topics(**config) == {**ALWAYS, **expected}


def test_what_is_at_other_brokers_is_left_to_them() -> None:
    """A fence's principals are unknown there."""
    elsewhere = {
        "metrics__reporters": "a",
        "metrics__reporter__a__stream": "far.m",
        "task__broadcast__inputs": "far.b#0",
        "stores__s__factory": "x",
        "stores__s__side__inputs": "far.d",
        "streams__o__samza__system": "far",
    }
    assert topics(**elsewhere) == ALWAYS
    assert set(topics(("far", "kafka"), **elsewhere)) == {*ALWAYS, "m", "b", "d", "o"}


# Which system each input of a deployment is read from.


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
