"""Job zero/0 beside zero/1 on one broker: whoever names the one never asks the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import dagster as dg
import pytest

from samza_dagster import SamzaJobComponent
from samza_dagster.model.placement_messages import REQUEST
from tests.contract.client.conftest import KafkaJob

pytestmark = pytest.mark.contract


@pytest.fixture(scope="module")
def jobs(bootstrap_servers: str) -> Iterator[tuple[KafkaJob, KafkaJob]]:
    """Both are deployed, and look alike."""
    made = KafkaJob(bootstrap_servers, "zero", "0"), KafkaJob(bootstrap_servers, "zero", "1")
    yield made
    for job in made:
        job.store.close()


def ends(jobs: tuple[KafkaJob, KafkaJob]) -> list[int]:
    return [job.end() for job in jobs]


def request_at(job: KafkaJob, offset: int) -> bool:
    key, _ = job.raw(offset)
    return REQUEST in str(key)


def command(
    *arguments: str, module: str = "main", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Of a shell in which nothing else names a job."""
    kept = {name: text for name, text in os.environ.items() if "SAMZA_DAGSTER_" not in name}
    return subprocess.run(
        [sys.executable, "-m", f"samza_dagster.cli.{module}", *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("written", ["0", "{{ env('ZERO') }}"])
def test_a_component_of_id_zero_restarts_a_container_of_that_job(
    jobs: tuple[KafkaJob, KafkaJob], written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was the one of id 1: a bounce restarted another job's containers."""
    monkeypatch.setenv("ZERO", "0")
    quoted = f'"{written}"' if "{" in written else written
    path = tmp_path / "job.yaml"
    path.write_text(
        "type: samza_dagster.SamzaJobComponent\nattributes:\n"
        f"  bootstrap_servers: {jobs[0].bootstrap_servers}\n  app_name: zero\n  app_id: {quoted}\n"
    )
    component = SamzaJobComponent.from_file(path)
    assert component.tag == "zero/0"
    before = ends(jobs)
    config = {"processor": "0", "timeout_s": 1}
    done = (
        dg.build_defs_for_component(component)
        .resolve_job_def("restart_container")
        .execute_in_process(
            run_config={"ops": {"plan_restart_container": {"config": config}}},
            raise_on_error=False,
        )
    )
    assert not done.success  # nobody coordinates it
    assert request_at(jobs[0], before[0])
    assert ends(jobs)[1] == before[1]


PROPERTIES = """
job.name=zero
job.id=0
job.default.system=kafka
systems.kafka.consumer.bootstrap.servers={servers}
"""


@pytest.mark.parametrize("by", ["flags", "environment", "properties", "place-container"])
def test_a_command_asks_the_job_of_id_zero(
    jobs: tuple[KafkaJob, KafkaJob], by: str, tmp_path: Path
) -> None:
    """Wherever its id is said."""
    servers = jobs[0].bootstrap_servers
    properties = tmp_path / "job.properties"
    properties.write_text(PROPERTIES.format(servers=servers))
    asked = ["place", "1", "--to", "LAST_SEEN", "--no-wait"]
    flags = ["--bootstrap-servers", servers, "--job-name", "zero", "--job-id", "0"]
    environment: Mapping[str, str] = {}
    module = "main"
    if by == "environment":
        flags = []
        environment = {
            "SAMZA_DAGSTER_BOOTSTRAP_SERVERS": servers,
            "SAMZA_DAGSTER_JOB_NAME": "zero",
            "SAMZA_DAGSTER_JOB_ID": "0",
        }
    elif by == "properties":
        flags = ["--config", str(properties)]
    elif by == "place-container":
        module = "place_container"
        asked = ["--deployment-id", "run-1", "--processor-id", "1", "--destination-host", "nm2"]
        flags = ["--bootstrap-servers", servers, "--app-name", "zero", "--app-id", "0"]
    before = ends(jobs)
    done = command(*asked, *flags, module=module, **environment)
    assert done.returncode == 0, done.stderr
    assert request_at(jobs[0], before[0])
    assert ends(jobs)[1] == before[1]
    if by == "environment":
        shown = json.loads(command("status", "--json", *flags, **environment).stdout)
        assert (shown["job_name"], shown["job_id"]) == ("zero", "0")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_is_not_utf_8_is_told_all_the_same(
    jobs: tuple[KafkaJob, KafkaJob], encoding: str
) -> None:
    """Its plan has an arrow, which ended in a traceback."""
    flags = ["--bootstrap-servers", jobs[0].bootstrap_servers, "--job-name", "zero"]
    done = command("explain", "0", *flags, PYTHONIOENCODING=encoding)
    assert done.returncode in (0, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert "nm1" in done.stdout
