"""Findings of `samza-dagster doctor`: whether a job's brokers allow what its config asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from samza_dagster.coordinator.deployment import input_topics
from samza_dagster.coordinator.fencing.examination import Condition, examine
from samza_dagster.coordinator.fencing.principals import Principals, systems_apart
from samza_dagster.coordinator.kafka import partition_counts
from samza_dagster.coordinator.leases import outlived, short_lease
from samza_dagster.coordinator.limits import FENCING, LEASE, limits_of
from samza_dagster.coordinator.samza_topics import coordinator_stream, own_topics, samza_topics
from samza_dagster.errors import InvalidInput, Unreachable, some_of
from samza_dagster.metadata.connection import Connection, read_properties
from samza_dagster.metadata.job_owner import Deployed, read_deployed
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.principal_view import lacking
from samza_dagster.metadata.replicas import (
    AS_MADE,
    ENOUGH,
    IN_SYNC,
    TRANSACTIONS,
    WAITED_FOR,
    KeptTopics,
    cluster_metadata,
    kept_topics,
    shortcomings,
)
from samza_dagster.metadata.resource_manager import RUNNING, Cluster, resource_manager
from samza_dagster.metadata.topics import TopicSpec, contradictions, ensure_topics
from samza_dagster.model.metrics_snapshots import metrics_topics

_ANSWER_S = 10.0
_OF_A_CLIENT = frozenset({"READ", "WRITE", "DESCRIBE"})


def findings(
    config: Mapping[str, str],
    cluster: KafkaCluster,
    deployed: Deployed,
    without: Collection[str] = (),
) -> Iterator[Condition]:
    """Yield each condition as it is tried; raises `Unreachable`.

    `without`: topics that the job doesn't need, as ours in a standalone group.
    """
    inputs, tasks = _inputs(config, cluster)
    yield inputs
    is_deployed = deployed.run_id is not None
    tasks = deployed.tasks or tasks
    yield from topic_findings(config, cluster, tasks, without, is_deployed=is_deployed)
    yield _lease(config)
    try:
        principals = Principals.of(config)
    except InvalidInput as error:
        yield Condition(error.asked, False, error.seen, error.fix)
        return
    yield Condition(
        f"{FENCING} is possible as it is set",
        True,
        "lease: an overlap with a frozen host is bounded, not excluded"
        if principals is None
        else f"broker, at {principals.bootstrap_servers}",
    )
    if principals is None:
        return
    apart = systems_apart(config, principals)
    yield Condition(
        "the fence covers every Kafka system of the job",
        True,
        f"not {', '.join(apart)}, at other brokers: what is written there isn't fenced"
        if apart
        else ", ".join(principals.systems),
    )
    yield from examine(principals, cluster, config)


def _findings_under_an_am(
    config: Mapping[str, str], cluster: KafkaCluster, connection: Connection, deployed: Deployed
) -> Iterator[Condition]:
    """Yield the conditions of a job that Samza's own Application Master runs.

    Raises `Unreachable`.
    """
    yield _of_an_am(deployed)
    inputs, tasks = _inputs(config, cluster)
    yield inputs
    tasks = deployed.tasks or tasks
    yield from topic_findings(config, cluster, tasks, _own(connection), is_deployed=True)
    if connection.resource_managers:
        yield from _yarn(connection)


def _of_an_am(deployed: Deployed) -> Condition:
    seen = f"Samza's own Application Master, deployment {deployed.run_id}"
    return Condition("whoever coordinates the job is known", True, seen)


def _yarn(connection: Connection) -> Iterator[Condition]:
    yarn = resource_manager(connection.resource_managers)
    yield from _yarn_findings(yarn.cluster(connection.job_name, connection.job_id))


def _yarn_findings(cluster: Cluster) -> Iterator[Condition]:
    """Yield findings of YARN's ResourceManager about the job and its nodes. Pure."""
    application = cluster.application
    yield Condition(
        "YARN runs the job",
        application is not None and application.state == RUNNING,
        str(application or "it knows no such application"),
        "deploy the job again; or another address, of the ResourceManager that it was submitted to",
    )
    states = Counter(node.state for node in cluster.nodes.values())
    gone = some_of([node.host for node in cluster.nodes.values() if node.state != RUNNING])
    yield Condition(
        "YARN has nodes that run",
        states[RUNNING] > 0,
        ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
        + (f"; not {RUNNING}: {gone}" if gone else ""),
        "start its NodeManagers",
    )


def _inputs(config: Mapping[str, str], cluster: KafkaCluster) -> tuple[Condition, int | None]:
    """Check the inputs; return the finding and the number of tasks, None without inputs."""
    try:
        counts = partition_counts(cluster, input_topics(config))
    except InvalidInput as error:
        return Condition("the job's inputs exist", False, error.seen, error.fix), None
    seen = ", ".join(f"{topic}: {number} partitions" for topic, number in counts.items())
    return Condition("the job's inputs exist", True, seen), max(counts.values(), default=None)


def _own(connection: Connection) -> tuple[str, ...]:
    """Return the topics that only a coordinator of ours needs."""
    return connection.state_topic, connection.audit_topic, TRANSACTIONS


def topic_findings(
    config: Mapping[str, str],
    cluster: KafkaCluster,
    tasks: int | None,
    without: Collection[str] = (),
    *,
    is_deployed: bool = False,
) -> Iterator[Condition]:
    """Check whether the job's topics exist as Samza makes them, and outlive the loss of a broker.

    `tasks` None: not known, so that of changelogs their replicas alone are judged. Raises
    `Unreachable`.
    """
    try:
        specs = (*samza_topics(config, tasks or 1), *own_topics(config))
    except InvalidInput as error:
        yield Condition(AS_MADE, False, f"{error.asked}: {error.seen}", error.fix)
        return
    specs = tuple(spec for spec in specs if spec.name not in without)
    wanted = {spec.name: spec.replicas or 1 for spec in specs}
    if TRANSACTIONS not in without:
        wanted[TRANSACTIONS] = coordinator_stream(config).replicas or 1
    kept = kept_topics(cluster, wanted, _ANSWER_S)
    # A standalone group leaves no deployment there; its first processor makes all at once.
    has_run = is_deployed or (bool(without) and specs[0].name in kept.topics)
    if tasks is not None:
        yield from _as_made(specs, kept, cluster, is_deployed=has_run)
    yield from judged(kept, wanted, cluster.bootstrap_servers)
    yield from _metrics(config, cluster)


def _metrics(config: Mapping[str, str], cluster: KafkaCluster) -> Iterator[Condition]:
    """Check the metrics' topics: only brokers that create topics by themselves create these."""
    topics = metrics_topics(config)
    missing = sorted(topics.keys() - kept_topics(cluster, topics, _ANSWER_S).topics.keys())
    if topics:
        yield Condition(
            "the job's metrics have their topic",
            not missing,
            f"no topic {', '.join(missing)}, or no right to see it"
            if missing
            else ", ".join(topics),
            "; ".join(
                TopicSpec(each, config={}).creation(1, cluster.bootstrap_servers)
                for each in missing
            ),
        )


def _as_made(
    specs: Sequence[TopicSpec], kept: KeptTopics, cluster: KafkaCluster, *, is_deployed: bool
) -> Iterator[Condition]:
    """Yield a finding for each topic that is wrong, and for each that is missing from what was deployed.

    Before that a start makes what is missing, as far as the brokers say that it may.
    """
    servers = cluster.bootstrap_servers
    wrong = [
        Condition(AS_MADE, False, each.seen, each.fix)
        for spec in specs
        if (topic := kept.topics.get(spec.name)) is not None
        for each in contradictions(spec, topic, servers)
    ]
    absent = [spec for spec in specs if spec.name not in kept.topics]
    brokers = len(kept.brokers)
    if is_deployed:
        wrong += [
            Condition(
                AS_MADE,
                False,
                f"no topic {spec.name}, and the job was deployed: it was deleted, with what was in it; or "
                "this login has no right to see it, or the job starts just now",
                f"keep the hosts' disks; the next start makes it, empty, or: "
                f"{spec.creation(brokers, servers)}",
            )
            for spec in absent
        ]
    elif absent:
        wrong += _not_creatable(absent, brokers, cluster)
    yield from wrong
    if not wrong:
        seen = [f"{len(specs) - len(absent)} topics"] if len(specs) > len(absent) else []
        seen += [f"a start makes {', '.join(map(str, absent))}"] if absent else []
        yield Condition(AS_MADE, True, "; ".join(seen))


def _not_creatable(
    absent: Sequence[TopicSpec], brokers: int, cluster: KafkaCluster
) -> list[Condition]:
    try:
        ensure_topics(cluster, absent, rehearse=True, timeout_s=_ANSWER_S)
    except InvalidInput as error:
        commands = "; ".join(spec.creation(brokers, cluster.bootstrap_servers) for spec in absent)
        return [
            Condition(AS_MADE, False, f"{error.asked}: {error.seen}", f"{error.fix}: {commands}")
        ]
    return []


def judged(kept: KeptTopics, wanted: Mapping[str, int], servers: str) -> Iterator[Condition]:
    """Yield a finding for each condition that all topics meet, else one for each that doesn't.

    Pure.
    """
    found = [
        each
        for name, topic in kept.topics.items()
        for each in shortcomings(topic, kept.brokers, wanted[name], servers)
    ]
    seen = f"{len(kept.topics)} topics, {len(kept.brokers)} brokers"
    for condition in (ENOUGH, IN_SYNC, WAITED_FOR) if kept.topics else ():
        lacking = [each for each in found if each.condition == condition]
        if not lacking:
            yield Condition(condition, True, seen)
        for each in lacking:
            yield Condition(condition, False, each.seen, each.fix)


def _lease(config: Mapping[str, str]) -> Condition:
    """Check the bounds; report the outage that the lease survives. A short one is a choice."""
    check = f"{LEASE.key} and the other limits are within their bounds"
    try:
        limits = limits_of(config)
    except InvalidInput as error:
        return Condition(check, False, f"{error.asked}: {error.seen}", error.fix)
    return Condition(check, True, short_lease(limits) or outlived(limits))


def access_findings(connection: Connection, *, has_config: bool) -> Iterator[Condition]:
    """Check whether the brokers answer, and which rights this login has on the job's topics.

    With a config at hand the job may be one that wasn't deployed yet. Raises `Unreachable`.
    """
    cluster = KafkaCluster.of(connection)
    metadata = cluster_metadata(cluster, "ask the brokers", _ANSWER_S)
    brokers = [f"{each.host}:{each.port}" for _, each in sorted(metadata.brokers.items())]
    yield Condition("the brokers answer", True, some_of(brokers))
    stream = connection.coordinator_stream_topic
    is_there = stream in metadata.topics
    yield Condition(
        "the job was deployed once, or is new" if has_config else "the job was deployed once",
        is_there or has_config,
        f"topic {stream}" if is_there else f"not yet: no topic {stream}, or no right to see it",
        "deploy it, or correct its name, id or the brokers: samza-dagster config show says which are meant",
    )
    wanted = {stream: _OF_A_CLIENT, connection.state_topic: _OF_A_CLIENT}
    wanted[connection.audit_topic] = frozenset({"READ", "DESCRIBE"})
    lacks = lacking(cluster, wanted, "ask what this login may do", _ANSWER_S)
    yield Condition(
        "this login may use the job's topics",
        not lacks,
        "; ".join(f"{topic} lacks {what}" for topic, what in lacks.items())
        or "read, and asked for placements",
        "; ".join(
            f"kafka-acls.sh --bootstrap-server {connection.bootstrap_servers} --add --topic {topic}"
            f" --allow-principal User:NAME {operations(what)}"
            for topic, what in lacks.items()
        ),
    )


def operations(lacking: str) -> str:
    """Return the flags of `kafka-acls.sh` for what a login lacks (`READ and WRITE`)."""
    return " ".join(f"--operation {one.title()}" for one in lacking.split(" and "))


def deployed_findings(connection: Connection) -> Iterator[Condition]:
    """Yield the conditions of the deployment by the coordinator stream's config; writes nothing.

    Raises `Unreachable`.
    """
    ownership, deployed = owner(connection)
    yield ownership
    if deployed.run_id is None:
        return
    ours = () if deployed.is_ours else _own(connection)
    if not deployed.is_ours:
        yield _of_an_am(deployed)
    cluster = KafkaCluster.of(connection)
    yield from topic_findings(deployed.config, cluster, deployed.tasks, ours, is_deployed=True)
    if connection.resource_managers:
        yield from _yarn(connection)


def report(config: Path, connection: Connection) -> Iterator[Condition]:
    """Yield the findings for a job's config and topics, with the login of the connection.

    Raises `Unreachable` as `findings`.
    """
    cluster = KafkaCluster.of(connection)
    properties = read_properties(config, "the job's config")
    ownership: Condition | Unreachable
    try:
        ownership, deployed = owner(connection)
    except Unreachable as error:
        ownership, deployed = error, Deployed()
    if deployed.is_ours:
        without = _own(connection) if connection.zookeeper else ()
        yield from findings(properties, cluster, deployed, without)
    else:
        yield from _findings_under_an_am(properties, cluster, connection, deployed)
    if isinstance(ownership, Unreachable):
        raise ownership
    yield ownership


def owner(connection: Connection) -> tuple[Condition, Deployed]:
    """Check whether coordinator stream and state topic are this job's or free, and find its deployer.

    Raises `Unreachable`.
    """
    check = "the job's topics are no other job's"
    try:
        deployed = read_deployed(connection)
    except InvalidInput as error:
        return Condition(check, False, error.seen, error.fix), Deployed()
    topics = f"{connection.coordinator_stream_topic}, {connection.state_topic}"
    return Condition(check, True, topics), deployed
