"""A rolling bounce under Samza's own Application Master, held against what its restarts take."""

from __future__ import annotations

import time

import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.yarn_job import Jobs, places, restarts

pytestmark = [pytest.mark.yarn, pytest.mark.longyarn, pytest.mark.nightyarn]
BAKE_S = 60
"""The default, as all else of the bounce here."""
DETECTED_S = 5.0
"""From a commit or a report until the next one is asked, the looks of a bounce and its broker's."""


def test_a_rolling_bounce_has_no_needless_second(
    sandbox: Sandbox, servers: str, client: PlacementClient, jobs: Jobs, judge: Judge
) -> None:
    """All four within a tenth of the sum of their restarts and the bake, by the topics' own times."""
    before = sandbox.yarn.processors()
    result = jobs.run("rolling_bounce")
    ended_ms = time.time_ns() // 1_000_000
    assert result.success
    after = sandbox.yarn.processors()
    assert places(sandbox) == {p: each["host"] for p, each in before.items()}
    executions = {p: str(each["execution_id"]) for p, each in after.items()}
    assert not set(executions.values()) & {each["execution_id"] for each in before.values()}
    connection = demo_job.connection(servers)
    tasks = {p: found.tasks for p, found in client.view().processors.items()}
    ran = restarts(connection, tasks, executions)
    for one in ran:
        print(f"{one.processor}: asked +{(one.asked_ms - ran[0].asked_ms) / 1000:.1f} s, {one.seconds:.1f} s")  # fmt: skip
    assert [one.processor.endswith("-0") for one in ran] == [True, True, False, False]
    took_s = (ended_ms - ran[0].asked_ms) / 1000
    sum_s = sum(one.seconds for one in ran)
    print(f"{took_s:.1f} s in all, restarts {sum_s:.1f} s, bake {BAKE_S} s")
    assert took_s <= 1.1 * (sum_s + BAKE_S)
    # Each was asked when the last of what it had to wait for was there.
    canary, second, *actives = ran
    assert second.asked_ms <= canary.works_ms + (BAKE_S + DETECTED_S) * 1000
    free_ms = 0
    for active in actives:
        standby = next(one for one in ran if one.processor == f"{active.processor}-0")
        if free_ms:
            assert active.asked_ms <= max(free_ms, standby.works_ms) + DETECTED_S * 1000
        free_ms = active.works_ms
    assert judge.judge(deadline_s=120).is_good
