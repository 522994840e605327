"""What commands say of a job that Samza's own Application Master runs, and of its YARN."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.cli.options import Target
from samza_dagster.client import audit_history
from samza_dagster.client.audit_history import AuditHistory
from samza_dagster.coordinator import diagnosis
from samza_dagster.coordinator.fencing.examination import Condition
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.metadata.job_owner import Deployed
from samza_dagster.metadata.replicas import KeptTopic, KeptTopics, Partition
from samza_dagster.metadata.resource_manager import Application, Cluster, ResourceManager, YarnNode
from samza_dagster.model import StatusCode

pytestmark = pytest.mark.unit
AUTHOR = Author("host-1", "samza", 1_795_264_662_000)

APPLICATION = {
    "id": "application_1_0004",
    "name": "j_1",
    "applicationType": "Samza",
    "state": "RUNNING",
    "finalStatus": "UNDEFINED",
    "amHostHttpAddress": "host-2:8042",
    "trackingUrl": "http://rm:8088/proxy/application_1_0004/",
}
NODES = [
    {"nodeHostName": f"host-{n}", "state": "LOST" if n == 4 else "RUNNING", "availMemoryMB": 512, "usedMemoryMB": 512}
    for n in range(1, 6)
]  # fmt: skip


def yarn(**changes: Any) -> ResourceManager:
    pages = {
        "apps": {"apps": {"app": [{**APPLICATION, **changes}]}},
        "nodes": {"nodes": {"node": NODES}},
    }

    def fetch(url: str) -> bytes:
        return json.dumps(pages["apps" if "apps" in url else "nodes"]).encode()

    return ResourceManager(["http://rm:8088"], fetch=fetch)


def away(url: str) -> bytes:
    raise ConnectionRefusedError("Connection refused")


def test_status_shows_yarns_word_on_the_job_and_its_nodes(commands: Any) -> None:
    commands.yarn = yarn()
    shown = commands.run("status")
    assert shown.exit_code == 0, shown.output
    assert (
        "YARN: application_1_0004 is RUNNING, Application Master on host-2, "
        "http://rm:8088/proxy/application_1_0004/" in shown.stdout
    )
    assert "lost, LOST" in shown.stdout
    document = commands.json("status")
    assert (document["application"]["state"], document["dead"]) == ("RUNNING", None)
    assert document["hosts"]["host-5"]["free_memory_mb"] == 512


def test_status_says_that_a_dead_job_is_dead_and_what_helps(commands: Any) -> None:
    commands.yarn = yarn(state="KILLED", finalStatus="KILLED")
    shown = commands.run("status")
    assert "nothing of the job runs any more: YARN's ResourceManager: application_1" in shown.stderr
    assert "Deploy it again" in shown.stderr
    refused = commands.json("place", "0", "--to", "host-5", code=2)
    assert (refused["error"], refused["fix"]) == ("Refused", "deploy the job again")


def test_status_says_that_it_isnt_known_whether_the_job_runs(commands: Any) -> None:
    """Without a ResourceManager nobody tells: `dead` is null of a dead job, too."""
    shown = commands.run("status")
    assert "Notice: whether the job runs isn't known: Samza's AM leaves no sign" in shown.stderr
    assert commands.json("status")["life"]["runs"] is None
    assert commands.json("status", "--look")["life"]["runs"] is None
    commands.yarn = yarn()
    assert commands.json("status")["life"]["runs"] is True
    assert "isn't known" not in commands.run("status").stderr


def test_status_and_locality_name_a_request_that_nobody_answers(commands: Any) -> None:
    """Its deployment ended before the AM did what it had taken."""
    commands.answers = [(StatusCode.IN_PROGRESS, "Preferred Resources requested")]
    asked = commands.json("place", "0", "--to", "host-2", "--no-wait")["request"]["uuid"]
    record = stream.set_config(AUTHOR, "app.run.id", "run-2")
    assert record.value is not None
    commands.store.put(record.namespace, record.key, record.value)
    for command in (("status",), ("status", "0"), ("locality",), ("explain", "0")):
        told = commands.run(*command).stderr
        assert asked in told, command
        assert "over: deployment run-1 ended; run-2 runs" in told, command
    assert [each["uuid"] for each in commands.json("locality")["over"]] == [asked]


def test_status_without_yarns_answer_shows_the_rest(commands: Any) -> None:
    commands.yarn = ResourceManager(["http://rm:8088"], fetch=away)
    document = commands.json("status", code=4)
    assert (document["yarn_unread"], document["unread"]) == (
        "http://rm:8088: Connection refused",
        None,
    )
    assert document["processors"]["0"]["host"] == "host-1"
    assert "YARN's ResourceManager can't be asked" in commands.run("status").stderr
    assert commands.run("place", "0", "--to", "host-2", "--no-wait").exit_code == 0


def test_verify_says_that_an_application_master_keeps_no_history(
    commands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_history, "read_history", lambda _connection: AuditHistory(()))
    given = ("verify", "--bootstrap-servers", "h:1", "--job-name", "j")
    shown = commands.run(*given)
    assert shown.exit_code == 0
    assert "Samza's own Application Master coordinates the job (deployment run-1)" in shown.stderr


def under_an_am(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cluster: Cluster | None = None
) -> list[Condition]:
    """What `doctor` finds of a job that an Application Master has deployed."""
    config = tmp_path / "job.properties"
    config.write_text(
        "job.name=j\njob.default.system=kafka\ntask.inputs=kafka.in\n"
        "systems.kafka.consumer.bootstrap.servers=h:1\n"
        "systems.kafka.producer.bootstrap.servers=h:1\n"
    )
    asked: list[str] = []

    def kept(_cluster: object, wanted: dict[str, int], _within_s: float) -> KeptTopics:
        asked.extend(wanted)
        well = {0: Partition((1,), (1,))}
        return KeptTopics((1,), {name: KeptTopic(name, well) for name in wanted})

    class Yarn:
        def cluster(self, *_: str) -> Cluster | None:
            return cluster

    monkeypatch.setattr(diagnosis, "read_deployed", lambda _: Deployed("run-9", None))
    monkeypatch.setattr(diagnosis, "partition_counts", lambda *_: {"in": 4})
    monkeypatch.setattr(diagnosis, "kept_topics", kept)
    monkeypatch.setattr(diagnosis, "resource_manager", lambda _: Yarn())
    if cluster is not None:
        monkeypatch.setenv("SAMZA_DAGSTER_YARN_RESOURCE_MANAGER", "http://rm:8088")
    found = list(diagnosis.report(config, Target(config=str(config)).connection()))
    assert all("samza_dagster" not in topic for topic in asked)
    assert "__transaction_state" not in asked
    return found


def test_doctor_asks_of_an_application_masters_job_nothing_that_only_ours_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No lease, no fence, no topic of ours: it would advise what nobody there would heed."""
    found = under_an_am(monkeypatch, tmp_path)
    assert "Samza's own Application Master, deployment run-9" in [each.seen for each in found]
    assert all(each.ok for each in found)
    told = " ".join(f"{each.check} {each.seen} {each.fix}" for each in found).lower()
    for word in ("lease", "fenc", "agent"):
        assert word not in told


@pytest.mark.parametrize(
    ("application", "ok"),
    [
        (Application("a1", "RUNNING"), True),
        (Application("a1", "FAILED", "FAILED"), False),
        (None, False),
    ],
)
def test_doctor_asks_yarn_for_the_application_and_the_nodes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, application: Application | None, ok: bool
) -> None:
    nodes = {"nm1": YarnNode("nm1", "RUNNING"), "nm2": YarnNode("nm2", "LOST")}
    found = under_an_am(monkeypatch, tmp_path, Cluster("http://rm:8088", nodes, application))
    by_check = {each.check: each for each in found}
    assert by_check["YARN runs the job"].ok is ok
    assert by_check["YARN has nodes that run"].ok
    assert by_check["YARN has nodes that run"].seen == "1 LOST, 1 RUNNING; not RUNNING: nm2"
