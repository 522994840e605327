"""What is known of a host, what it is granted, and which one is chosen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.cluster.agent_messages import Sync, parse_sync
from samza_dagster.cluster.allocation import KnownHost, choose_host, explain
from samza_dagster.cluster.host_record import HostRecord
from samza_dagster.cluster.interface import ResourceAsk
from samza_dagster.errors import InvalidInput

pytestmark = pytest.mark.unit


class Calls:
    """Notes each callback."""

    def __init__(self) -> None:
        self.made: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.made.append((name, arguments[0]))


def message(**changed: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "host": "host-1",
        "boot_id": "b",
        "journal": "j",
        "instance": "i1",
        "began_ms": 1,
        "losses": 0,
        "sequence": 1,
        "resources": {"memory_mb": 1000, "cores": 4, "free_memory_mb": 800, "free_cores": 3},
        **changed,
    }


def sync(**changed: Any) -> Sync:
    return parse_sync(json.dumps(message(**changed)).encode())


def container(**changed: Any) -> dict[str, Any]:
    return {"execution_id": "e1", "processor_id": "0", "state": "running", **changed}


def told(record: HostRecord, report: Sync) -> list[str]:
    calls = Calls()
    for notice in record.take(report):
        notice(calls)  # pyright: ignore[reportArgumentType]
    return [name for name, _ in calls.made]


def test_a_host_that_was_lost_registers_once_its_agent_has_heard_of_it() -> None:
    """From then on it takes nothing that was told before."""
    record = HostRecord("host-1")
    assert record.has_heard_of_losses(sync())
    assert record.has_heard_of_losses(sync(losses=0))
    record.take(sync())
    record.lose()
    assert not record.has_heard_of_losses(sync(losses=0))
    assert record.has_heard_of_losses(sync(losses=1))


def test_each_step_of_a_container_is_told_once() -> None:
    """Report by report, and a report that changes nothing tells nothing."""
    record = HostRecord("host-1")
    steps: list[tuple[dict[str, Any], list[str]]] = [
        (container(state="launching"), ["on_host_registered", "on_host_told"]),
        (container(pid=7), ["on_container_launched"]),
        (container(pid=7, checked_in=True), ["on_container_checked_in"]),
        (container(pid=7, checked_in=True), []),
        (container(pid=7, checked_in=True, state="stopping"), []),
        (container(pid=7, checked_in=True, state="stopping", stop_failed="D"), ["on_stop_failed"]),
        (
            container(pid=7, checked_in=True, state="dead", exit_status=143),
            ["on_container_stopped"],
        ),
    ]
    for number, (reported, expected) in enumerate(steps):
        assert told(record, sync(sequence=number, containers=[reported])) == expected


def test_steps_that_one_report_joins_are_told_in_order() -> None:
    """Nothing is left out because the agent was faster than the network."""
    record = HostRecord("host-1")
    dead = container(pid=7, checked_in=True, state="dead", exit_status=1)
    assert told(record, sync(containers=[dead])) == [
        "on_host_registered",
        "on_container_launched",
        "on_container_checked_in",
        "on_container_stopped",
        "on_host_told",
    ]


def test_a_report_that_was_overtaken_changes_nothing() -> None:
    """A long poll and a short one of the same agent may arrive in either order."""
    record = HostRecord("host-1")
    told(record, sync(sequence=5, containers=[container(pid=7, state="dead")]))
    assert told(record, sync(sequence=4, containers=[container(pid=7)])) == []
    assert record.containers["e1"].state == "dead"


def test_an_agent_that_was_started_anew_or_was_lost_tells_all_again() -> None:
    """At least once: a coordinator may have missed what came before."""
    record = HostRecord("host-1")
    running = [container(pid=7, checked_in=True)]
    everything = [
        "on_host_registered",
        "on_container_launched",
        "on_container_checked_in",
        "on_host_told",
    ]
    assert told(record, sync(containers=running)) == everything
    assert told(record, sync(instance="i2", sequence=0, containers=running)) == everything
    assert record.past_instances == {"i1"}
    record.lose()
    assert told(record, sync(instance="i2", sequence=1, containers=running)) == everything


def test_a_late_first_word_of_a_dead_agent_doesnt_shut_its_successor_out() -> None:
    """Booked, it would make the one that lives a past one, refused from then on."""
    record = HostRecord("host-1")
    late = sync(instance="i1", began_ms=1000)
    record.take(sync(instance="i2", began_ms=2000))
    assert record.is_over(late)
    assert not record.is_over(sync(instance="i2", began_ms=2000, sequence=2))
    assert not record.is_over(sync(instance="i3", began_ms=3000))
    assert not record.is_over(sync(instance="i3", began_ms=1, boot_id="the next boot"))
    record.take(sync(instance="i3", began_ms=3000))
    assert record.is_over(sync(instance="i2", began_ms=2000, sequence=3))


def test_what_would_start_something_is_taken_back_from_a_lost_host() -> None:
    """Stops are kept: they are right whenever it returns."""
    record = HostRecord("host-1")
    for number, kind in enumerate(("reserve", "start", "stop", "release", "forget")):
        record.commands[str(number)] = {"id": str(number), "kind": kind}
    record.lose()
    assert [c["kind"] for c in record.commands.values()] == ["stop", "release", "forget"]


def test_what_is_on_its_way_to_be_reserved_counts_as_taken() -> None:
    """Until the agent's own report has it."""
    record = HostRecord("host-1")
    told(record, sync())
    record.commands["c"] = {
        "id": "c",
        "kind": "reserve",
        "request_id": "r",
        "memory_mb": 300,
        "cores": 1,
    }
    before = record.view(0.0)
    assert before is not None
    assert (before.free_memory_mb, before.free_cores) == (500, 2)
    held = [{"request_id": "r", "memory_mb": 300, "cores": 1, "execution_id": None}]
    resources = {"memory_mb": 1000, "cores": 4, "free_memory_mb": 500, "free_cores": 2}
    told(record, sync(sequence=2, resources=resources, reservations=held))
    after = record.view(0.0)
    assert after is not None
    assert after.free_memory_mb == 500


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"host": ""}, "host"),
        ({"sequence": -1}, "sequence"),
        ({"wait_ms": 10**9}, "wait_ms"),
        ({"resources": {"memory_mb": "1"}}, "resources"),
        ({"containers": [{"execution_id": "e"}]}, "containers.0.processor_id"),
        ({"version": 3}, "version 3"),
    ],
)
def test_a_malformed_report_is_refused_by_the_field(changed: dict[str, Any], field: str) -> None:
    """The agent logs the answer, so it names the part."""
    with pytest.raises(InvalidInput, match=field):
        parse_sync(json.dumps(message(**changed)).encode())


def test_an_agent_one_version_away_is_understood() -> None:
    """With fields that we don't know."""
    assert sync(version=2, novelty=[1]).version == 2


def test_a_registration_tells_whose_journal_it_is_of() -> None:
    """What it lacks says nothing of what was started on others."""
    record = HostRecord("host-1")
    record.take(sync(journal="journal-1"))
    assert (record.as_resources().journal, record.as_resources().boot_id) == ("journal-1", "b")
    record.take(sync(instance="i2", journal="journal-2"))
    assert (record.as_resources().journal, record.as_resources().boot_id) == ("journal-2", "b")


@pytest.mark.parametrize(
    ("later", "is_kept"),
    [
        ({"instance": "i2", "journal": "journal-1"}, True),
        ({"instance": "i2", "journal": "journal-2"}, False),
        ({"instance": "i2", "journal": "journal-1", "boot_id": "b2"}, False),
    ],
)
def test_who_takes_a_hosts_place_begins_nothing_that_was_meant_for_the_one_before(
    later: dict[str, Any], is_kept: bool
) -> None:
    """That one may have begun it, and the acknowledgement be on its way. A stop does no harm."""
    record = HostRecord("host-1")
    record.take(sync(journal="journal-1"))
    record.commands = {kind: {"id": kind, "kind": kind} for kind in ("reserve", "start", "stop")}
    assert record.is_replaced_by(sync(**later)) == (not is_kept)
    record.take(sync(**later))
    assert list(record.commands) == (["reserve", "start", "stop"] if is_kept else ["stop"])


# Leases: whole ones for hosts that were admitted, the rest of an old one for others.

LONGEST = 30.0
steps = st.lists(
    st.tuples(st.floats(0, 40), st.sampled_from(["ask", "lose", "admit"]), st.floats(0, 60)),
    max_size=30,
)


@given(steps)
def test_no_lease_outlives_the_promise_of_a_host_that_isnt_admitted(
    history: list[tuple[float, str, float]],
) -> None:
    """Whatever is asked when: every lease ends within one of `granted_at`, which only a whole
    grant moves on. The coordinator replaces what ran on a lost host after that.
    """
    now = 0.0
    record = HostRecord("h")
    latest_end = 0.0
    for pause, what, may_grant in history:
        now += pause
        if what == "lose":
            record.lost, record.admitted = True, False
        elif what == "admit":
            record.admitted = True
        else:
            before = record.granted_at
            lease = max(0.0, record.lease_s(now, free_s=may_grant, longest_s=LONGEST))
            if lease > 0:
                latest_end = max(latest_end, now + lease)
            assert lease <= may_grant
            if not record.admitted:
                assert record.granted_at == before
        assert latest_end <= record.granted_at + LONGEST + 1e-9


# Which host a resource is asked of, and what a refusal tells.


def ask(host: str | None = None, *excluded: str, memory_mb: int = 100) -> ResourceAsk:
    return ResourceAsk("r", host, excluded, memory_mb, 1, 5.0)


def view(host: str, free: int, containers: int = 0, cores: int = 2, **more: float) -> KnownHost:
    return KnownHost(host, free, cores, containers, more.get("lost_for_s"))


def test_the_most_free_memory_then_the_fewest_containers_then_the_name() -> None:
    """The order is total, so that a repeated choice is the same choice."""
    assert choose_host(ask(), [view("a", 200), view("b", 300)]) == "b"
    assert choose_host(ask(), [view("a", 300, 2), view("b", 300, 1)]) == "b"
    assert choose_host(ask(), [view("b", 300, 1), view("a", 300, 1)]) == "a"


def test_excluded_lost_and_full_hosts_are_left_out() -> None:
    """Cores count as memory does."""
    hosts = [
        view("excluded", 900),
        view("lost", 900, lost_for_s=3.0),
        view("small", 99),
        view("busy", 900, cores=0),
        view("fits", 100),
    ]
    assert choose_host(ask(None, "excluded"), hosts) == "fits"
    assert choose_host(ask("small"), hosts) is None


def test_the_explanation_names_every_candidate_and_what_was_seen() -> None:
    """Lost, excluded, full with numbers, silent, refused by its agent, unknown."""
    hosts = {
        v.host: v
        for v in (view("a", 50), view("b", 900), view("c", 0, lost_for_s=130.0), view("d", 900))
    }
    assert explain(ask(None, "b"), hosts, {"d": "OSError: disk full"}) == (
        "no host could hold 100 MiB and 1 cores within 5 s; "
        "a: full, 50 MiB and 2 cores free, 100 MiB and 1 cores needed; b: left out by a rule of placement; "
        "c: lost, no word for 130.0 s; d: refused: OSError: disk full"
    )
    assert explain(ask("b"), hosts, {}).endswith(
        "b: has room, but its agent did not answer in time"
    )
    assert explain(ask("z"), hosts, {}).endswith("z: not registered")
    assert explain(ask(), {}, {}).endswith("no host is registered")
