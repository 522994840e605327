"""What a test that waits in vain tells of a Dagster: runs that haven't ended, and every thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
from fake_placement import fake_move_container

from tests.rig.stalls import stacks, that_dump, unfinished
from tests.rig.waiting import until

pytestmark = pytest.mark.dagster
SLEEPER = """
import threading, time

def who_waits_for_ever():
    threading.Event().wait()

threading.Thread(target=who_waits_for_ever, daemon=True).start()
print("up", flush=True)
who_waits_for_ever()
"""


def test_a_process_that_hangs_tells_where_each_of_its_threads_is(tmp_path: Path) -> None:
    """And goes on; one that has no handler isn't ended by being asked."""
    log = tmp_path / "daemon.log"
    for dumps in (True, False):
        environment = that_dump(os.environ) if dumps else dict(os.environ)
        with (
            log.open("ab") as out,
            subprocess.Popen(
                [sys.executable, "-c", SLEEPER], env=environment, stdout=out, stderr=out
            ) as process,
        ):
            try:
                until("it hangs", lambda: b"up" in log.read_bytes())
                if dumps:
                    until(
                        "both threads wait",
                        lambda pid=process.pid: (
                            stacks(pid, log).count("in who_waits_for_ever") == 2
                        ),
                    )
                else:
                    assert "doesn't dump" in stacks(process.pid, log)
                assert process.poll() is None
            finally:
                process.kill()
        log.unlink()
    assert "is gone" in stacks(process.pid, log)


def test_a_run_that_has_not_ended_is_told_with_its_tags(own_instance: dg.DagsterInstance) -> None:
    """One that was created and never queued as well."""
    config = {"ops": {"plan_move_container": {"config": {"processor": "0", "destination": "h"}}}}
    assert "none" in unfinished(own_instance)
    own_instance.create_run_for_job(
        fake_move_container(),
        run_config=config,
        tags={"a": "tag"},
        status=dg.DagsterRunStatus.SUCCESS,
    )
    assert "none" in unfinished(own_instance)
    run = own_instance.create_run_for_job(
        fake_move_container(), run_config=config, tags={"an": "other"}
    )
    told = unfinished(own_instance)
    assert f"{run.run_id} move_container NOT_STARTED, created" in told
    assert "'an': 'other'" in told
