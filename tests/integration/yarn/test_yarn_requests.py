"""Requests of all kinds in random order to a real Application Master, two at a time, judged by outsiders.

`make test-yarn-requests REQUESTS=100 SEED=3`. In between the Application Master is killed, and a
node with its containers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest

from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.chaos.am_judge import Rest, problems
from tests.chaos.am_requests import drawn
from tests.rig.am_asking import Asking, Witness, at_rest, attempts_of, read_stream
from tests.rig.waiting import until
from tests.rig.yarn_job import Jobs, yarn_sandbox

# Two runs at a time that capture their output would leave this process without its own.
UNCAPTURED = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}
pytestmark = [pytest.mark.yarn, pytest.mark.longyarn, pytest.mark.nightyarn]
REQUESTS, SEED = int(os.environ.get("REQUESTS", "25")), int(os.environ.get("SEED", "1"))
ACTIVES = 2
MANY_STOPS = {"cluster-manager.container.retry.count": "60"}
"""By Samza's default of 8 a container that is placed each half minute is soon refused any more."""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A node more than the others have: one is lost, and requests still have a choice."""
    root = tmp_path_factory.mktemp("sandboxes")
    with yarn_sandbox(root, actives=ACTIVES, hosts=5, settings=MANY_STOPS) as box:
        yield box


def test_the_application_master_survives_all_requests_and_every_word_is_true(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """The job goes on, nothing waits for an answer that can't come, and no record is lost."""
    facts = sandbox.status()
    servers, yarn = str(facts["bootstrap_servers"]), str(facts["resource_manager"])
    connection = demo_job.connection(servers)

    asks = drawn(SEED, REQUESTS, actives=ACTIVES, hosts=sorted(facts["hosts"]))
    print(f"{len(asks)} requests and faults by seed {SEED}", flush=True)
    with (
        closing(PlacementClient(connection)) as client,
        closing(Judge(servers)) as judge,
        closing(Witness(sandbox)) as witness,
        dg.DagsterInstance.local_temp(str(tmp_path), overrides=UNCAPTURED) as instance,
    ):
        # A first AM that a busy machine keeps from registering in time is none of the requests' doing.
        earlier = attempts_of(sandbox)

        def resting() -> Rest:
            return at_rest(sandbox, client, earlier=earlier)

        until("the witness has seen all", lambda: len(witness.processes()) == 2 * ACTIVES)
        jobs = {False: Jobs(servers, instance), True: Jobs(servers, instance, yarn=yarn)}
        asking = Asking(sandbox, connection, jobs, ACTIVES)
        with ThreadPoolExecutor(2) as two:
            words = list(two.map(asking.ask, asks))
        # What the last ones have asked may still be told, and written, by the containers.
        until("nothing waits", lambda: not resting().waits, seconds=120)
        until("all show where they are", lambda: (rest := resting()).shown == rest.there, seconds=60)  # fmt: skip
        rest = resting()
        told = problems(words, witness.processes(), asking.faults, read_stream(connection), rest)
        verdict = judge.judge(deadline_s=180)
    for outcome in sorted({word.outcome for word in words}):
        print(f"{outcome}: {sum(word.outcome is outcome for word in words)}")
    assert told == [], f"seed {SEED}:\n" + "\n".join(told)
    assert sandbox.status()["application"] == facts["application"]
    assert verdict.is_good, (SEED, verdict)
