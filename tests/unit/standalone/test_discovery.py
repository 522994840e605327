"""What a processor finds as it starts: groups, its location, its stores, and what it reports of them."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from samza_dagster.cli import location_ids as locations
from samza_dagster.cli.location_ids import location_id
from samza_dagster.client.group_report import group_report, troubles
from samza_dagster.errors import InvalidInput
from samza_dagster.standalone.discovery import find_group, known_groups
from samza_dagster.standalone.group import BarrierState, GroupView, LocalStores, Running
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.local_stores import local_stores
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from tests.simulation.standalone_server import Server, Session
from tests.unit.standalone.test_processor import A, B, group

pytestmark = pytest.mark.unit

OWN = {"job.name": "orders-eu", "job.id": "7"}
BY_SHOP = OWN | {"app.name": "shop"}
BY_BANK = OWN | {"app.name": "bank"}
OTHER = {"job.name": "orders", "job.id": "7"}


def _session(*groups: dict[str, str]) -> Session:
    """These groups, and nodes of strangers beside them."""
    session = Session(Server(30_000, lambda: 0))
    for config in groups:
        made = ZooKeeperGroup(session, GroupPaths.of(config), lambda: None)  # pyright: ignore[reportArgumentType]
        made.prepare()
    for stranger in ("/zookeeper", "/app-empty", "/app-odd", "/app-odd/orders-eu-7-1.0", "/x"):
        session.create(stranger, None)
    session.create("/x/orders-eu-7-2.0-coordinationData", None)
    return session


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        ((OWN,), OWN),
        ((BY_SHOP, OTHER), BY_SHOP),
        ((BY_SHOP, OWN, BY_BANK), OWN),
    ],
    ids=["without an application", "by another application's name", "its own before others"],
)
def test_a_group_is_found_by_its_job(
    groups: tuple[dict[str, str], ...], found: dict[str, str]
) -> None:
    """Whatever its application is called: a request needn't name that."""
    session = _session(*groups)
    assert find_group(session, "orders-eu", "7").root == GroupPaths.of(found).root  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("groups", "seen"),
    [
        ((OTHER,), "no /app-…/orders-eu-7-2.0-coordinationData"),
        (
            (BY_SHOP, BY_BANK),
            f"{GroupPaths.of(BY_BANK).root}, {GroupPaths.of(BY_SHOP).root}",
        ),
    ],
    ids=["none", "two"],
)
def test_a_job_without_a_group_of_its_own_is_refused(
    groups: tuple[dict[str, str], ...], seen: str
) -> None:
    """None is guessed; those that there are, are named."""
    with pytest.raises(InvalidInput) as refused:
        find_group(_session(*groups), "orders-eu", "7")  # pyright: ignore[reportArgumentType]
    assert refused.value.seen.startswith(seen)


def test_the_jobs_that_have_a_group_are_known_once_each_by_name() -> None:
    """A job's name may have a `-`, its id none; what isn't a group is none."""
    session = _session(BY_SHOP, BY_BANK, OTHER)
    assert known_groups(session) == ["orders-eu/7", "orders/7"]  # pyright: ignore[reportArgumentType]


# Where a processor is, by the name of a provider.


def test_a_provider_is_named_and_several_are_one_location(tmp_path: Path) -> None:
    """A host and its disk, for instance."""
    (tmp_path / "disk").write_text("disk-3\nmore\n")
    environment = {"RACK": "r1", "POD_NAME": "orders-0"}
    assert location_id("host") == socket.gethostname()
    assert location_id("env:RACK", environment) == "r1"
    assert location_id("kubernetes", environment) == "orders-0"
    assert location_id("kubernetes", {**environment, "NODE_NAME": "n7"}) == "n7"
    assert location_id(f"env:RACK+file:{tmp_path / 'disk'}", environment) == "r1.disk-3"


def test_a_package_brings_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under an entry point; what stands behind the colon is its argument."""
    point = EntryPoint(
        "rack", "tests.unit.standalone.test_discovery:rack_of", locations.ENTRY_POINTS
    )
    monkeypatch.setattr(
        locations, "entry_points", lambda **asked: EntryPoints([point]).select(**asked)
    )
    assert location_id("rack:7+env:DISK", {"DISK": "d1"}) == "rack-7.d1"


def rack_of(number: str) -> str:
    """A provider."""
    return f"rack-{number}"


@pytest.mark.parametrize(
    ("provider", "named"),
    [
        ("env:NOTHING", "NOTHING isn't set"),
        ("file:/no/such/file", "/no/such/file"),
        ("moon", "'moon'"),
        ("env:SPACED", "without spaces"),
    ],
)
def test_what_gives_no_location_is_named(provider: str, named: str) -> None:
    """With what would make it one."""
    with pytest.raises(InvalidInput, match=named):
        location_id(provider, {"SPACED": "a b"})


# Stores that a processor finds on its disk.

CONFIG = {
    "job.name": "orders",
    "stores.counts.factory": "org.apache.samza.storage.kv.RocksDbKeyValueStorageEngineFactory",
    "stores.counts.changelog": "kafka.orders-counts",
}


def made(state_dir: Path, *tasks: str) -> None:
    for task in tasks:
        (state_dir / "orders-1" / "counts" / task).mkdir(parents=True)


def test_stores_of_tasks_that_run_elsewhere_since_are_unused(tmp_path: Path) -> None:
    """A standby's has its active's name; one that nobody knows is unused too."""
    made(tmp_path, "Partition_0", "Partition_1", "Partition_2", "Partition_9")
    locality = {"Partition 0": "here", "Partition 1": "there", "Standby-Partition 2-0": "here"}
    found = local_stores(tmp_path, CONFIG, locality, "here")
    assert found.unused == ("orders-1/counts/Partition_1", "orders-1/counts/Partition_9")
    assert local_stores(tmp_path / "new", CONFIG, {}, "here") == LocalStores()


def test_checkpoints_of_a_store_in_use_are_in_use_too(tmp_path: Path) -> None:
    """Samza's transactional state keeps them beside the store, by when they were made."""
    of_one = ("Partition_1", "Partition_1-1700000000000-123456")
    made(tmp_path, "Partition_0", "Partition_0-1700000000000-123456", *of_one)
    found = local_stores(tmp_path, CONFIG, {"Partition 0": "here"}, "here")
    assert found.unused == tuple(f"orders-1/counts/{each}" for each in of_one)


def test_what_its_user_may_not_use_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store by its path; a state directory alone is a reason not to start."""
    made(tmp_path, "Partition_0", "Partition_1")
    allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: "Partition_1" not in str(path) and allowed(path, mode)
    )
    locality = {"Partition 0": "here", "Partition 1": "here"}
    found = local_stores(tmp_path, CONFIG, locality, "here")
    assert found == LocalStores(barred=("orders-1/counts/Partition_1",))
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with pytest.raises(InvalidInput, match="may not read and write"):
        local_stores(tmp_path, CONFIG, {}, "here")


# What a group is doing, as people and programs read it.


def test_a_group_that_has_agreed_shows_who_has_what() -> None:
    """And there is nothing to look at."""
    seen = group(A, B, version=2, state=BarrierState.DONE, joined="a b", a="1 2", b="3")
    seen = replace(seen, running={A.sequence: Running(2, silent_ms=1_500)})
    report = group_report(seen)
    said = [(row["runs_version"], row["silent_ms"]) for row in report["processors"]]
    assert said == [(2, 1_500), (None, None)]
    assert [row["processor_id"] for row in report["processors"] if row["leads"]] == ["a"]
    assert [row["active_tasks"] for row in report["processors"]] == [["1", "2"], ["3"]]
    assert troubles(report) == []


def test_unused_stores_are_named_and_nothing_is_wrong_with_them() -> None:
    """A program reads them with their processor."""
    stores = LocalStores(unused=("j-1/s/Partition_0",))
    report = group_report(
        group(A._replace(stores=stores), version=1, state=BarrierState.DONE, joined="a", a="1")
    )
    assert [row["unused_stores"] for row in report["processors"]] == [["j-1/s/Partition_0"]]
    assert troubles(report) == []


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (GroupView(), "nobody leads"),
        (group(A, B, version=2, joined="a", a="1", b="2"), "version 2 waits for b"),
        (
            group(A, version=2, state=BarrierState.TIMED_OUT, a="1"),
            "version 2 was given up",
        ),
        (
            group(A, version=2, state=BarrierState.DONE, joined="a", a="1", b="2"),
            "nobody processes 2",
        ),
        (group(A, A, version=0), "two processors have one id"),
        (group(A._replace(holds_standbys=False), B), "a, one of Samza's own processors, leads"),
        (
            group(A._replace(stores=LocalStores(barred=("j-1/s/Partition_0",)))),
            "a may not read and write j-1/s/Partition_0",
        ),
    ],
)
def test_what_is_wrong_is_said(seen: GroupView, said: str) -> None:
    """In words, with the names."""
    assert any(said in line for line in troubles(group_report(seen)))
