"""A bounce through Samza's messages alone, on a real topic, with the AM's recorded answers."""

from __future__ import annotations

import functools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from samza_dagster.metadata import KafkaCluster, ensure_topic
from samza_dagster.metadata.connection import Connection
from samza_dagster.model.naming import checkpoint_topic
from samza_dagster.orchestration.bounce import job as bouncing
from samza_dagster.orchestration.bounce.job import rolling_bounce_job
from samza_dagster.orchestration.operations import runs as bounce_runs
from samza_dagster.orchestration.operations.runner import Runner
from samza_dagster.orchestration.policies import PlacementPolicies
from samza_dagster.orchestration.resource import SamzaClientResource
from tests.rig.cockpit import PATIENCE_S
from tests.rig.pace import PACE
from tests.rig.recorded_am import JOB, MOST_FAILURES, NAMESPACE, WINDOW_S, Running, running
from tests.rig.topic_records import records_of
from tests.rig.waiting import until

pytestmark = pytest.mark.realcockpit

SETTINGS = {"canaries": 1, "bake_s": 0, "at_once": 2, "verify_timeout_s": 0, "lag_timeout_s": 0}


class Coordinated:
    """A job whose AM is Samza's, and bounces of it in this process."""

    def __init__(self, connection: Connection, am: Running, instance: dg.DagsterInstance) -> None:
        self.connection = connection
        self.instance = instance
        self.stops = am.stops

    def bounce(self) -> dg.ExecuteInProcessResult:
        """One, to its end."""
        defs = dg.Definitions(
            jobs=[rolling_bounce_job(f"{JOB}/1")],
            resources={
                "samza": SamzaClientResource(
                    bootstrap_servers=self.connection.bootstrap_servers, job_name=JOB, job_id="1"
                ),
                "samza_policies": PlacementPolicies(
                    request_expiry_s=60 * PACE, timeout_s=60 * PACE
                ),
            },
        )
        return defs.get_job_def(bounce_runs.NAME).execute_in_process(
            run_config={"ops": {"plan_bounce": {"config": SETTINGS}}},
            instance=self.instance,
            raise_on_error=False,
        )

    def topics(self) -> set[str]:
        return set(
            KafkaCluster(self.connection.bootstrap_servers).admin().list_topics(timeout=10).topics
        )


@pytest.fixture
def coordinated(bootstrap_servers: str, tmp_path: Path) -> Iterator[Coordinated]:
    """The AM is a process of its own, and lives to the end."""
    connection = Connection(bootstrap_servers, JOB)
    cluster = KafkaCluster(bootstrap_servers)
    ensure_topic(cluster, connection.coordinator_stream_topic)
    ensure_topic(cluster, checkpoint_topic(JOB, "1"))
    home = tmp_path / "dagster"
    home.mkdir()
    with (
        running(bootstrap_servers, tmp_path) as am,
        dg.DagsterInstance.local_temp(str(home)) as instance,
    ):
        yield Coordinated(connection, am, instance)


def test_samzas_own_am_is_bounced_through_its_messages_and_never_driven_to_its_limit(
    coordinated: Coordinated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four times all at once, and a fifth that waits: no processor comes near the row that ends the job."""
    for times in (1, 2, 3, 4):
        result = coordinated.bounce()
        assert result.success
        assert Counter(stop["processor"] for stop in coordinated.stops()) == dict.fromkeys(
            ("0-0", "1-0", "0", "1"), times
        )
    order = [stop["processor"] for stop in coordinated.stops()]
    assert {*order[:2]} == {*order[4:6]} == {"0-0", "1-0"}, "standbys go first"

    enough = threading.Event()

    def sleep(seconds: float) -> None:
        if enough.is_set():  # as Terminate does, which reaches a process and no thread
            raise dg.DagsterExecutionInterruptedError
        time.sleep(seconds)

    monkeypatch.setattr(bouncing, "Runner", functools.partial(Runner, sleep=sleep))
    fifth = threading.Thread(target=coordinated.bounce)
    fifth.start()
    run = until(
        "the fifth waits",
        lambda: next(iter(bounce_runs.runs_of(coordinated.instance, f"{JOB}/1", [STARTED])), None),
        seconds=PATIENCE_S,
    )
    until(
        "it says why",
        lambda: (
            "4 of the 8 stops in a row that Samza's AM lets pass are spent"
            in str([entry.user_message for entry in coordinated.instance.all_logs(run.run_id)])
        ),
        seconds=PATIENCE_S,
    )
    enough.set()
    fifth.join(60)
    assert not fifth.is_alive()
    stops = coordinated.stops()
    assert len(stops) == 16
    assert longest_row(stops) <= MOST_FAILURES

    kinds = {
        json.loads(key)[1]
        for key, _ in records_of(
            coordinated.connection, coordinated.connection.coordinator_stream_topic
        )
    }
    assert NAMESPACE in kinds
    assert coordinated.connection.state_topic not in coordinated.topics()


STARTED = dg.DagsterRunStatus.STARTED


def longest_row(stops: list[dict[str, Any]]) -> int:
    """The most stops of a processor, each within Samza's window of the one before."""
    longest = 0
    for processor in {stop["processor"] for stop in stops}:
        row, last = 0, float("-inf")
        for at in sorted(s["at"] for s in stops if s["processor"] == processor):
            row = row + 1 if at - last <= WINDOW_S else 1
            last = at
            longest = max(longest, row)
    return longest
