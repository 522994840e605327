"""Coordinator stream, YARN and Application Master held against each other."""

from __future__ import annotations

import pytest

from samza_dagster.metadata.resource_manager import Cluster, YarnNode
from samza_dagster.orchestration.assets.yarn_locality import reconciled

pytestmark = pytest.mark.unit

CLUSTER = Cluster(
    "http://rm:8088",
    {n: YarnNode(n, "LOST" if n == "nm3" else "RUNNING") for n in ("nm1", "nm2", "nm3")},
    None,
)


@pytest.mark.parametrize(
    ("stream", "master", "differences"),
    [
        ({"0": "nm1"}, {"0": ("c1", "nm1")}, [""]),
        (
            {"0": "nm1"},
            {"0": ("c1", "nm2")},
            ["it runs on nm2, and reported nm1 last"],
        ),
        ({"0": None}, {"0": ("c1", "nm2")}, ["it runs on nm2, and reported no host last"]),
        (
            {"0": "nm1", "0-0": "nm2"},
            {"0": ("c1", "nm1")},
            ["", "its Application Master runs no container of it"],
        ),
        ({}, {"7": ("c1", "nm1")}, ["it runs on nm1, and reported no host last"]),
        ({"0": "nm3"}, None, ["node nm3 is LOST"]),
        ({"0": "nm9"}, None, ["YARN has no node nm9"]),
        (
            {"0": "nm3"},
            {},
            ["its Application Master runs no container of it; node nm3 is LOST"],
        ),
        ({"0": None}, None, [""]),
    ],
    ids=[
        "all agree",
        "the stream is behind",
        "it has reported nothing yet",
        "one doesn't run",
        "nobody assigned it a task",
        "its node is lost",
        "its host has another name for YARN",
        "it doesn't run, and its node is lost",
        "nobody knows a host",
    ],
)
def test_each_difference_is_named(
    stream: dict[str, str | None],
    master: dict[str, tuple[str, str]] | None,
    differences: list[str],
) -> None:
    assert [row["difference"] for row in reconciled(stream, CLUSTER, master)] == differences
