"""Moves of real, stateful Samza containers under load, judged by an outsider.

The scenarios go on where the one before ended; the last one destroys the state.
"""

from __future__ import annotations

import shutil
import signal
import time

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.model import StatusCode
from samza_dagster.sandbox import demo_job, kafka_client
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from samza_dagster.sandbox.readiness import applied_offset
from tests.rig.broker_cluster import set_config
from tests.rig.demo_sandbox import OPTIONS, PARTITIONS_OF_0, all_run, processors, restored
from tests.rig.job import alive
from tests.rig.pace import PACE
from tests.rig.replacement import offsets
from tests.rig.waiting import until

pytestmark = pytest.mark.integration

COMMIT_S = int(demo_job.job_config("")["task.commit.ms"]) / 1000


def free_host(sandbox: Sandbox, group: str) -> str:
    """A host without a container of the group."""
    taken = {p["host"] for name, p in processors(sandbox).items() if name.split("-")[0] == group}
    return next(host.name for host in sandbox.hosts if host.name not in taken)


def place(client: PlacementClient, processor: str, destination: str) -> None:
    """Places and demands SUCCEEDED."""
    request = client.place(processor, destination)
    answer = client.wait(request.uuid, timeout_s=60 * PACE)
    assert answer.status_code is StatusCode.SUCCEEDED, answer


def test_an_active_moves_onto_its_standbys_host_and_restores_only_the_difference(
    sandbox: Sandbox, client: PlacementClient, judge: Judge, servers: str
) -> None:
    """The standby makes room, the active follows: at most twice what came meanwhile is read, and
    no more is put out twice than what a stop leaves uncommitted (docs/decisions/0003).
    """
    before = processors(sandbox)
    destination = before["0-0"]["host"]
    place(client, "0-0", free_host(sandbox, "0"))
    state = next(h.state_directory for h in sandbox.hosts if h.name == destination)
    left: dict[int, int] = {}
    for partition in PARTITIONS_OF_0:
        applied = applied_offset(state, f"Partition {partition}")
        assert applied is not None, (
            f"without its store on {destination} nothing bounds what is read"
        )
        left[partition] = applied
    twice, began = judge.judge(deadline_s=60 * PACE).duplicates, time.monotonic()
    place(client, "0", destination)
    moved_s = time.monotonic() - began
    ends = offsets(servers, demo_job.CHANGELOG_TOPIC)
    after = processors(sandbox)
    assert after["0"]["host"] == destination
    assert alive(after["0"]["pid"])
    assert not alive(before["0"]["pid"])
    read = restored(sandbox, "0")
    for partition in PARTITIONS_OF_0:
        produced = ends[partition] - 1 - left[partition]
        assert read[partition] <= 2 * max(produced, 1), (partition, read, left, ends)
    since = client.checkpoints_end()
    until("it processes", lambda: client.processing("0", since).processing, seconds=40)
    verdict = judge.judge(deadline_s=60 * PACE)
    assert verdict.is_good, verdict
    outputs_s = OPTIONS.rate / demo_job.PARTS / OPTIONS.actives
    explained = 2 * outputs_s * (COMMIT_S + moved_s)
    assert verdict.duplicates - twice <= explained, (
        f"{verdict.duplicates - twice} put out twice by a move of {moved_s:.1f} s; what wasn't "
        f"committed explains {explained:.0f}"
    )


def test_a_coordinator_killed_in_mid_move_ends_it_once_and_containers_notice_nothing(
    sandbox: Sandbox, client: PlacementClient, judge: Judge
) -> None:
    """SIGKILL as the first response comes; the next coordinator finishes the move."""
    before = processors(sandbox)
    destination = free_host(sandbox, "1")
    request = client.place("1", destination)
    client.wait(
        request.uuid, timeout_s=20 * PACE, until=lambda r: r.status_code is StatusCode.IN_PROGRESS
    )
    (coordinator,) = sandbox.registry.live("coordinator")
    coordinator.send(signal.SIGKILL)
    until("it is dead", lambda: not coordinator.is_alive, seconds=10)
    sandbox.files.start(on_spawn=sandbox.registry.add)
    answer = client.wait(request.uuid, timeout_s=90 * PACE)
    assert answer.status_code is StatusCode.SUCCEEDED, answer
    after = until(
        "the new coordinator knows all",
        lambda: all_run(sandbox) and processors(sandbox),
    )
    assert after["1"]["host"] == destination
    for processor in ("0", "0-0", "1-0"):
        assert after[processor]["pid"] == before[processor]["pid"]
        assert alive(after[processor]["pid"])
    verdict = judge.judge(deadline_s=60 * PACE)
    assert verdict.is_good, verdict


def test_the_judge_is_not_blind_state_wiped_before_a_move_shows_as_missing(
    sandbox: Sandbox, client: PlacementClient, judge: Judge, servers: str
) -> None:
    """Changelog and stores of one active destroyed between a key's parts: outputs are missing."""
    wiped = (1, 3)  # the partitions of active 1
    destination = free_host(sandbox, "1")
    # A container that hasn't committed since it was moved would read both parts again.
    since = client.checkpoints_end()
    until("1 has committed", lambda: client.processing("1", since).processing, seconds=40)
    state = next(h.state_directory for h in sandbox.hosts if h.name == destination)
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir()
    cut_changelog(servers, wiped)
    place(client, "1", destination)
    until(
        "outputs are missing",
        lambda: judge.judge(deadline_s=5).missing > 0,
        seconds=40,
    )


def cut_changelog(servers: str, partitions: tuple[int, ...]) -> None:
    """Deletes every record that the changelog has in these partitions."""
    topic = demo_job.CHANGELOG_TOPIC
    # A topic that is only compacted refuses it.
    set_config(servers, topic, "cleanup.policy", "compact,delete")
    ends = offsets(servers, topic)
    cut = [kafka_client.partition(topic, p, ends[p]) for p in partitions]
    with kafka_client.admin(servers) as admin:
        for future in admin.delete_records(cut).values():
            future.result(timeout=20 * PACE)
