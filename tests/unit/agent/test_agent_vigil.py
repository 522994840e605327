"""When the agent looks at what its wardens should have ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.agent import procfs
from samza_dagster.agent.examination import LOOK_AGAIN_S, WARDEN_MARGIN_S
from samza_dagster.agent.incarnation import Incarnation
from samza_dagster.agent.vigil import sleep_s

pytestmark = pytest.mark.unit


def running() -> Incarnation:
    """Whose warden and container live: this very process."""
    made = Incarnation(
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
        left_s -= sleep_s(live, left_s, now=0.0)
    assert left_s >= -(WARDEN_MARGIN_S + LOOK_AGAIN_S) - 1e-6
