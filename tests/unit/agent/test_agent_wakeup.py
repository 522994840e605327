"""When the agent looks at what its wardens should have ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.agent import procfs
from samza_dagster.agent.examination import LOOK_AGAIN_S, WARDEN_MARGIN_S
from samza_dagster.agent.incarnation import HostedIncarnation
from samza_dagster.agent.wakeup import sleep_s

pytestmark = pytest.mark.unit


def running() -> HostedIncarnation:
    """Whose warden and container live: this very process."""
    made = HostedIncarnation(
        Path("/nowhere/e1"),
        {"processor_id": "0", "sequence": 1, "store_directories": [], "stop_grace_s": 1.0},
    )
    me = procfs.name_of(os.getpid())
    assert me is not None
    made.warden = made.container = procfs.ProcessHandle(me)
    return made


@given(left_s=st.floats(-WARDEN_MARGIN_S, 3_600.0, exclude_min=True))
def test_the_second_killer_looks_within_one_look_of_its_margin(left_s: float) -> None:
    """However it slept before: `lease.bound.ms` of the coordinator counts on it."""
    live = [running()]
    while left_s > -WARDEN_MARGIN_S:
        left_s -= sleep_s(live, left_s, looked_at=0.0, now=0.0)
    assert left_s >= -(WARDEN_MARGIN_S + LOOK_AGAIN_S) - 1e-6


def test_a_deadline_that_passes_after_the_look_is_not_slept_over() -> None:
    """On a busy host a container that was due to be killed went on for five seconds more."""
    late = running()
    late.kill_at = 10.0
    assert sleep_s([late], None, looked_at=9.999, now=10.001) == 0.0


def test_a_deadline_that_was_acted_on_ends_no_sleep() -> None:
    """Else the agent would look without end at one that hangs in the kernel."""
    given_up = running()
    given_up.give_up_at = 10.0
    assert sleep_s([given_up], None, looked_at=10.0, now=10.001) > 1.0
