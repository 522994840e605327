"""Rolling bounces of real containers, their Dagster killed part by part.

Judged by others: the agents' records and the kernel tell who was down and who runs anew, a
consumer of its own what is missing. Nothing that the run says of itself counts.
"""

from __future__ import annotations

import time

import pytest

from tests.integration.cockpit.conftest import AT_ONCE, SCHEDULE
from tests.rig.bounce_judge import BounceJudge
from tests.rig.cockpit import Cockpit
from tests.rig.job import kill

pytestmark = pytest.mark.realcockpit

GROUP_0, GROUP_1 = ["0-0", "0"], ["1-0", "1"]


def test_a_cron_bounce_of_all_goes_on_while_the_daemon_dies_and_is_started_again(
    ready: Cockpit,
) -> None:
    """One run for the tick, each container bounced once, standbys first, never more than two down."""
    everybody = sorted(ready.job.processors())
    with BounceJudge(ready) as judge, ready.schedule(f"bounce_{SCHEDULE}") as ticks:
        root = ready.until("a tick launched a bounce", lambda: ready.bounces_since(judge.began))[0]
        judge.until_down(2)
        ready.kill("daemon")
        judge.until_down(3)
        again = time.time()
        ready.stack.restart("daemon")
        ready.until_ready(since=again)
        ticks.stop()
        ready.until_bounce(root, "done")
    judge.expect(everybody, at_once=AT_ONCE)
    assert [tick["runIds"] for tick in ticks.told() if tick["runIds"]] == [[root]]
    assert ready.bounces_since(judge.began) == [root]


def test_a_bounce_whose_worker_is_killed_or_terminated_is_gone_on_with(ready: Cockpit) -> None:
    """kill -9 with the standby down: Dagster's own retry follows it and does the rest. A terminate
    over GraphQL with the active down: it comes back by itself, a re-execution finds it back.
    """
    with BounceJudge(ready) as judge:
        root = ready.bounce(only=GROUP_0, at_once=AT_ONCE, canaries=0)
        judge.until_down(1)
        killed = ready.bounce_of(root).run_id
        kill(ready.worker_of(killed))

        judge.until_down(2)
        retried = ready.bounce_of(root)
        assert retried.tags["dagster/retry_number"]
        assert retried.run_id != killed
        ready.runs.terminate(retried.run_id)
        ended = ready.until_bounce(root, "terminated")
        assert (ended.run_id, ended.status.value) == (retried.run_id, "CANCELED")
        assert [(row.processor, row.status.value) for row in ready.recorded(root)] == [
            ("0-0", "back")
        ]
        ready.until_all_run()
        ready.until_nothing_is_held()

        ready.re_execute(retried.run_id)
        ready.until_bounce(root, "done")
    judge.expect(GROUP_0, at_once=1)
    assert judge.requests() == {"0-0": 1, "0": 1}


def test_a_bounce_outlives_the_code_server(ready: Cockpit) -> None:
    """kill -9 of the code server with the standby down, which comes back all the same."""
    with BounceJudge(ready) as judge:
        root = ready.bounce(only=GROUP_1, at_once=AT_ONCE, canaries=0)
        judge.until_down(1)
        with judge.held_in_flight("1-0"):
            ready.kill("code-server")
            ready.stack.restart("code-server")
        ready.until_ready()
        ready.until_bounce(root, "done")
    judge.expect(GROUP_1, at_once=1)
    assert judge.requests() == {"1-0": 1, "1": 1}
