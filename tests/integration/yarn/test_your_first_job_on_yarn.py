"""`docs/howto/your-first-job.md` on YARN: an empty directory, brokers without a topic, Samza's own Application Master."""

from __future__ import annotations

from pathlib import Path

import pytest

from samza_dagster.sandbox import process
from samza_dagster.sandbox.broker import Broker
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.yarn.cluster import YarnCluster
from samza_dagster.sandbox.yarn.job import YarnJob
from tests.rig.kafka_tools import put_on_path
from tests.rig.pace import PACE
from tests.rig.pages import follow, script, with_one_deployment

pytestmark = pytest.mark.firstjob


def test_a_new_job_runs_under_samzas_own_application_master(tmp_path: Path) -> None:
    """Its package is as *Hello Samza* unpacks it: `deploy/samza`, with Samza's scripts in `bin`."""
    spawned: list[ProcessRecord] = []
    own = tmp_path / "own"
    own.mkdir()
    try:
        with Broker(tmp_path / "broker") as broker:
            servers = broker.bootstrap_servers
            cluster = YarnCluster(
                tmp_path / "yarn",
                ("nm1", "nm2"),
                servers=servers,
                # A user's YARN, whose own default this is: the sandbox's 20 s are for lost hosts.
                settings={"yarn.am.liveness-monitor.expiry-interval-ms": "600000"},
                on_spawn=spawned.append,
            )
            cluster.start()
            YarnJob(cluster, {}, {}).write_scripts(own / "deploy" / "samza")
            page = script(
                with_one_deployment("Under Samza's own Application Master, on YARN"),
                {"localhost:9092": servers, "http://localhost:8088": cluster.url},
            )
            path = put_on_path(tmp_path / "tools")
            said = follow(page, own, path, 400 * PACE)
            assert "Samza's own Application Master" in said
            assert "YARN runs the job" in said
            # `unshare` heeds no SIGTERM, and each host's processes are killed as it ends.
            process.stop_all(spawned, grace_s=0.0)
    finally:
        process.stop_all(spawned, grace_s=0.0)
