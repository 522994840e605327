"""The state topic's records, as the leading coordinator writes them, become a view."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from samza_dagster.client.state_source import decode_state
from samza_dagster.errors import InvalidInput, MalformedRecord
from samza_dagster.placement import codec
from samza_dagster.placement.state import JobState, Limits, Phase

pytestmark = pytest.mark.unit


def records_of(state: Any) -> dict[str, Any]:
    job = JobState(job="yw", deployment_id=state.deployment_id, limits=Limits(512, 2))
    return {
        "leader": {
            "version": 1,
            "epoch": 3,
            "coordinator_url": "http://127.0.0.1:1/",
            "since_ms": 1,
        },
        "job": {"version": 1, "state": codec.job_to_json(job)},
        "uuid/88b0d30c-d518-4307-9e8e-c8529eb30f04": {"version": 1, "at_ms": 5},
        "host/host-1": {
            "version": 1,
            "host": "host-1",
            "alive": False,
            "fault_domain": "rack-7",
            "yarn_state": "",
            "memory_mb": 1024,
            "cores": 4,
            "free_memory_mb": 640,
            "free_cores": 3,
        },
        **{
            f"group/{key}": {"version": 1, "epoch": 3, "group": codec.group_to_json(group)}
            for key, group in state.groups.items()
        },
        "outcome/reserved": {"version": 1},
    }


def test_every_record_is_understood(job: Any) -> None:
    """Groups through the reducer's own codec, hosts with their free resources."""
    state = job.led_by_ours()
    decoded = decode_state(records_of(state))
    assert decoded is not None
    assert decoded.groups == state.groups
    assert decoded.limits.container_memory_mb == 512
    assert decoded.hosts["host-1"].to_json() == {
        "host": "host-1",
        "state": "lost",
        "memory_mb": 1024,
        "free_memory_mb": 640,
        "cores": 4,
        "free_cores": 3,
        "fault_domain": "rack-7",
        "yarn_state": "",
    }
    assert decoded.uuids == {"88b0d30c-d518-4307-9e8e-c8529eb30f04"}


def test_a_topic_without_a_job_is_no_coordinator() -> None:
    """Created, but nobody has led yet."""
    assert decode_state({}) is None
    assert decode_state({"leader": {"version": 1}}) is None


def test_a_record_that_cant_be_read_is_named(job: Any) -> None:
    """Its key and its field: to guess would show a wrong host as free."""
    records = records_of(job.led_by_ours())
    records["group/0"]["group"]["processors"]["0"]["phase"] = "dancing"
    with pytest.raises(MalformedRecord, match=r"key group/0: .*phase.*dancing"):
        decode_state(records)


def test_a_processor_without_a_process_holds_no_host(job: Any) -> None:
    """Its last host is free for its peer; a restart by LAST_SEEN still goes there."""
    state = job.led_by_ours()
    group = state.groups["0"]
    waiting = replace(group.processors["0-0"], phase=Phase.WAITING, incarnation=None)
    group = replace(group, processors={**group.processors, "0-0": waiting})
    job.led_by_ours(groups={**state.groups, "0": group})
    client = job.client()
    assert client.view().processors["0-0"].host is None
    assert client.plan("0", "host-3").refusal is None
    assert client.plan("0-0", "LAST_SEEN").host == "host-3"


def test_a_processor_that_the_deployment_no_longer_has_is_shown_and_refused(job: Any) -> None:
    """Its process may live still, so its host counts as taken; it can't be placed."""
    state = job.led_by_ours()
    group = state.groups["0"]
    leaving = replace(group.processors["0-0"], wanted=False)
    group = replace(group, processors={**group.processors, "0-0": leaving})
    job.led_by_ours(groups={**state.groups, "0": group})
    client = job.client()
    assert client.view().processors["0-0"].state == "leaving"
    with pytest.raises(InvalidInput, match="processors 0, 1, 1-0"):
        client.place("0-0", "host-5")
    assert client.plan("0", "host-3").refusal is not None
