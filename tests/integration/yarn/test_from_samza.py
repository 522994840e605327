"""`docs/howto/from-samza.md`, run as it is written, on a job under Samza's own Application Master."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from samza_dagster.metadata import KafkaCluster
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.pace import PACE
from tests.rig.pages import HOW_TOS, ROOT, follow, script
from tests.rig.recorded_am import NAMESPACE
from tests.rig.topic_records import records_of

pytestmark = [pytest.mark.yarn, pytest.mark.longyarn, pytest.mark.nightyarn]

_UNTIL_BOUNCED = """
python -c '
import time, dagster as dg
runs = dg.RunsFilter(job_name="rolling_bounce")
while not any(run.is_finished for run in dg.DagsterInstance.get().get_runs(runs)):
    time.sleep(1)
'
"""


def test_the_page_does_what_it_says(
    sandbox: Sandbox, servers: str, judge: Judge, tmp_path: Path
) -> None:
    """Moved, bounced by its schedule, and left: of ours nothing stays but what the page names."""
    before = sandbox.status()["processors"]
    topics = set(KafkaCluster(servers).admin().list_topics(timeout=10).topics)
    page = script(
        (HOW_TOS / "from-samza.md").read_text(),
        {
            "make setup && . .venv/bin/activate": f"make -C {ROOT} setup",
            "broker-1:9092": servers,
            "orders": demo_job.JOB_NAME,
            "30 3 * * *": "* * * * *",  # the next morning is a minute away
            # This job is a minute old, and its containers report once a minute.
            "samza-dagster lag\n": "until samza-dagster lag; do sleep 1; done\n",
            "samza-dagster status 0-0": f"{_UNTIL_BOUNCED}\nsamza-dagster status 0-0",
        },
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    follow(page, tmp_path, path, 360 * PACE)
    after = sandbox.status()["processors"]
    assert after["0"]["host"] == before["0-0"]["host"]
    assert after["0-0"]["host"] not in (before["0"]["host"], before["0-0"]["host"])
    assert after["1"]["execution_id"] == before["1"]["execution_id"], "nobody else was touched"
    assert judge.judge(deadline_s=90).is_good

    connection = demo_job.connection(servers)
    stream = records_of(connection, connection.coordinator_stream_topic)
    newest = dict(stream)
    left = [json.loads(v) for key, v in newest.items() if v and json.loads(key)[1] == NAMESPACE]
    # The answers by which the stops of the last minutes are counted, and no request.
    assert {one["statusCode"] for one in left} <= {"SUCCEEDED"}
    assert {one["processorId"] for one in left} <= {"0", "0-0"}
    assert set(KafkaCluster(servers).admin().list_topics(timeout=10).topics) == topics
    assert not (tmp_path / "dagster-home").exists()
