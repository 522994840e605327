"""What YARN's ResourceManager says, by recorded answers and by odd ones."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.metadata.resource_manager import (
    HOLDS_S,
    Application,
    ResourceManager,
    parse_application,
    parse_attempt,
    parse_containers,
    parse_master,
    parse_nodes,
)

pytestmark = pytest.mark.unit

RECORDED = Path(__file__).parents[2] / "data" / "wire"


def body(name: str) -> bytes:
    """Of a recorded answer, behind its head."""
    return (RECORDED / f"{name}.http").read_bytes().replace(b"\r", b"").partition(b"\n\n")[2]


def recorded(name: str) -> Any:
    return json.loads(body(name))


def app(**changes: Any) -> dict[str, Any]:
    return {**recorded("rm-app")["app"], **changes}


@dataclass
class Web:
    """Answers by address; what isn't there is refused."""

    pages: dict[str, bytes | Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    now_s: float = 100.0

    def fetch(self, url: str) -> bytes:
        self.asked.append(url)
        page = self.pages.get(url.partition("?")[0], ConnectionRefusedError("Connection refused"))
        if isinstance(page, Exception):
            raise page
        return page

    def serve(self, address: str) -> None:
        self.pages[f"{address}/ws/v1/cluster/nodes"] = body("rm-nodes")
        self.pages[f"{address}/ws/v1/cluster/apps"] = json.dumps(
            {"apps": {"app": [app()]}}
        ).encode()

    def manager(self, *addresses: str) -> ResourceManager:
        return ResourceManager(addresses, fetch=self.fetch, monotonic=lambda: self.now_s)


def test_nodes_have_a_state_and_what_is_free() -> None:
    nodes, odd = parse_nodes(recorded("rm-nodes"))
    assert (sorted(nodes), odd) == (["nm1", "nm2", "nm3", "nm4"], ())
    assert (nodes["nm4"].state, nodes["nm4"].free_memory_mb, nodes["nm4"].free_cores) == (
        "RUNNING",
        2048,
        8,
    )
    assert (nodes["nm2"].memory_mb, nodes["nm2"].free_memory_mb) == (2048, 1024)
    assert not nodes["nm2"].is_gone


@pytest.mark.parametrize(
    ("state", "gone"),
    [("RUNNING", False), ("NEW", False), ("DECOMMISSIONING", False), ("UNHEARD_OF", False)]
    + [(s, True) for s in ("LOST", "UNHEALTHY", "DECOMMISSIONED", "REBOOTED", "SHUTDOWN")],
)
def test_a_node_is_gone_when_yarn_counts_its_containers_as_ended(state: str, gone: bool) -> None:
    nodes, _ = parse_nodes({"nodes": {"node": [{"nodeHostName": "a", "state": state}]}})
    assert (nodes["a"].state, nodes["a"].is_gone) == (state, gone)
    assert nodes["a"].free_memory_mb is None


def test_a_node_manager_that_was_started_anew_isnt_the_lost_one_that_it_was() -> None:
    """On another port it is another node of the same host, whichever comes first."""
    lost = {"id": "a:1", "nodeHostName": "a", "state": "LOST", "lastHealthUpdate": 9}
    runs = {"id": "a:2", "nodeHostName": "a", "state": "RUNNING", "lastHealthUpdate": 5}
    for several in ([lost, runs], [runs, lost]):
        assert parse_nodes({"nodes": {"node": several}})[0]["a"].state == "RUNNING"
    later = {**lost, "id": "a:3", "state": "DECOMMISSIONED", "lastHealthUpdate": 10}
    assert parse_nodes({"nodes": {"node": [later, lost]}})[0]["a"].state == "DECOMMISSIONED"


def test_nodes_that_cant_be_read_are_named_and_hide_no_other() -> None:
    several = [{"state": "RUNNING"}, {"nodeHostName": "b", "state": 7}, None, {"nodeHostName": "c", "state": "NEW"}]  # fmt: skip
    nodes, odd = parse_nodes({"nodes": {"node": several}})
    assert sorted(nodes) == ["c"]
    assert odd == ("node 0: no nodeHostName", "node b: no state", "node 2: no nodeHostName")


@pytest.mark.parametrize("nothing", [{"nodes": None}, {"nodes": {}}, {}, [], "x", None])
def test_a_cluster_without_nodes_or_applications_is_one(nothing: Any) -> None:
    assert parse_nodes(nothing) == ({}, ())
    assert parse_application(nothing, "yw_1") == (None, ())


def test_a_node_that_gave_more_than_it_has_has_nothing_free() -> None:
    node = {"nodeHostName": "a", "state": "RUNNING", "availMemoryMB": -512, "usedMemoryMB": 2560}
    assert parse_nodes({"nodes": {"node": node}})[0]["a"].free_memory_mb == 0


def test_a_jobs_application_has_its_name_and_id() -> None:
    found, odd = parse_application(recorded("rm-app"), "yw_1")
    assert odd == ()
    assert found == Application(
        id="application_1795262128546_0004",
        state="RUNNING",
        final_status="UNDEFINED",
        master_host="nm3",
        rpc_address="nm3:33257",
        tracking_url="http://localhost:18088/proxy/application_1795262128546_0004/",
        started_ms=1795264659188,
    )
    assert not found.has_ended
    assert parse_application(recorded("rm-app"), "yw_2") == (None, ())


def test_of_several_one_that_runs_counts_then_the_one_started_last() -> None:
    """A submission that failed at once doesn't hide the application that goes on."""
    old = app(id="a1", state="KILLED", startedTime=1)
    newer = app(id="a2", state="FAILED", startedTime=2)
    foreign = app(id="a3", applicationType="SPARK", startedTime=3)
    several = [newer, old, foreign]
    assert parse_application({"apps": {"app": several}}, "yw_1")[0].id == "a2"  # pyright: ignore[reportOptionalMemberAccess]
    several.append(app(id="a0", state="ACCEPTED", startedTime=0))
    assert parse_application({"apps": {"app": several}}, "yw_1")[0].id == "a0"  # pyright: ignore[reportOptionalMemberAccess]


def test_an_application_that_ended_says_how() -> None:
    told = app(id="a1", state="FAILED", finalStatus="FAILED", diagnostics="Container\n exited  with 1 ")  # fmt: skip
    told["amRPCAddress"], told["amHostHttpAddress"] = "N/A:-1", None
    found, _ = parse_application({"apps": {"app": [told]}}, "yw_1")
    assert found is not None
    assert found.has_ended
    assert (found.rpc_address, found.master_host) == ("", "")
    assert str(found) == "a1 is FAILED, final status FAILED: Container exited with 1"


def test_an_application_that_cant_be_read_is_named() -> None:
    assert parse_application({"apps": {"app": [app(state=None)]}}, "yw_1") == (
        None,
        ("application application_1795262128546_0004: no state",),
    )


def test_the_application_master_says_what_runs_where() -> None:
    assert parse_master(recorded("am-rpc-am")) == {
        "0": ("container_1795262128546_0004_01_000002", "nm1"),
        "0-0": ("container_1795262128546_0004_01_000005", "nm2"),
        "1": ("container_1795262128546_0004_01_000004", "nm2"),
        "1-0": ("container_1795262128546_0004_01_000003", "nm1"),
    }
    assert parse_master([]) == parse_master({"containers": {"c": None}}) == {}


def test_the_first_that_answers_as_active_is_asked() -> None:
    web = Web()
    web.serve("http://rm2:8088")
    web.pages["http://rm1:8088/ws/v1/cluster/nodes"] = b"This is standby RM. The redirect url is: /"
    cluster = web.manager("http://rm0:8088", "http://rm1:8088", "http://rm2:8088").cluster(
        "yw", "1"
    )
    assert (cluster.url, len(cluster.nodes)) == ("http://rm2:8088", 4)
    assert cluster.application is not None


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TimeoutError("timed out"), "timed out"),
        (http.client.BadStatusLine("SSH-2.0"), "SSH-2.0"),
        (http.client.IncompleteRead(b"{"), "IncompleteRead"),
        (ValueError("unknown url type"), "unknown url type"),
    ],
)
def test_one_that_doesnt_answer_is_named_with_why(error: Exception, told: str) -> None:
    web = Web()
    web.pages["http://rm1:8088/ws/v1/cluster/nodes"] = error
    with pytest.raises(
        Unreachable, match=r"http://rm1:8088: .*; http://rm2:8088: Connection"
    ) as raised:
        web.manager("http://rm1:8088", "http://rm2:8088").cluster("yw", "1")
    assert told in raised.value.seen


def test_a_page_that_no_stack_holds_is_no_answer() -> None:
    web = Web()
    web.pages["http://rm:1/ws/v1/cluster/nodes"] = b"[" * 100_000
    with pytest.raises(Unreachable, match="no active ResourceManager"):
        web.manager("http://rm:1").cluster("yw", "1")


@pytest.mark.parametrize("answers", [True, False])
def test_an_answer_holds_for_some_seconds_be_it_none(answers: bool) -> None:
    """All jobs of a cluster and all looks of a sensor ask once."""
    web = Web()
    if answers:
        web.serve("http://rm:1")
    manager = web.manager("http://rm:1")

    def ask(job: str) -> None:
        if answers:
            manager.cluster(job, "1")
        else:
            with pytest.raises(Unreachable):
                manager.cluster(job, "1")

    ask("yw")
    once = len(web.asked)
    web.now_s += HOLDS_S - 0.1
    ask("another")
    assert len(web.asked) == once
    web.now_s += 0.2
    ask("yw")
    assert len(web.asked) == 2 * once


def test_an_application_master_that_cant_be_reached_is_named() -> None:
    web = Web()
    running, _ = parse_application(recorded("rm-app"), "yw_1")
    assert running is not None
    with pytest.raises(Unreachable, match="http://nm3:33257/am: Connection refused"):
        web.manager("http://rm:1").containers(running)
    web.pages["http://nm3:33257/am"] = body("am-rpc-am")
    assert web.manager("http://rm:1").containers(running)["0"][1] == "nm1"
    with pytest.raises(Unreachable, match="a1 has none now"):
        web.manager("http://rm:1").containers(Application("a1", "ACCEPTED"))


APPLICATION = Application("application_1795262128546_0004", "RUNNING")
ATTEMPT = "appattempt_1795262128546_0004_000002"
ATTEMPTS = {
    "appAttempts": {
        "appAttempt": [
            {"id": 2, "appAttemptId": ATTEMPT},
            {"id": 1, "appAttemptId": "appattempt_1795262128546_0004_000001"},
        ]
    }
}
CONTAINERS = {
    "containers": {
        "container": [
            {"containerId": "c-1", "assignedNodeId": "nm1:8041", "containerState": "RUNNING"},
            {"containerId": "c-2", "assignedNodeId": "nm2:8041", "containerState": "COMPLETE"},
            {"assignedNodeId": "nm3:8041"},
        ]
    }
}


def test_the_containers_of_the_newest_attempt_are_those_that_run() -> None:
    """By the ResourceManager's own list; what has ended, or has no id, isn't there."""
    web = Web()
    of = f"http://rm:8088/ws/v1/cluster/apps/{APPLICATION.id}/appattempts"
    web.pages[of] = json.dumps(ATTEMPTS).encode()
    web.pages[f"{of}/{ATTEMPT}/containers"] = json.dumps(CONTAINERS).encode()
    assert web.manager("http://rm:8088").running(APPLICATION) == {"c-1": "nm1"}


def test_what_is_no_list_of_attempts_or_containers_has_none() -> None:
    assert (parse_attempt({}), parse_containers([])) == ("", {})
    web = Web()
    web.pages[f"http://rm:8088/ws/v1/cluster/apps/{APPLICATION.id}/appattempts"] = b"{}"
    with pytest.raises(Unreachable, match="no attempt"):
        web.manager("http://rm:8088").running(APPLICATION)
