"""The topics that a job needs beside its own streams, as Samza's coordinators make them. Pure.

Sources: Samza's `MetadataResourceUtil`, `ChangelogStreamManager`, `KafkaSystemAdmin`, `KafkaConfig`
(1.8.0). Its planner makes intermediate streams, from an application's graph, which isn't in the
config.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from samza_dagster.coordinator.limits import Setting
from samza_dagster.errors import InvalidInput
from samza_dagster.metadata.audit_log import DEFAULT_RETENTION_MS
from samza_dagster.metadata.topics import COMPACTED, TopicSpec, retained
from samza_dagster.model import naming
from samza_dagster.model.changelogs import StoreChangelog, checkpoint_system, store_changelogs

AUDIT_RETENTION = Setting(
    "samza.dagster.audit.retention.ms", DEFAULT_RETENTION_MS, -1, most=2**63 - 1
)
"""How long audit records are kept; only read when their topic is created."""
_REPLICAS = 3
"""Of the coordinator stream and of checkpoints."""
_CHANGELOG_REPLICAS = 2
_SHORT_SEGMENT = str(25 * 1024 * 1024)
"""Of what each start reads whole: what the newest segment holds isn't compacted."""
_CHANGELOG_SEGMENT = str(512 * 1024 * 1024)
_LARGEST_RECORD = "1000012"
_DAY_MS = str(86_400_000)
_FOUR_HOURS_MS = str(4 * 3_600_000)


def coordinator_stream(config: Mapping[str, str]) -> TopicSpec:
    """Return the coordinator stream's topic.

    Every function of this module raises `InvalidInput` that names an invalid setting.
    """
    system = _home(config)
    segment = config.get("job.coordinator.segment.bytes") or _of_system(
        config, system, "segment.bytes", _SHORT_SEGMENT
    )
    return TopicSpec(
        naming.coordinator_stream_topic(*_name_and_id(config)),
        replicas=_replicas(config, system, _REPLICAS, "job.coordinator.replication.factor"),
        config={**COMPACTED, "segment.bytes": segment},
    )


def own_topics(config: Mapping[str, str]) -> tuple[TopicSpec, ...]:
    """Return our state and audit topic, with as many replicas as the coordinator stream."""
    job, replicas = _name_and_id(config), coordinator_stream(config).replicas
    kept = retained(AUDIT_RETENTION.of(config))
    return (
        TopicSpec(naming.state_topic(*job), replicas=replicas),
        TopicSpec(naming.audit_topic(*job), replicas=replicas, config=kept),
    )


def samza_topics(config: Mapping[str, str], tasks: int) -> tuple[TopicSpec, ...]:
    """Return coordinator stream, checkpoints, changelogs and access logs of a job.

    `tasks` counts up to the highest changelog partition of one. Topics of systems at other brokers
    than the coordinator stream's are left out.
    """
    return (coordinator_stream(config), *_checkpoints(config), *_changelogs(config, tasks))


def _checkpoints(config: Mapping[str, str]) -> Iterator[TopicSpec]:
    system = checkpoint_system(config)
    if system is None or not _is_at_home(config, system):
        return
    settings: dict[str, str] = dict(COMPACTED)
    name = naming.checkpoint_topic(*_name_and_id(config))
    if config.get("app.mode") == "BATCH":
        settings = {"cleanup.policy": "compact,delete", "retention.ms": _DAY_MS}
        name = "-".join(filter(None, (name, config.get("app.run.id"))))
    for key, default in (("segment.bytes", _SHORT_SEGMENT), ("max.message.bytes", _LARGEST_RECORD)):
        own = config.get(f"task.checkpoint.{key}")
        settings[key] = own or _of_system(config, system, key, default)
    replicas = _replicas(config, system, _REPLICAS, "task.checkpoint.replication.factor")
    yield TopicSpec(name, replicas=replicas, config=settings)


def _changelogs(config: Mapping[str, str], tasks: int) -> Iterator[TopicSpec]:
    for each in store_changelogs(config):
        if not _is_at_home(config, each.system):
            continue
        own = f"stores.{each.store}.changelog.replication.factor"
        of_all = "stores.default.changelog.replication.factor"
        replicas = _replicas(config, each.system, _CHANGELOG_REPLICAS, own, of_all)
        settings = _changelog_settings(config, each)
        yield TopicSpec(each.topic, tasks, replicas, settings, at_least=True)
        if _is_true(config, f"stores.{each.store}.accesslog.enabled", "false"):
            replicas = _replicas(config, each.system, _CHANGELOG_REPLICAS)
            yield TopicSpec(f"{each.topic}-access-log", tasks, replicas, {}, at_least=True)


def _changelog_settings(config: Mapping[str, str], of: StoreChangelog) -> dict[str, str]:
    """Return a changelog's settings: deletion by time if its store's records expire."""
    store = f"stores.{of.store}"
    given = f"{store}.changelog.kafka."
    ttl = config.get(f"{store}.rocksdb.ttl.ms", "-1").strip()
    settings: dict[str, str] = {}
    if ttl.startswith("-"):
        largest = config.get(f"{store}.changelog.max.message.bytes") or _of_system(
            config, of.system, "max.message.bytes", _LARGEST_RECORD
        )
        settings = {**COMPACTED, "max.message.bytes": largest}
    elif f"{given}cleanup.policy" not in config:
        settings = {"cleanup.policy": "delete", "retention.ms": ttl}
    settings["segment.bytes"] = _CHANGELOG_SEGMENT
    settings["delete.retention.ms"] = config.get(f"{store}.changelog.delete.retention.ms", _DAY_MS)
    if _restores_transactionally(config):
        lag = "changelog.min.compaction.lag.ms"
        of_all = config.get(f"stores.default.{lag}", _FOUR_HOURS_MS)
        settings["min.compaction.lag.ms"] = config.get(f"{store}.{lag}", of_all)
    own = {key.removeprefix(given): value for key, value in config.items() if key.startswith(given)}
    return {**settings, **own}


def _restores_transactionally(config: Mapping[str, str]) -> bool:
    standbys = Setting("job.standbytasks.replication.factor", 1, 0).of(config) > 1
    return (
        not standbys
        and not _is_true(config, "task.async.commit", "false")
        and _is_true(config, "task.transactional.state.restore.enabled", "true")
    )


def _replicas(config: Mapping[str, str], system: str, default: int, *keys: str) -> int:
    """Return the replicas by the first of the keys that is set, else by the setting of its system."""
    of_system = f"systems.{system}.default.stream.replication.factor"
    key = next((each for each in (*keys, of_system) if config.get(each)), of_system)
    return Setting(key, default, 1).of(config)


def _of_system(config: Mapping[str, str], system: str, setting: str, default: str) -> str:
    return config.get(f"systems.{system}.default.stream.{setting}") or default


def _is_at_home(config: Mapping[str, str], system: str) -> bool:
    """Return whether it is the coordinator stream's system, or one at the same brokers."""
    home = _home(config)
    return system == home or bool(_brokers(config, system) & _brokers(config, home))


def _home(config: Mapping[str, str]) -> str:
    return config.get("job.coordinator.system") or config.get("job.default.system", "")


def _brokers(config: Mapping[str, str], system: str) -> set[str]:
    keys = (f"systems.{system}.{side}.bootstrap.servers" for side in ("consumer", "producer"))
    return {each.strip() for key in keys for each in config.get(key, "").split(",")} - {""}


def _name_and_id(config: Mapping[str, str]) -> tuple[str, str]:
    name = config.get("job.name", "").strip()
    if not name:
        raise InvalidInput("job.name in the job's config", seen="not set", fix="job.name=my-job")
    return name, config.get("job.id") or "1"


def _is_true(config: Mapping[str, str], key: str, default: str) -> bool:
    return config.get(key, default).strip().lower() == "true"
