"""A coordinator that takes over from one that runs, and the job's end in order. In this order."""

from __future__ import annotations

import subprocess

import pytest

from samza_dagster.errors import Fenced
from samza_dagster.sandbox import process
from samza_dagster.sandbox.judge import Judge
from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.job import alive
from tests.rig.ours_on_yarn import (
    CONTAINERS,
    agents,
    all_run,
    application,
    coordinator,
    coordinator_elsewhere,
    pids,
    running,
    undisturbed,
)
from tests.rig.pace import PACE
from tests.rig.waiting import until

pytestmark = [pytest.mark.yarn, pytest.mark.longyarn]


def test_a_coordinator_that_takes_over_fences_the_leader_and_gets_agents_of_its_own(
    sandbox: Sandbox, judge: Judge
) -> None:
    """It has another address, and agents know one alone: their containers live on."""
    before, leader = agents(sandbox), coordinator(sandbox)
    whole = running(sandbox)
    with undisturbed(sandbox):
        next_one = coordinator_elsewhere(sandbox, "--take-over", "now")
        assert leader.wait(30 * PACE)
        assert process.exit_status(leader) == Fenced.exit_code
        until(
            "all agents are its own",
            lambda: (
                set(after := agents(sandbox)) == set(before)
                and not set(after.values()) & set(before.values())
            ),
            seconds=60,
        )
        until("all hosts are heard", lambda: all_run(sandbox))
        assert coordinator(sandbox) == next_one
        # More are counted where a NodeManager had lost sight of an agent that was replaced.
        until(
            "no agent is counted twice",
            lambda: whole <= running(sandbox) <= len(sandbox.hosts) + CONTAINERS,
        )
        assert judge.judge(deadline_s=90 * PACE).is_good


def test_a_job_that_is_ended_leaves_no_process_and_a_finished_application(sandbox: Sandbox) -> None:
    ran, leader, theirs = pids(sandbox), coordinator(sandbox), agents(sandbox)
    at = sandbox.files.command.index("run")
    command = [*sandbox.files.command[:at], "end", *sandbox.files.command[at + 1 :]]
    ended = subprocess.run(
        command,
        env=sandbox.files.environment,
        capture_output=True,
        text=True,
        timeout=120 * PACE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert leader.wait(10 * PACE)
    assert not any(map(alive, ran.values()))
    until("YARN has ended the agents", lambda: not any(map(alive, theirs.values())))
    found = application(sandbox)
    assert (found["state"], found["finalStatus"]) == ("FINISHED", "SUCCEEDED")
