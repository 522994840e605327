"""The client against a real broker; what it wrote is judged by another reader."""

from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.errors import InvalidInput, Refused, SamzaDagsterError, Unreachable
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.connection import Connection
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE, REQUEST
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = pytest.mark.contract


def new_uuid() -> str:
    return str(uuid.uuid4())


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


def test_lag_ends_with_1_where_a_changelog_was_deleted(own_job: Any) -> None:
    """Its rows say so; what else is wrong with one is in `test_client_lost_changelogs`."""
    assert own_job.cli("lag")[0] == 0
    with own_job.cluster.admin() as admin:
        admin.delete_topics([own_job.changelog])[own_job.changelog].result()
    code, document = until("it is gone", lambda: said if (said := own_job.cli("lag"))[0] else None)
    assert code == 1
    gone = f"topic {own_job.changelog} doesn't exist"
    assert [row["reason"] for row in document["replicas"]] == [gone] * 8


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
