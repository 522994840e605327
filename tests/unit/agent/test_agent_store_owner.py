"""Two jobs of which Samza keeps the stores in one directory: the second one is refused there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from samza_dagster.agent import store_owner
from samza_dagster.agent.lease import Grant, read_clocks
from samza_dagster.agent.protocol import Launch
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.supervisor import Supervisor

pytestmark = pytest.mark.unit


def launch(name: str, ident: str | None, *, stores: bool = True) -> Launch:
    config = {"job.name": name} | ({"job.id": ident} if ident is not None else {})
    directories = (f"{name}-{ident or '1'}/lab/Partition_0",) if stores else ()
    model = json.dumps({"config": config, "containers": {}})
    return Launch("e1", "0", ("true",), {}, model, directories, 1.0, {})


def test_the_first_job_owns_the_directory_and_another_of_its_name_is_refused(
    tmp_path: Path,
) -> None:
    """With what to do. The owner's next containers, of any agent, are welcome."""
    assert store_owner.refusal(tmp_path, launch("orders", "eu-1")) is None
    assert store_owner.refusal(tmp_path, launch("orders", "eu-1")) is None
    assert store_owner.refusal(tmp_path, launch("orders-eu", "1")) == (
        f"{tmp_path}/orders-eu-1 holds the stores of job orders, id eu-1, and job orders-eu, id 1,"
        " would have the same: start this job's agents with another --state-dir"
    )
    assert store_owner.refusal(tmp_path, launch("orders-eu", None)) is not None
    assert store_owner.refusal(tmp_path, launch("orders", "eu-2")) is None
    assert store_owner.refusal(tmp_path / "..", launch("orders-eu", "1")) is None


def test_who_has_no_store_there_owns_nothing(tmp_path: Path) -> None:
    """Nor is it refused."""
    assert store_owner.refusal(tmp_path, launch("orders", "eu-1", stores=False)) is None
    assert list(tmp_path.iterdir()) == []
    assert store_owner.refusal(tmp_path, launch("orders-eu", "1")) is None
    assert store_owner.refusal(tmp_path, launch("orders", "eu-1", stores=False)) is None


def test_a_record_that_was_torn_names_nobody(tmp_path: Path) -> None:
    """By a power cut: the next one writes it anew."""
    (tmp_path / "orders-eu-1.owner.json").write_text("{")
    assert store_owner.refusal(tmp_path, launch("orders-eu", "1")) is None
    assert store_owner.refusal(tmp_path, launch("orders", "eu-1")) is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orders-eu-1.owner.json"]


def test_an_agent_starts_no_container_over_another_jobs_stores(tmp_path: Path) -> None:
    """The start is refused with that text, which the coordinator shows; nothing is created."""
    state = tmp_path / "state"
    state.mkdir()
    assert store_owner.refusal(state, launch("orders", "eu-1")) is None
    host = Supervisor(tmp_path / "agent", state, "h", ResourceLedger(1000, 4), url_of=lambda _: "")
    host.directory.mkdir()
    host.hold_lease(Grant(1, 100.0, read_clocks(), host.boot_id))
    host.reserve("r1", 100, 1)
    outcome = host.start("r1", launch("orders-eu", "1"))
    assert not outcome.ok
    assert "another --state-dir" in outcome.why
    assert host.roster.incarnations == {}
