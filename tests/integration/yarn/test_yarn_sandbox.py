"""A sandbox on a real YARN: what the kernel, the ResourceManager and the topics say of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.job import alive
from tests.rig.topic_records import records_of
from tests.rig.waiting import until
from tests.rig.yarn_job import listed, run_coordinator

pytestmark = pytest.mark.yarn


def node_states(sandbox: Sandbox) -> dict[str, str]:
    nodes = listed(sandbox, "nodes")["nodes"]["node"]
    return {node["nodeHostName"]: node["state"] for node in nodes}


def of_other_hosts(sandbox: Sandbox, processor_id: str) -> str:
    """A host that has no container of the processor's group."""
    running = sandbox.status()["processors"]
    taken = {each["host"] for id_, each in running.items() if id_[0] == processor_id[0]}
    return next(host for host in sandbox.status()["hosts"] if host not in taken)


def test_each_container_is_on_a_host_of_its_own_name(sandbox: Sandbox) -> None:
    facts = sandbox.status()
    assert facts["state"] == "up"
    (app,) = listed(sandbox, "apps")["apps"]["app"]
    assert (app["state"], app["runningContainers"]) == ("RUNNING", 5)
    assert app["id"] == facts["application"]
    running = facts["processors"]
    assert set(running) == {"0", "0-0", "1", "1-0"}
    assert all(alive(each["pid"]) and len(each["pids"]) == 1 for each in running.values())
    assert running["0"]["host"] != running["0-0"]["host"]
    assert set(node_states(sandbox)) == set(facts["hosts"])


def test_the_application_master_moves_an_active_and_nothing_is_lost(
    sandbox: Sandbox, client: PlacementClient, judge: Judge
) -> None:
    before = sandbox.status()["processors"]["0"]
    host = of_other_hosts(sandbox, "0")
    asked = client.place("0", host, allow_unknown_host=True)
    assert client.wait(asked.uuid, timeout_s=120).status_code == "SUCCEEDED"
    assert not alive(before["pid"])
    # SUCCEEDED means that YARN was told to start it.
    after = until("the new process is there", lambda: sandbox.yarn.processors().get("0"))
    assert (after["host"], after["pids"]) == (host, [after["pid"]])
    assert after["execution_id"] != before["execution_id"]
    verdict = judge.judge(deadline_s=90)
    assert verdict.is_good, verdict


@pytest.mark.parametrize("options", [(), ("--take-over", "now")])
def test_a_coordinator_of_ours_leaves_the_application_masters_job_alone(
    sandbox: Sandbox, servers: str, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """What `--adopt` says of it: `test_yarn_words`, and `test_adoption` where nobody knows YARN."""
    stream = demo_job.connection(servers)
    before = records_of(stream, stream.coordinator_stream_topic)
    ran = run_coordinator(tmp_path, servers, *options)
    assert ran.returncode == 2
    assert "--adopt" in ran.stderr
    assert records_of(stream, stream.coordinator_stream_topic) == before


@pytest.mark.longyarn
def test_a_host_that_is_lost_takes_its_containers_along(sandbox: Sandbox, judge: Judge) -> None:
    """As a machine whose power fails: the ResourceManager hears of it by silence alone."""
    before = sandbox.status()["processors"]["1"]
    (record,) = sandbox.registry.live(before["host"])
    sandbox.yarn.lose(before["host"])
    assert not record.is_alive
    until("its containers are gone", lambda: not alive(before["pid"]))
    until("the node is LOST", lambda: node_states(sandbox)[before["host"]] == "LOST", seconds=60)
    after = until(
        "the active runs elsewhere", lambda: sandbox.yarn.processors().get("1"), seconds=120
    )
    assert after["host"] != before["host"]
    assert judge.judge(deadline_s=120).is_good
    assert sandbox.status()["hosts"][before["host"]] == {"state": "lost"}
