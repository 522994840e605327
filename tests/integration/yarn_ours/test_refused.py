"""What YARN or its configuration refuses is one line that names the option, before anything is written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from samza_dagster.sandbox.lifecycle import Sandbox
from tests.rig.ours_on_yarn import running
from tests.rig.pace import PACE

pytestmark = [pytest.mark.yarn, pytest.mark.longyarn]


def rehearsed(
    sandbox: Sandbox, *options: str, user: str = "", inside: bool = True
) -> tuple[int, str]:
    """Exit status and stderr of `coordinator run --dry-run` with these options above the sandbox's."""
    files = sandbox.files
    command = [*files.command] if inside else files.command[-len(files.arguments) - 5 :]
    environment = {**files.environment, **({"HADOOP_USER_NAME": user} if user else {})}
    done = subprocess.run(
        [*command, "--dry-run", *options],
        env=environment, capture_output=True, text=True, timeout=60 * PACE, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def test_a_queue_or_a_label_that_is_not_there_is_named_with_those_that_are(
    sandbox: Sandbox,
) -> None:
    code, said = rehearsed(sandbox, "--queue", "nightly")
    assert (code, "--queue nightly" in said, "default" in said) == (2, True, True), said
    code, said = rehearsed(sandbox, "--node-label", "ssd")
    assert (code, "--node-label ssd" in said) == (2, True), said


def test_a_user_without_the_right_to_submit_to_the_queue_is_told_which_right(
    sandbox: Sandbox,
) -> None:
    code, said = rehearsed(sandbox, user="stranger")
    assert code == 2, said
    assert "this user may not submit applications to it" in said
    assert "yarn.scheduler.capacity.root.default.acl_submit_applications" in said
    code, said = rehearsed(sandbox)
    assert code == 0, said


def test_a_directory_without_yarns_configuration_is_refused(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    code, said = rehearsed(sandbox, "--hadoop-conf", str(tmp_path))
    assert code == 2, said
    assert "no yarn-site.xml there" in said


def test_a_resource_manager_that_is_not_there_is_told_in_seconds(sandbox: Sandbox) -> None:
    """Outside of the cluster's network nothing listens at its address; Hadoop's client alone waits for a minute."""
    whole = running(sandbox)
    code, said = rehearsed(sandbox, inside=False)
    assert code == 4, said
    assert "ResourceManager" in said
    assert running(sandbox) == whole
