"""What an agent reserves, and whose stores are whose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.agent import store_owner
from samza_dagster.agent.incarnation import overlaps
from samza_dagster.agent.lease import Grant, read_clocks
from samza_dagster.agent.protocol import Launch
from samza_dagster.agent.reservations import ResourceLedger
from samza_dagster.agent.supervisor import Supervisor

pytestmark = pytest.mark.unit


def test_a_refusal_says_what_is_free_and_what_is_needed() -> None:
    """For a person to read in the coordinator's answer."""
    ledger = ResourceLedger(1000, 2).reserve("r1", 800, 1)
    assert ledger.refusal("r2", 256, 1) == (
        "full: 200 MiB and 1 cores are free of 1000 MiB and 2, 256 MiB and 1 are needed"
    )
    assert ledger.refusal("r2", 100, 2) is not None
    assert ledger.refusal("r2", 200, 1) is None


def test_a_used_reservation_is_freed_by_death_and_not_by_a_release() -> None:
    """A release that comes late must not let two containers share the memory of one."""
    used = ResourceLedger(1000, 2).reserve("r1", 800, 1).use("r1", "e1")
    assert used.release("r1") == used
    assert used.bury("e1") == ResourceLedger(1000, 2)
    assert ResourceLedger(1000, 2).reserve("r1", 800, 1).release("r1") == ResourceLedger(1000, 2)


requests = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.integers(0, 600), st.integers(0, 3), st.booleans())
)


@given(requests)
def test_never_is_more_held_than_there_is(history: list[tuple[str, int, int, bool]]) -> None:
    """For every history of reserves and releases; and what is on disk reads back the same."""
    ledger = ResourceLedger(1000, 4)
    for request_id, memory_mb, cores, releases in history:
        if releases:
            ledger = ledger.release(request_id)
        elif ledger.refusal(request_id, memory_mb, cores) is None:
            ledger = ledger.reserve(request_id, memory_mb, cores)
        assert ledger.free_memory_mb >= 0
        assert ledger.free_cores >= 0
        assert ResourceLedger(1000, 4).with_held(ledger.to_json()) == ledger


def test_a_hold_is_on_record_and_of_one_request() -> None:
    """The engine's container is the resource: two requests can't both have it."""
    ledger = ResourceLedger(1000, 2).reserve("r1", 100, 1, "h1")
    assert ledger.to_json()[0]["hold"] == "h1"
    assert ResourceLedger(1000, 2).with_held(ledger.to_json()) == ledger
    assert ledger.refusal("r1", 100, 1, "h1") is None
    assert ledger.refusal("r1", 100, 1, "h2") == "request r1 is reserved on hold h1"
    assert ledger.refusal("r2", 100, 1, "h1") == "request r1 is reserved on hold h1"
    assert ledger.use("r1", "e1").refusal("r2", 100, 1, "h1") is not None
    assert ledger.release("r1").refusal("r2", 100, 1, "h1") is None


def test_a_record_of_an_agent_that_knew_no_holds_is_read() -> None:
    """It was written before there were any."""
    old = {"request_id": "r1", "memory_mb": 100, "cores": 1, "execution_id": None}
    (read,) = ResourceLedger(1000, 2).with_held([old]).held
    assert (read.request_id, read.hold) == ("r1", None)


def test_store_directories_collide_when_one_lies_in_the_other() -> None:
    """Equal, above or below; a name that only begins alike is another store."""
    held = frozenset({"job-1/store/Partition_1"})
    assert overlaps(held, frozenset({"job-1/store/Partition_1"})) == "job-1/store/Partition_1"
    assert overlaps(held, frozenset({"job-1/store"}))
    assert overlaps(held, frozenset({"job-1/store/Partition_1/sub"}))
    assert overlaps(held, frozenset({"job-1/store/Partition_10", "job-1/other"})) is None
    assert overlaps(held, frozenset()) is None


# Two jobs of which Samza keeps the stores in one directory: the second one is refused there.


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
