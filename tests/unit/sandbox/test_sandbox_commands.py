"""`samza-dagster sandbox` without a broker: errors, documents, and what touches no disk."""

from __future__ import annotations

import errno
import json
import os
import shlex
import socket
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from samza_dagster.cli.main import cli
from samza_dagster.errors import (
    ActionFailed,
    DeadlineExceeded,
    MissingPrerequisite,
    Refused,
    Unreachable,
)
from samza_dagster.sandbox import process
from samza_dagster.sandbox.demo import run as demo_run
from samza_dagster.sandbox.demo.run import Demo, checkout_definitions
from samza_dagster.sandbox.demo.takeover import TakeoverDemo
from samza_dagster.sandbox.lifecycle import Options, Sandbox
from samza_dagster.sandbox.ports import free_ports
from samza_dagster.sandbox.process import ProcessRecord
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.registry import Registry
from samza_dagster.sandbox.runner import COORDINATOR, OwnRunner
from samza_dagster.sandbox.standalone import StandaloneRunner

pytestmark = pytest.mark.unit

FIELDS = {
    "bootstrap_servers", "zookeeper", "coordinator_url", "job", "deployment_id", "hosts",
    "processors", "dagster_url", "data_dir",
}  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SAMZA_DAGSTER_HOME", str(tmp_path))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["sandbox", *arguments])


@pytest.mark.parametrize(
    "arguments",
    [
        ("up", "--name", "A/b"),
        ("up", "--hosts", "1"),
        ("up", "--host-memory-mb", "256", "--hosts", "2"),
        ("up", "--standalone", "--processors", "1"),
        ("up", "--standalone", "--yarn"),
        ("up", "--coordinator", "ours"),
    ],
)
def test_an_error_is_one_document_or_three_lines(home: Path, arguments: tuple[str, ...]) -> None:
    """In the same form as the other commands', with the exit code of the error; nothing is left."""
    document = json.loads(run(*arguments, "--json").stdout)
    text = run(*arguments)
    assert text.exit_code == document["exit_code"] == 2
    assert text.stdout == ""
    assert f"Error: {document['asked']}" in text.stderr
    assert f"  seen: {document['seen']}" in text.stderr
    assert f"  fix:  {document['fix']}" in text.stderr
    assert list(home.iterdir()) == []


def test_hosts_without_room_for_every_container_are_refused_with_the_size_that_fits() -> None:
    """Before anything is started; what the fix names is accepted."""
    with pytest.raises(Refused, match="room for 2 containers, 4 are wanted") as raised:
        Options(hosts=2, host_memory_mb=300)
    assert "--host-memory-mb 512" in raised.value.fix
    assert Options(hosts=2, host_memory_mb=512).processors == 4


def test_status_of_none_has_every_field_and_down_of_none_leaves_no_trace(home: Path) -> None:
    """A name that was never used is down, and stays without a directory."""
    facts = json.loads(run("status", "--json").stdout)
    assert facts.keys() >= FIELDS
    assert facts["state"] == "down"
    assert json.loads(run("down", "--json").stdout)["ended"] == 0
    assert list(home.iterdir()) == []


def test_status_env_gives_a_shell_what_the_other_commands_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Quoted; exit 2 and nothing to evaluate when it isn't up."""
    down = run("status", "--env")
    assert (down.exit_code, down.stdout) == (2, "")
    registry = Registry("default")
    registry.update(state="up", bootstrap_servers="127.0.0.1:9; x")
    registry.add(ProcessRecord.of("broker", os.getpid()))
    lines = run("status", "--env").stdout.splitlines()
    values = dict(shlex.split(line)[1].split("=", 1) for line in lines)
    assert values == {
        "SAMZA_DAGSTER_BOOTSTRAP_SERVERS": "127.0.0.1:9; x",
        "SAMZA_DAGSTER_JOB_NAME": "samza-dagster-demo",
        "SAMZA_DAGSTER_JOB_ID": "1",
    }
    url = "http://127.0.0.1:8088"
    registry.update(options={"yarn": True}, yarn={"url": url, "application": "application_1"})
    registry.add(ProcessRecord.of("resource-manager", os.getpid()))
    assert f"export SAMZA_DAGSTER_YARN_RESOURCE_MANAGER={url}" in run("status", "--env").stdout
    monkeypatch.setattr(StandaloneRunner, "processors", lambda _: {})
    registry.update(options={"standalone": True}, zookeeper="127.0.0.1:2")
    registry.add(ProcessRecord.of("zookeeper", os.getpid()))
    assert "export SAMZA_DAGSTER_ZOOKEEPER=127.0.0.1:2" in run("status", "--env").stdout
    dagster_home = Sandbox("default").dagster_home
    dagster_home.mkdir(parents=True)
    (dagster_home / "dagster.yaml").touch()
    assert f"export DAGSTER_HOME={dagster_home}" in run("status", "--env").stdout


def test_a_standalone_sandbox_names_the_parts_that_are_gone() -> None:
    """ZooKeeper and the processors are parts of it; who can't be asked is not waited for."""
    registry = Registry("default")
    hosts = ["host-1", "host-2"]
    registry.update(state="up", options={"standalone": True}, hosts=hosts, zookeeper="127.0.0.1:9")
    registry.add(ProcessRecord.of("processor p2", os.getpid()))
    facts = json.loads(run("status", "--json").stdout)
    assert facts["gone"] == ["broker", "load", "processor p1", "zookeeper"]
    assert facts["zookeeper"] is None
    assert facts["hosts"] == {"host-1": {"state": "lost"}, "host-2": {"state": "alive"}}


@pytest.mark.parametrize(
    ("live", "fix"),
    [(None, "samza-dagster sandbox up"), ("coordinator", "samza-dagster sandbox down")],
)
def test_the_address_of_a_broker_that_is_gone_isnt_exported(live: str | None, fix: str) -> None:
    """Of a sandbox that was killed, or whose broker was: every command would wait for it in vain."""
    registry = Registry("default")
    registry.update(state="up", bootstrap_servers="127.0.0.1:9", dagster_url="http://127.0.0.1:1")
    if live:
        registry.add(ProcessRecord.of(live, os.getpid()))
    facts = json.loads(run("status", "--json").stdout)
    assert facts["bootstrap_servers"] is None
    result = run("status", "--env")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"fix:  {fix} --name default" in result.stderr


def test_down_all_ends_the_others_when_one_cant_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, with the exit status of a failure."""
    for name in ("a", "b", "c"):
        Registry(name).update(state="up")
    seen: list[str] = []

    def down(self: Sandbox) -> int:
        seen.append(self.registry.name)
        if self.registry.name == "a":
            raise ActionFailed("end it", seen="process 7 lives on")
        return 2

    monkeypatch.setattr(Sandbox, "down", down)
    result = run("down", "--all")
    assert seen == ["a", "b", "c"]
    assert result.exit_code == 1
    assert "a: end it; seen: process 7 lives on (ended: b, c)" in result.stderr
    assert "--name a" in result.stderr


def test_a_demo_without_a_checkout_is_refused_before_anything_starts(
    home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an installed wheel, beside which there are no definitions."""
    site_packages = tmp_path_factory.mktemp("site-packages")
    with pytest.raises(MissingPrerequisite, match=r"in a checkout.*no definitions\.py"):
        checkout_definitions(site_packages)

    def refuse() -> Path:
        return checkout_definitions(site_packages)

    monkeypatch.setattr(demo_run, "checkout_definitions", refuse)
    one = demo_run.Demo(Options(name="one"), print)
    with pytest.raises(MissingPrerequisite):
        one.run()
    one.close()
    assert list(home.iterdir()) == []
    assert checkout_definitions().is_file()


def test_a_home_that_is_no_directory_is_named_with_what_says_otherwise(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are one on a read-only disk, and one of somebody else."""
    file = home / "file"
    file.touch()
    monkeypatch.setenv("SAMZA_DAGSTER_HOME", str(file))
    document = json.loads(run("up", "--json").stdout)
    assert document["exit_code"] == 2
    assert f"Not a directory: {file}" in document["seen"]
    assert "SAMZA_DAGSTER_HOME" in document["fix"]
    assert list(home.iterdir()) == [file]


def test_a_full_disk_is_named_and_another_error_of_the_system_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What nobody can mend by a file is a fault of ours: its traceback stays."""

    def ends_with(number: int) -> Result:
        def up(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(Sandbox, "up", up)
        return run("up", "--json")

    full = ends_with(errno.ENOSPC)
    assert json.loads(full.stdout)["seen"] == "No space left on device"
    assert full.exit_code == 2
    assert isinstance(ends_with(errno.EBADF).exception, OSError)


def test_a_second_sandbox_of_a_name_is_refused_with_what_ends_the_first(home: Path) -> None:
    """Two demos at once, too: the demo's sandbox has a name of its own. The first isn't touched."""
    Registry("default").add(ProcessRecord.of("broker", os.getpid()))
    Registry("default").update(state="up")
    record = home / "sandboxes/default/sandbox.json"
    before = record.read_text()
    document = json.loads(run("up", "--json").stdout)
    assert record.read_text() == before
    assert (document["seen"], document["exit_code"]) == ("it is broken", 2)  # but for that process
    assert "sandbox down --name default, or another --name" in document["fix"]


@pytest.mark.parametrize("made", [Demo, TakeoverDemo])
def test_a_demo_that_is_refused_beside_another_leaves_that_one_running(
    made: type[Demo | TakeoverDemo],
) -> None:
    """It ended the first one's broker, containers and Dagster, as if it had started them."""
    first = process.spawn("broker", ["sleep", "600"], log=Path(os.devnull))
    try:
        Registry("demo").add(first)
        Registry("demo").update(state="up")
        second = made(Options(name="demo"), print)
        with pytest.raises(Refused, match="one sandbox named 'demo'"):
            second.run()
        second.close()
        assert Registry("demo").live() == (first,)
    finally:
        first.stop(grace_s=0)


def test_an_up_without_java_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its directory stayed, with a lock in it."""
    monkeypatch.setenv("PATH", str(home))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "no java program" in run("up").stderr
    assert [*home.rglob("*")] == [home / "sandboxes"]


@pytest.mark.parametrize(
    ("ended_by", "kept"), [(DeadlineExceeded("come up", seen="-"), 1), (KeyboardInterrupt(), 0)]
)
def test_the_logs_of_an_up_that_failed_stay_where_its_error_says(
    monkeypatch: pytest.MonkeyPatch, ended_by: BaseException, kept: int
) -> None:
    """It named a directory that it had emptied. Who interrupts it wants nothing of it."""
    box = Sandbox("slow")
    log = box.directory / "hosts/host-1/incarnations/0/container.log"

    def start(*_: object) -> None:
        for each in (log, box.directory / "load.log", box.dagster_home / "dagster.yaml"):
            each.parent.mkdir(parents=True, exist_ok=True)
            each.touch()
        raise ended_by

    monkeypatch.setattr(Sandbox, "_start", start)
    with pytest.raises(type(ended_by)):
        box.up(Options(name="slow"), Phases(print))
    assert box.directory.exists() == log.exists() == bool(kept)


def test_what_a_killed_up_left_behind_is_no_sandbox_that_starts_and_the_next_up_ends_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was called one that starts, and then refused as one that is up."""
    registry = Registry("default")
    left = process.spawn("broker", ["sleep", "600"], log=home / "broker.log")
    try:
        registry.update(state="starting")
        registry.add(left)
        with registry.exclusive():
            assert Sandbox("default").status()["state"] == "starting"
        (registry.directory / "lock").write_text("4194305")  # no process has that id
        assert Sandbox("default").status()["state"] == "broken"
        monkeypatch.setattr(Sandbox, "_start", lambda *_: None)
        run("up", "--detach")
        assert not left.is_alive
    finally:
        left.stop(grace_s=0)


def test_a_port_of_the_ui_that_is_taken_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything of Dagster starts."""
    facts = {"bootstrap_servers": "127.0.0.1:9", "state": "up"}
    monkeypatch.setattr(Sandbox, "status", lambda _: facts)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = run("dagster", "--port", str(port))
    assert said.exit_code == 2
    assert f"port {port} for Dagster" in said.stderr
    assert "another --port" in said.stderr
    assert list(home.iterdir()) == []


def test_a_machine_that_is_too_slow_is_told_what_is_awaited_and_where_the_logs_are(
    home: Path,
) -> None:
    """Exit status 3: it might have come up later."""
    with pytest.raises(DeadlineExceeded, match="1 of 4 containers run") as raised:
        Sandbox("default")._wait(lambda: False, lambda: "1 of 4 containers run", 0.0)
    assert str(home / "sandboxes" / "default") in raised.value.fix
    assert raised.value.exit_code == 3


def test_a_broker_that_is_too_busy_to_answer_once_ends_no_up() -> None:
    """At a load of sixty it didn't know a partition of its own for a moment: the up was given up."""
    answers = iter([Unreachable("the end of a topic", seen="unknown partition"), True])

    def condition() -> bool:
        answer = next(answers)
        if isinstance(answer, Unreachable):
            raise answer
        return answer

    Sandbox("default")._wait(condition, str, time.monotonic() + 60)
    answers = iter([Unreachable("the end of a topic", seen="unknown partition")])
    with pytest.raises(DeadlineExceeded, match=r"1 of 4 run; .*unknown partition"):
        Sandbox("default")._wait(condition, lambda: "1 of 4 run", 0.0)


def test_a_servers_port_isnt_one_that_an_outgoing_connection_is_given() -> None:
    """Between its choice and the server's start another process may connect anywhere, and this one choose again."""
    outgoing = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="utf-8").split()
    ports = free_ports(30)
    assert len({*ports, *free_ports(30)}) == 60
    assert not [port for port in ports if int(outgoing[0]) <= port <= int(outgoing[1])]


@pytest.mark.parametrize(("status", "started"), [(4, 1), (2, 0)])
def test_a_coordinator_that_no_broker_answered_in_time_is_started_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, status: int, started: int
) -> None:
    """As an init system would, on a slow machine; what ended for another reason is told."""
    again: list[bool] = []
    registry = Registry("slow")
    runner = OwnRunner(registry)
    monkeypatch.setattr(runner.files, "start", lambda **_: again.append(True))
    command = [sys.executable, "-c", f"raise SystemExit({status})"]
    ended = process.spawn(COORDINATOR, command, log=home / "log", on_spawn=registry.add)
    assert ended.wait(10)
    with pytest.raises(Unreachable if started else ActionFailed):
        runner.processors()
    assert len(again) == started
