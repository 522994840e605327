"""The client against a real broker; what it wrote is judged by another reader."""

from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from samza_dagster.client import JobView, PlacementClient
from samza_dagster.errors import InvalidInput, Refused, SamzaDagsterError, Unreachable
from samza_dagster.metadata import StateWriter, ensure_topic
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.state_topic import encode_record
from samza_dagster.model import StatusCode
from samza_dagster.model.naming import transactional_id
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE, REQUEST
from samza_dagster.orchestration.watch.invariants import changelogs_there
from samza_dagster.placement import codec
from samza_dagster.placement.state import (
    Group,
    Incarnation,
    JobState,
    Limits,
    Phase,
    Processor,
    Role,
)
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


def new_uuid() -> str:
    return str(uuid.uuid4())


def seen(client: PlacementClient, holds: Callable[[JobView], bool]) -> JobView:
    """A commit returns before its marker is in the topic: readers see it a moment later."""
    return until("the state in a view", lambda: view if holds(view := client.view()) else None)


@pytest.mark.parametrize("key", [b"no json", b"[1]", b"\xff\xfe"])
def test_nothing_is_moved_while_no_container_could_start(own_job: Any, key: bytes) -> None:
    """Samza's reader ends at a key that isn't its own, in every container that starts: the
    running one is worth more than the move. Views and status go on."""
    with own_job.client() as client:
        assert client.view().fatal == ()
    own_job.produce(own_job.topic, [(key, b"{}")])
    end = own_job.end()
    with own_job.client() as client:
        for destination in ("nm2", "ANY_HOST", "LAST_SEEN"):
            with pytest.raises(Refused, match="start again"):
                client.place("0", destination)
        assert "start again" in (client.plan("0", "nm2").refusal or "")
        (told,) = client.view().fatal
        assert f"offset {end - 1}" in told
        assert client.view().processors["0"].host == "nm1"
    assert own_job.cli("status")[0] == 0
    assert own_job.end() == end


def test_a_request_is_one_record_with_samzas_key(kafka_job: Any) -> None:
    """Byte for byte: compaction compares keys; repeating the UUID writes nothing."""
    end, asked = kafka_job.end(), new_uuid()
    with kafka_job.client() as client:
        request = client.place("0", "nm2", uuid=asked, request_expiry_s=2)
        assert client.place("0", "nm2", uuid=asked) == request
    with kafka_job.client() as another:
        assert another.place("0", "nm2", uuid=asked) == request
    assert kafka_job.end() == end + 1
    key, value = kafka_job.raw(end)
    assert key == f'[1,"{PLACEMENT_NAMESPACE}","{asked}.{REQUEST}"]'.encode()
    assert json.loads(value) == request.to_json()
    assert request.to_json()["requestExpiry"] == 2000
    kafka_job.take(asked)


def test_waiting_sees_every_status_that_the_topic_had(kafka_job: Any) -> None:
    """One key per request: each status overwrites the one before, only a tail sees all."""
    statuses = [
        (StatusCode.ACCEPTED, "a"),
        (StatusCode.IN_PROGRESS, "b"),
        (StatusCode.IN_PROGRESS, "c"),
        (StatusCode.SUCCEEDED, "d"),
    ]
    with kafka_job.client() as client:
        request = client.place("0", "nm2")

        def answer() -> None:
            kafka_job.take(request.uuid)
            for status, message in statuses:
                kafka_job.respond(request.uuid, status, message)

        coordinator = threading.Thread(target=answer)
        coordinator.start()
        seen: list[str] = []
        client.wait(
            request.uuid, timeout_s=20 * PACE, on_response=lambda r: seen.append(r.response_message)
        )
        coordinator.join()
        assert seen == ["a", "b", "c", "d"]
        assert client.request(request.uuid) is None
        assert client.history("0")[-1].response_message == "d"
    with kafka_job.client() as another:
        assert another.wait(request.uuid, timeout_s=10 * PACE).response_message == "d"


def test_an_unknown_job_is_named_and_nothing_is_created(kafka_job: Any) -> None:
    """To ask for a topic must not create it; other tests create theirs on the same broker meanwhile."""
    before = kafka_job.topics()
    connection = replace(kafka_job.connection, job_name=f"not-{kafka_job.name}")
    calls = [
        lambda c: c.view(),
        lambda c: c.place("0", "nm1"),
        lambda c: c.lag(),
        lambda c: c.response(new_uuid()),
    ]
    for call in calls:
        with PlacementClient(connection) as client, pytest.raises(InvalidInput) as raised:
            call(client)
        assert connection.coordinator_stream_topic in raised.value.seen
    with kafka_job.client() as client:
        client.view()
        client.lag()
    assert kafka_job.topics() == before


def test_a_broker_that_isnt_there_is_unreachable_within_ten_seconds() -> None:
    """A closed port, and a port that accepts and never answers."""

    def ask(port: int) -> tuple[str, float]:
        began = time.monotonic()
        client = PlacementClient(Connection(f"127.0.0.1:{port}", "j"))
        with client, pytest.raises(Unreachable) as raised:
            client.place("0", "nm1")
        assert raised.value.exit_code == 4
        return str(raised.value), time.monotonic() - began

    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor() as threads:
        ports = (1, silent.getsockname()[1])
        for port, (told, took) in zip(ports, threads.map(ask, ports), strict=True):
            assert f"127.0.0.1:{port}" in told
            assert took < 10 * PACE


def state_records(job: Any, host: str) -> list[tuple[str, bytes, bytes | None]]:
    group = Group(
        "0",
        {
            pid: Processor(
                pid,
                Role.STANDBY if "-" in pid else Role.ACTIVE,
                Phase.RUNNING,
                Incarnation(1, f"{pid}-e1", on, f"r-{pid}"),
            )
            for pid, on in (("0", host), ("0-0", "nm3"))
        },
    )
    state = JobState(job=job.name, deployment_id="run-1", limits=Limits(256, 1))
    values: dict[str, dict[str, Any]] = {
        "job": {"state": codec.job_to_json(state)},
        "group/0": {"epoch": 1, "group": codec.group_to_json(group)},
        "host/nm1": {
            "host": "nm1",
            "alive": True,
            "memory_mb": 1024,
            "cores": 4,
            "free_memory_mb": 512,
            "free_cores": 2,
        },
    }
    return [
        (job.connection.state_topic, *encode_record(key, value)) for key, value in values.items()
    ]


def test_our_coordinators_state_is_believed_as_it_commits_it(own_job: Any) -> None:
    """From the first committed transaction on; an empty state topic says nothing."""
    with own_job.client() as client:
        assert client.view().coordinator == "samza"
        ensure_topic(own_job.cluster, own_job.connection.state_topic)
        assert client.view().coordinator == "samza"
        writer = StateWriter(
            own_job.bootstrap_servers,
            own_job.connection.state_topic,
            transactional_id(own_job.name, "1"),
        )
        writer.take_over()
        writer.commit(state_records(own_job, "nm1"))
        view = seen(client, lambda v: v.coordinator == "samza_dagster")
        assert view.processors["0"].execution_id == "0-e1"
        assert view.processors["0"].tasks == ("Partition 0", "Partition 2")
        assert view.hosts["nm1"].free_memory_mb == 512
        writer.commit(state_records(own_job, "nm5"))
        seen(client, lambda v: v.processors["0"].host == "nm5")
        writer.close()


def metrics_of(
    job: Any,
    task: str,
    partition: int,
    offset: int,
    at_ms: int,
    *,
    host: str = "nm3",
    calls: int = 0,
) -> bytes:
    header = {
        "job-name": job.name,
        "job-id": "1",
        "source": f"TaskName-{task}",
        "host": host,
        "time": at_ms,
    }
    gauge = f"kafka-{job.changelog}-{partition}-offset"
    group = {gauge: str(offset), "process-calls": calls}
    metrics = {"org.apache.samza.container.TaskInstanceMetrics": group}
    return json.dumps({"header": header, "metrics": metrics}).encode()


def test_lag_is_the_topics_end_less_what_the_standby_reported(own_job: Any) -> None:
    """End offsets of real partitions, gauges out of a real metrics topic."""
    now = time.time_ns() // 1_000_000
    for partition, count in ((0, 10), (1, 3)):
        own_job.produce(own_job.changelog, [(b"k", b"v")] * count, partition)
    own_job.produce(
        own_job.metrics,
        [
            (None, metrics_of(own_job, "Standby-Partition 0-0", 0, 2, now - 10)),
            (None, metrics_of(own_job, "Standby-Partition 0-0", 0, 6, now)),
            (None, b"junk"),
            (None, metrics_of(own_job, "Partition 0", 0, 0, now, host="nm1", calls=1)),
        ],
    )
    with own_job.client() as client:
        lags = {lag.task_name: lag for lag in client.lag()}
    assert len(lags) == 8
    standby = lags["Standby-Partition 0-0"]
    assert (standby.end_offset, standby.applied_offset, standby.lag) == (10, 6, 3)
    assert lags["Standby-Partition 1-0"].lag is None
    assert lags["Standby-Partition 2-0"].lag == 0
    assert (lags["Partition 0"].lag, lags["Partition 0"].basis) == (0, "running")
    code, document = own_job.cli("lag")
    assert code == 0
    assert len(document["replicas"]) == 8


def test_a_changelog_that_is_deleted_or_made_anew_is_named_by_lag_and_doctor(own_job: Any) -> None:
    """Exit code 1, a row for each replica and none of them caught up; a standby has applied 999 of it."""
    now = time.time_ns() // 1_000_000
    own_job.produce(own_job.changelog, [(b"k", b"v")] * 1_000)
    reports = [
        metrics_of(own_job, "Standby-Partition 0-0", 0, 999, now),
        metrics_of(own_job, "Partition 0", 0, 0, now, host="nm1", calls=1),
    ]
    own_job.produce(own_job.metrics, [(None, report) for report in reports])
    whole = "every store's changelog is there, and whole"

    def doctor() -> list[tuple[bool, str]]:
        _, document = own_job.cli("doctor")
        checks = [each for each in document["checks"] if each["check"] == whole]
        return [(each["ok"], each["seen"]) for each in checks]

    def standby() -> tuple[int, Any]:
        code, document = own_job.cli("lag")
        assert len(document["replicas"]) == 8
        rows = {row["task_name"]: row for row in document["replicas"]}
        return code, rows["Standby-Partition 0-0"]

    code, row = standby()
    assert (code, row["lag"], row["unknown_because"]) == (0, 0, "")
    assert doctor() == [(True, own_job.changelog)]

    with own_job.cluster.admin() as admin:
        admin.delete_topics([own_job.changelog])[own_job.changelog].result()
    gone = f"topic {own_job.changelog} doesn't exist"
    code, row = until("it is gone", lambda: found if (found := standby())[0] else None)
    assert (code, row["lag"], row["unknown_because"]) == (1, None, "no-changelog")
    assert row["reason"] == gone
    assert doctor() == [(False, f"store lab: {gone}")]
    with own_job.client() as client:
        (told,) = changelogs_there(client.lag())
    assert (told.subject, told.severity) == (f"changelog {own_job.changelog}", "ERROR")

    ensure_topic(own_job.cluster, own_job.changelog, partitions=4)
    own_job.produce(own_job.changelog, [(b"k", b"v")] * 5)
    code, row = until(
        "it has five records", lambda: f if (f := standby())[1]["end_offset"] else None
    )
    assert (code, row["lag"], row["unknown_because"]) == (1, None, "beyond-end")
    assert (row["applied_offset"], row["end_offset"]) == (999, 5)
    ((ok, seen),) = doctor()
    assert not ok
    assert "was made anew or cut: its partition 0 ends at 5, and offset 999 was applied" in seen


def test_processing_is_read_from_the_checkpoint_topic(own_job: Any) -> None:
    """Two commits of `Partition 0`, before and behind where the topic ended."""
    from samza_dagster.model.naming import checkpoint_topic

    def commit(offset: int) -> None:
        key = {"taskName": "Partition 0", "type": "checkpoint-v2"}
        value = {"checkpoint-id": "1-1", "input-offsets": {"kafka.in.0": str(offset)}}
        topic = checkpoint_topic(own_job.name, "1")
        own_job.produce(topic, [(json.dumps(key).encode(), json.dumps(value).encode())])

    with own_job.client() as client:
        assert client.checkpoints_end() == 0
        commit(5)
        since = client.checkpoints_end()
        assert not client.processing("0", since).processing
        commit(6)
        progress = client.processing("0", since)
        assert progress.processing
        assert [task.task_name for task in progress.tasks if task.advanced] == ["Partition 0"]


def test_every_call_is_refused_or_done_never_half(own_job: Any) -> None:
    """Many clients at once, one UUID: one request's worth of records, all the same."""
    asked = new_uuid()
    outcomes: list[Any] = []

    def ask() -> None:
        try:
            with own_job.client() as client:
                outcomes.append(client.place("0", "nm1", uuid=asked).uuid)
        except SamzaDagsterError as error:
            outcomes.append(error)

    end = own_job.end()
    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [asked] * 6
    written = [own_job.raw(offset) for offset in range(end, own_job.end())]
    assert {key for key, _ in written} == {
        stream.encode_key(PLACEMENT_NAMESPACE, f"{asked}.{REQUEST}")
    }
    assert {json.loads(value or b"{}")["destinationHost"] for _, value in written} == {"nm1"}
