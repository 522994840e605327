"""A new config over a running job: its containers are replaced, and nothing of the old stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from samza_dagster.metadata.job_metadata import JobMetadata
from tests.rig.job import Job, alive
from tests.rig.pace import PACE
from tests.rig.stream_model import job_model

pytestmark = pytest.mark.contract


@pytest.mark.longcontract
def test_a_changed_config_replaces_what_runs(job_of: Callable[..., Job]) -> None:
    """A plain key, then two actives to three and back: new run ids, no process of the old left,
    no store with two owners, and a coordinator stream that tells of the new JobModel alone.
    Behind a leader that lives it is refused, unless it is told to take over.
    """
    job = job_of("deploying", actives=2, memory_mb=4096)
    before = job.processors()
    deployments = [job.status()["deployment_id"]]
    for changes, actives in (
        ({"task.commit.ms": "5000"}, 2),
        ({"job.container.count": "3"}, 3),
        ({"job.container.count": "2"}, 2),
    ):
        older = job.coordinator
        assert older is not None
        job.properties |= changes
        job.configure()
        job.actives = actives
        job.start_coordinator()
        assert job.coordinator is not None
        assert job.coordinator.wait(timeout=20 * PACE) == 2  # a leader lives, with another config
        job.start_coordinator("--take-over", "now")
        assert older.wait(timeout=20 * PACE) == 1
        after = job.wait_until_running()
        deployments.append(job.status()["deployment_id"])
        assert not [p for p, c in before.items() if alive(c["pid"])], changes
        store = job.metadata()
        model = job_model(store)
        assert model.config["app.run.id"] == deployments[-1]
        assert set(model.containers) == set(after)
        assert set(JobMetadata(store).locality().processor_localities) <= set(after)
        for key, value in changes.items():
            assert model.config[key] == value
        store.close()
        before = after
    assert len(set(deployments)) == 4
    assert not [e for e in job.journal() if e["what"] == "VIOLATION"]
