"""`docs/howto/yarn.md`, run as it is written: from Samza's own Application Master to ours and back."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.judge import Judge
from tests.rig.pace import PACE
from tests.rig.pages import HOW_TOS, follow, script
from tests.rig.waiting import until
from tests.rig.yarn_job import places, yarn_sandbox

pytestmark = [pytest.mark.yarn, pytest.mark.longyarn, pytest.mark.nightyarn]

FLAGS = """--config job.properties --launch launch.json \\
  --cluster yarn --hadoop-conf /etc/hadoop/conf --node-directory /var/lib/samza-dagster"""


def test_the_page_goes_over_to_ours_and_back_with_the_state_kept(tmp_path: Path) -> None:
    settings = {"metrics.reporter.snapshot.interval": "5"}
    with yarn_sandbox(tmp_path / "sandboxes", settings=settings) as box:
        servers, before = str(box.status()["bootstrap_servers"]), places(box)
        judge = Judge(servers)
        commands = script(
            (HOW_TOS / "yarn.md").read_text(),
            {
                FLAGS: "",  # the sandbox's
                "orders_1": f"{demo_job.JOB_NAME}_{demo_job.JOB_ID}",
                " --config-path=$PWD/yarn.properties": "",
            },
        )
        directory, tools = tmp_path / "own", Path(sys.executable).parent
        directory.mkdir()
        page = directory / "page.sh"
        page.write_text(commands)
        said = follow(
            f"samza-dagster sandbox exec --name {box.registry.name} bash {page}",
            directory,
            f"{tools}:{os.environ['PATH']}",
            400 * PACE,
            SAMZA_DAGSTER_HOME=str(tmp_path),
            **demo_job.environment(servers),
        )
        assert "0: would start on " + before["0"] in said
        assert "4 containers stopped: the job has ended" in said
        until("Samza's own runs it again", lambda: places(box) == before, seconds=120)
        verdict = judge.judge(deadline_s=120 * PACE)
        assert verdict.is_good, verdict
        judge.close()
