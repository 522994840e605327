"""A record that is there and can't be read: neither adopted nor taken for absent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from samza_dagster.agent import grants, procfs
from samza_dagster.agent.files import RecordError, read_json
from samza_dagster.agent.incarnation import HostedIncarnation, load_all
from samza_dagster.agent.protocol import Launch
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.stop_all import stop_all
from samza_dagster.agent.supervisor import Supervisor

pytestmark = pytest.mark.unit

RECORDS = [
    "reservations.json",
    "incarnations/e1/spec.json",
    "incarnations/e1/marks.json",
    "incarnations/e1/warden.json",
]


def empty(path: Path) -> None:
    path.write_text("")


def list_in_it(path: Path) -> None:
    path.write_text("[1]")


def deep(path: Path) -> None:
    path.write_text("[" * 50_000)


def no_file(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def host(directory: Path) -> Supervisor:
    return Supervisor(
        directory, directory / "state", "h", ResourceLedger(1000, 4), url_of=lambda _: ""
    )


def recorded(directory: Path) -> None:
    """One start of a container by an agent of this boot."""
    before = host(directory)
    before.adopt()
    before.reserve("r1", 100, 1)
    launch = Launch("e1", "0", ("true",), {}, '{"containers":{}}', (), 1.0, {})
    HostedIncarnation.create(
        directory / "incarnations" / "e1",
        launch,
        command=("true",),
        environment={},
        grant_file=before.lease.file,
        sequence=1,
    ).mark(released=True)


def boot_again(directory: Path) -> None:
    (directory / "boot.json").write_text(json.dumps({"version": 1, "boot_id": "the boot before"}))


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("damage", [empty, list_in_it, deep, no_file])
def test_a_record_of_this_boot_that_cant_be_read_is_not_taken_for_absent(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    """Its container may live: a host that registers without it gets a second one."""
    recorded(tmp_path)
    damage(tmp_path / name)
    with pytest.raises(RecordError, match=name):
        host(tmp_path).adopt()
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_a_power_cut_tore_is_removed(tmp_path: Path, name: str) -> None:
    """Nothing of another boot lives, so the host works on without anybody's help."""
    recorded(tmp_path)
    empty(tmp_path / name)
    boot_again(tmp_path)
    after = host(tmp_path)
    after.adopt()
    assert json.loads((tmp_path / "boot.json").read_text())["boot_id"] == procfs.boot_id()
    assert after.reserve("r2", 100, 1).ok
    after.adopt()


@pytest.mark.parametrize("text", ["", json.dumps({"version": 1, "warden": None})])
def test_stop_all_neither_waits_for_nor_skips_what_it_cant_read(tmp_path: Path, text: str) -> None:
    """A warden's record without its names was taken for one that is about to come, for ever."""
    recorded(tmp_path)
    torn = tmp_path / "incarnations" / "e1" / "warden.json"
    torn.write_text(text)
    with pytest.raises(RecordError, match=r"warden\.json"):
        stop_all(tmp_path)
    boot_again(tmp_path)
    assert stop_all(tmp_path) == {"stopped": [], "alive": []}


def test_a_directory_whose_record_was_never_finished_is_still_removed(tmp_path: Path) -> None:
    """Without `spec.json` nothing was started."""
    half = tmp_path / "incarnations" / "e1" / "work"
    half.mkdir(parents=True)
    host(tmp_path).adopt()
    assert not half.parent.exists()


def test_a_file_deeper_than_any_stack_holds_no_object(tmp_path: Path) -> None:
    """As one that is no JSON: a name of a process, a lease."""
    deep(tmp_path / "grant.json")
    assert read_json(tmp_path / "grant.json") is None
    assert grants.read(tmp_path / "grant.json", "boot-1") is None


@pytest.mark.parametrize("pid", [float("inf"), float("nan"), "x", None])
def test_a_pid_that_is_no_number_names_no_process(pid: object) -> None:
    """Infinity is a number to JSON."""
    written = {"pid": pid, "start_ticks": 1, "boot_id": "b"}
    assert procfs.ProcessName.from_json(written) is None


def test_who_looks_on_removes_nothing(tmp_path: Path) -> None:
    """A sandbox's status took away the directory of a container that was just being started."""
    starting = tmp_path / "incarnations" / "e1"
    starting.mkdir(parents=True)
    assert load_all(tmp_path) == []
    assert starting.is_dir()
