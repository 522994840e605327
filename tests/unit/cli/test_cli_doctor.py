"""`doctor` without arguments: what it says of this machine, of what isn't configured, of who coordinates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
import pytest

from samza_dagster.cli import doctor as machine
from samza_dagster.cli.doctor import coordinator_findings
from samza_dagster.cli.main import cli
from samza_dagster.client.views import HostView, JobView, LeaderView
from samza_dagster.coordinator.diagnosis import operations
from samza_dagster.errors import MissingPrerequisite

pytestmark = pytest.mark.unit
JOB = JobView("j", "1", "run-1", {}, {}, coordinator="samza_dagster", deployed=True)
LEADER = LeaderView(3, "host-1", "http://host-1:1", 0, 1_795_264_662_000, ended=False)


def found(view: JobView) -> dict[str, tuple[bool, str]]:
    return {each.check: (each.ok, each.seen) for each in coordinator_findings(view)}


def test_where_nothing_is_configured_it_says_what_to_set(
    commands: Any, clean_environment: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Without a broker and without a wait; the rest of the machine is looked at all the same."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    document = commands.json("doctor", code=1)
    checks = {check["check"]: check for check in document["checks"]}
    missing = checks["it is said which job on which cluster is meant"]
    assert missing["ok"] is False
    for way in (
        "--bootstrap-servers",
        "SAMZA_DAGSTER_BOOTSTRAP_SERVERS",
        "samza-dagster sandbox up",
    ):
        assert way in missing["fix"]
    assert "librdkafka" in checks["what is installed is known"]["seen"]
    assert document["unread"] == []
    text = commands.run("doctor").stdout
    assert "NO" in text


@pytest.mark.parametrize(("is_needed", "ok"), [(True, False), (False, True)])
def test_a_java_that_nothing_installed_needs_isnt_missed(
    monkeypatch: pytest.MonkeyPatch, is_needed: bool, ok: bool
) -> None:
    """A cockpit alone starts none."""

    def none() -> None:
        raise MissingPrerequisite("a JDK", seen="no java on PATH", fix="install one")

    monkeypatch.setattr("samza_dagster.cli.doctor.find_java", none)
    java = machine._java(is_needed=is_needed)
    assert (java.ok, java.fix) == (ok, "install one")
    assert "no java on PATH" in java.seen


def test_a_leader_that_ended_in_order_leads_nobody() -> None:
    check = "a coordinator of ours leads the job"
    assert found(replace(JOB, leader=LEADER))[check][0] is True
    ok, seen = found(replace(JOB, leader=replace(LEADER, ended=True)))[check]
    assert (ok, "ended in order" in seen) == (False, True)
    assert check not in found(JOB), "nothing is known of one"


def test_silent_agents_and_containers_without_a_place_are_named() -> None:
    hosts = {"h1": HostView("h1", "alive"), "h2": HostView("h2", "lost")}
    told = found(replace(JOB, hosts=hosts, deployed=False, degraded={"0": "no room"}))
    assert told["every agent that the job knows answers"] == (False, "silent: h2")
    assert told["every active and every standby runs"] == (False, "0: no room")
    well = found(replace(JOB, hosts={"h1": hosts["h1"]}))
    assert all(ok for ok, _ in well.values())


def test_a_missing_right_is_mended_by_a_command_of_kafkas() -> None:
    assert operations("READ and WRITE") == "--operation Read --operation Write"


def test_every_command_has_examples_in_its_help() -> None:
    """Whoever asks for help copies one."""

    def without(group: click.Group, path: str) -> list[str]:
        context = click.Context(group, info_name=path)
        lacking: list[str] = []
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if "Example" not in (command.help or "") and (path, name) != ("agent", "run"):
                lacking.append(f"{path} {name}")
            if isinstance(command, click.Group):
                lacking += without(command, name)
        return lacking

    assert isinstance(cli, click.Group)
    assert without(cli, "samza-dagster") == []
