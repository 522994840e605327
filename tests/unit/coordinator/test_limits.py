"""The job's settings: bounds, older names, and a page that names every one of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.agent.examination import LOOK_AGAIN_S, WARDEN_MARGIN_S
from samza_dagster.coordinator.deployment import fingerprint
from samza_dagster.coordinator.limits import (
    FAIL_JOB,
    FAULT_DOMAINS,
    FENCING,
    HOST_AFFINITY,
    LEASE_BOUND,
    PARKED_STARTS,
    SETTINGS,
    UNLIMITED,
    Setting,
    knows_fault_domains,
    limits_of,
    parks_starts,
)
from samza_dagster.errors import InvalidInput
from samza_dagster.placement.state import Fencing

pytestmark = pytest.mark.unit


KILL_S = 0.5
"""Within which the kernel has ended a process group after SIGKILL, on a busy machine."""

PACKAGE = Path(__file__).parents[3] / "samza_dagster"


def test_every_setting_is_described() -> None:
    """By the page of reference: each number, and each other name of ours that stands in the code."""
    docs = PACKAGE.parent / "docs"
    keys = re.findall(r"^\| `([^ `,]+)", (docs / "reference/settings.md").read_text(), re.MULTILINE)
    assert {setting.key for setting in SETTINGS} <= set(keys)
    assert len(keys) == len(set(keys))
    named = {
        name
        for file in PACKAGE.rglob("*.py")
        for name in re.findall(r'"(samza\.dagster\.[a-z.]*[a-z])"', file.read_text())
    }
    page = (docs / "howto/standalone.md").read_text()
    others = named - set(keys)
    assert all(name.startswith("samza.dagster.standalone.") for name in others)
    assert {name for name in others if f"`{name}`" not in page} == set()
    for key in (HOST_AFFINITY, FAIL_JOB, FAULT_DOMAINS, FENCING, PARKED_STARTS):
        assert key in keys


def test_samzas_own_and_older_names_are_read() -> None:
    """The newer one wins; -1 retries never flap."""
    limits = limits_of(
        {
            "yarn.container.memory.mb": "300",
            "yarn.container.cpu.cores": "2",
            "cluster-manager.container.cpu.cores": "3",
            "cluster-manager.container.retry.count": "-1",
            "yarn.samza.host-affinity.enabled": "true",
        }
    )
    assert (limits.container_memory_mb, limits.container_cores) == (300, 3)
    assert limits.retry_count == UNLIMITED
    assert limits.host_affinity
    assert limits_of({"cluster-manager.container.retry.count": "3"}).retry_count == 3


@given(st.sampled_from(SETTINGS), st.text(max_size=12) | st.integers().map(str))
def test_any_value_is_a_number_in_bounds_or_refused_by_name(setting: Setting, text: str) -> None:
    """Nothing else comes out of a config."""
    try:
        value = setting.of({setting.key: text})
    except InvalidInput as error:
        value, asked = None, error.asked
    else:
        asked = setting.key
    assert setting.key in asked
    assert value is None or setting.least <= value <= setting.most


def test_fencing_is_one_of_two_words() -> None:
    """Whoever relies on a fence must not get less by a typing error."""
    assert limits_of({FENCING: " Broker"}).fencing is Fencing.BROKER
    with pytest.raises(InvalidInput, match="brokers") as raised:
        limits_of({FENCING: "brokers"})
    assert f"{FENCING}=lease" in raised.value.fix


def test_starts_are_parked_unless_it_is_turned_off() -> None:
    """By the word alone."""
    assert parks_starts({})
    assert not parks_starts({PARKED_STARTS: "False "})


def test_fault_domains_count_unless_they_are_turned_off() -> None:
    """An agent that names one means it."""
    assert knows_fault_domains({})
    assert not knows_fault_domains({FAULT_DOMAINS: "false"})


def test_what_no_container_reads_makes_no_new_deployment() -> None:
    """Run id and coordinator's settings; any other key does."""
    config = {"job.name": "j", "a": "1"}
    same = {**config, "app.run.id": "x", "samza.dagster.lease.ms": "9000"}
    assert fingerprint(config) == fingerprint(same)
    assert fingerprint(config) != fingerprint({**config, "a": "2"})


def test_no_successor_is_released_before_an_agent_has_killed_what_a_hung_warden_did_not() -> None:
    """The warden alone is stopped, the host cut off: the agent kills a margin after the lease."""
    second_killer_s = WARDEN_MARGIN_S + LOOK_AGAIN_S + KILL_S
    assert LEASE_BOUND.least >= second_killer_s * 1000
    assert LEASE_BOUND.default > LEASE_BOUND.least, "some is left for clocks that run apart"
    with pytest.raises(InvalidInput, match=r"lease\.bound\.ms"):
        limits_of({LEASE_BOUND.key: "1000"})
