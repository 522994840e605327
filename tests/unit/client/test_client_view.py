"""One `JobView`, from Samza's coordinator stream alone or from our coordinator's state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.errors import Refused
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.model import StatusCode, TaskMode
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE
from samza_dagster.placement.state import Phase, Stage
from tests.rig.memory_store import MemoryMetadataStore

pytestmark = pytest.mark.unit

RECORDED = Path(__file__).parents[2] / "data" / "wire" / "coordinator-stream.jsonl"
UUID = "88b0d30c-d518-4307-9e8e-c8529eb30f04"


def test_a_stream_that_samzas_am_wrote_is_a_job() -> None:
    """Read from a recorded 1.8.0 stream: processors, modes, hosts, deployment."""
    store = MemoryMetadataStore()
    for line in map(json.loads, RECORDED.read_text().splitlines()):
        _, namespace, key = json.loads(line["key"])
        if line["value"] is None:
            store.remove(namespace, key)
        else:
            store.put(namespace, key, line["value"].encode())
    view = PlacementClient.over(store, job_name="yw").view()
    assert view.coordinator == "samza"
    assert view.deployment_id == "1795264662180-8201457e"
    assert {p: v.mode for p, v in view.processors.items()} == {
        "0": TaskMode.ACTIVE,
        "1": TaskMode.ACTIVE,
        "0-0": TaskMode.STANDBY,
        "1-0": TaskMode.STANDBY,
    }
    assert view.processors["0-0"].tasks == ("Standby-Partition 0-0", "Standby-Partition 2-0")
    assert set(view.hosts) >= {"nm1", "nm2"}
    assert view.host_affinity
    assert view.container_memory_mb == 512
    assert json.loads(json.dumps(view.to_json()))["coordinator"] == "samza"


def test_our_coordinators_state_says_phase_host_and_room(job: Any, moving: Any) -> None:
    """With the action in flight and its reservation."""
    job.coordinator.state = moving(job.led_by_ours(), "0", "host-5", Stage.HELD)
    view = job.client().view()
    assert view.coordinator == "samza_dagster"
    assert view.processors["0"].state == Phase.RUNNING
    assert view.processors["0"].execution_id == "0-e0"
    assert view.processors["0"].tasks == ("Partition 0", "Partition 2")
    assert view.hosts["host-5"].free_memory_mb == 640
    (action,) = view.actions
    assert (action.stage, action.source_host, action.reserved_host) == (
        "held",
        "host-1",
        "host-5",
    )


def test_the_state_of_a_deployment_that_is_over_is_not_believed(job: Any) -> None:
    """Samza's AM deployed the job again since: its stream is the word."""
    job.led_by_ours(deployment_id="an older one")
    assert job.client().view().coordinator == "samza"


def test_a_job_with_the_older_names_of_its_settings_is_shown_as_samza_runs_it(job: Any) -> None:
    """`yarn.*`: without them a move of a container that has affinity counted as impossible."""
    settings = {
        "job.host-affinity.enabled": ("yarn.samza.host-affinity.enabled", "true"),
        "cluster-manager.container.memory.mb": ("yarn.container.memory.mb", "512"),
        "cluster-manager.container.cpu.cores": ("yarn.container.cpu.cores", "2"),
    }
    for newer, (older, value) in settings.items():
        job.configure(newer, None)
        job.configure(older, value)
    view = job.client().view()
    assert (view.host_affinity, view.container_memory_mb, view.container_cores) == (True, 512, 2)
    for newer, value in zip(settings, ("false", "384", "1"), strict=True):
        job.configure(newer, value)
    view = job.client().view()
    assert (view.host_affinity, view.container_memory_mb, view.container_cores) == (False, 384, 1)


def test_requests_wait_until_they_are_answered(job: Any) -> None:
    """Not taken: queued. IN_PROGRESS: an action. Of another deployment: neither."""
    client = job.client()
    client.place("0", "host-2", uuid=UUID)
    assert [a.uuid for a in client.view().queued] == [UUID]
    job.respond(UUID, StatusCode.IN_PROGRESS, "Preferred Resources requested")
    view = client.view()
    assert (view.queued, [a.stage for a in view.actions]) == ((), ["in_progress"])
    job.configure("app.run.id", "the next one")
    assert client.view().actions == ()


def test_records_that_cant_be_read_hide_no_other(job: Any) -> None:
    """View and history go on, the view names what was skipped; a request waits for what stops Samza's AM."""
    junk = [
        (stream.SET_CONFIG, "broken", b"{"),
        (stream.SET_CONTAINER_HOST, "0", b"[]"),
        (stream.SET_TASK_CONTAINER, "Partition 9", b'{"values": 3}'),
        (PLACEMENT_NAMESPACE, f"{UUID}.ContainerPlacementRequestMessage", b"\xff"),
        (PLACEMENT_NAMESPACE, "x.ContainerPlacementResponseMessage", b'{"uuid":"x"}'),
        (PLACEMENT_NAMESPACE, "no known key", b"null"),
        ("a-namespace-of-others", "k", b"\x00"),
    ]
    for namespace, key, value in junk:
        job.store.put(namespace, key, value)
    client = job.client()
    view = client.view()
    assert len(view.unreadable) == 5
    assert "set-container-host-assignment, key 0" in " ".join(view.unreadable)
    assert set(view.processors) == {"0", "1", "0-0", "1-0"}
    assert view.processors["0"].host is None
    assert set(view.poison) == {
        key for namespace, key, _ in junk if namespace == PLACEMENT_NAMESPACE
    }
    with pytest.raises(Refused, match="samza-dagster gc"):
        client.place("1", "host-3")
    client.remove(client.unneeded(older_than_s=0))
    assert client.place("1", "host-3").destination_host == "host-3"
    assert client.history() == ()
    assert client.locality().host_of("1") == "host-2"


def test_history_is_the_newest_response_of_each_request(job: Any) -> None:
    """Oldest first, of one processor if it is named, the newest ones if limited."""
    for number, processor in enumerate(("0", "1", "0")):
        job.now_ms += 1
        uuid = f"0000000{number}-0000-4000-8000-000000000000"
        job.respond(uuid, StatusCode.IN_PROGRESS, "first", processor_id=processor)
        job.respond(uuid, StatusCode.SUCCEEDED, str(number), processor_id=processor)
    client = job.client()
    assert [r.response_message for r in client.history()] == ["0", "1", "2"]
    assert [r.response_message for r in client.history("0")] == ["0", "2"]
    assert [r.response_message for r in client.history(limit=1)] == ["2"]
