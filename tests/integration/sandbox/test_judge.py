"""The judge on real topics, with every fault put there by hand."""

from __future__ import annotations

from contextlib import closing

import pytest

from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.load import fill
from samza_dagster.sandbox.load_plan import LoadPlan
from tests.integration.sandbox.conftest import put_out
from tests.rig.pace import PACE

pytestmark = pytest.mark.integration

PLAN = LoadPlan(keys=400, partitions=4)


def test_what_is_lost_late_repeated_or_made_up_is_told_apart(broker: Broker) -> None:
    """It reads on from where it stood; at-least-once processing repeats what it hadn't committed."""
    servers = broker.bootstrap_servers
    demo_job.make_all(servers)
    assert fill(servers, PLAN) == 800
    with closing(Judge(servers)) as judge:
        put_out(servers, PLAN, range(398))
        lost = judge.judge(deadline_s=2)
        assert not lost.is_good
        assert (lost.completed, lost.outputs, lost.missing) == (400, 398, 2)
        assert "partition 2 key 00000398." in lost.missing_examples[0]

        put_out(servers, PLAN, range(398, 400))
        late = judge.judge(deadline_s=10 * PACE)
        assert (late.is_good, late.inputs) == (True, 800)

        put_out(servers, PLAN, range(5))
        twice = judge.judge(deadline_s=10 * PACE)
        assert (twice.is_good, twice.duplicates) == (True, 5)

        put_out(servers, PLAN, range(1), epoch=7)  # which was never sent
        made_up = judge.judge(deadline_s=2)
        assert (made_up.is_good, made_up.unexplained) == (False, 1)
