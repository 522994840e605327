"""A standalone group, asked and shown as a cluster's job is: what is placed there is a task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from samza_dagster.client import PlacementClient
from samza_dagster.client.group_view import by_processor
from samza_dagster.errors import InvalidInput, Refused
from samza_dagster.model import PlacementResponse, StatusCode, TaskMode
from samza_dagster.standalone.group import Barrier, BarrierState, GroupView, Running
from tests.rig.standalone_job import StandaloneJob, model_of, settled

pytestmark = pytest.mark.unit


@pytest.fixture
def job() -> StandaloneJob:
    return StandaloneJob()


@pytest.fixture
def client(job: StandaloneJob) -> PlacementClient:
    return PlacementClient(job.access())


def test_each_task_is_shown_where_its_processor_is(client: PlacementClient) -> None:
    """A task and its standby are a group, locations are hosts, and the processors stand beside."""
    view = client.view()
    assert (view.coordinator, view.deployment_id) == ("standalone", "standalone")
    assert {t: (p.mode, p.host, p.state) for t, p in view.processors.items()} == {
        "P 0": (TaskMode.ACTIVE, "host-a", "last-seen"),
        "P 1": (TaskMode.ACTIVE, "host-b", "last-seen"),
        "Standby-P 0-0": (TaskMode.STANDBY, "host-b", "last-seen"),
        "Standby-P 1-0": (TaskMode.STANDBY, "host-c", "last-seen"),
    }
    assert {view.group_of(task) for task in ("P 0", "Standby-P 0-0")} == {"P 0"}
    assert {h.host: h.state for h in view.hosts.values()} == dict.fromkeys(
        ("host-a", "host-b", "host-c"), "alive"
    )
    assert {pid: member.tasks for pid, member in view.members.items()} == {
        "a": ("P 0",),
        "b": ("P 1", "Standby-P 0-0"),
        "c": ("Standby-P 1-0",),
    }
    assert view.agreement is not None
    assert (view.agreement.leader, view.agreement.agreed) == ("a", 3)
    assert view.troubles == ()
    assert client.locality().host_of("Standby-P 1-0") == "host-c"


def test_the_config_is_what_a_processor_has_published_but_its_secrets(
    client: PlacementClient, job: StandaloneJob
) -> None:
    """By it a client knows the stores and how often is reported."""
    assert client.view().report_every_s == 5
    assert client.view().tells_lag
    assert "s3cret" not in str(job.store.whole())


def test_a_task_that_has_not_started_where_it_is_to_be_is_starting(job: StandaloneJob) -> None:
    """Its processor writes that it runs there only then."""
    job.group = replace(job.group, locality={**job.group.locality, "P 0": "host-c"})
    task = PlacementClient(job.access()).view().processors["P 0"]
    assert (task.state, task.host, task.last_seen_host) == ("starting", "host-a", "host-c")


def test_a_task_is_starting_until_its_processor_runs_the_agreed_version(job: StandaloneJob) -> None:
    """Where it was before it may be still, by the location alone."""
    job.group = replace(job.group, running={**job.group.running, "0000000000": Running(2)})
    assert PlacementClient(job.access()).view().processors["P 0"].state == "starting"


def test_under_a_leader_of_samzas_own_a_request_waits(job: StandaloneJob) -> None:
    """It knows no such request."""
    job.leads = False
    client = PlacementClient(job.access())
    client.place("P 0", "host-c")
    first, *others = job.group.members
    job.group = replace(job.group, members=(first._replace(holds_standbys=False), *others))
    (waiting,) = client.view().queued
    assert "a leads, a processor of Samza's own" in waiting.trouble


def test_a_task_whose_processor_has_gone_is_nowhere(job: StandaloneJob) -> None:
    """Its location is lost while nobody else is there, and takes nothing."""
    job.group = replace(job.group, members=job.group.members[1:])
    client = PlacementClient(job.access())
    view = client.view()
    assert (view.processors["P 0"].state, view.processors["P 0"].host) == ("unknown", None)
    assert view.hosts["host-a"].state == "lost"
    assert any("nobody processes P 0" in text for text in view.troubles)
    with pytest.raises(Refused, match="host-a"):
        client.place("P 1", "host-a")


def test_a_task_is_placed_and_stays_there(client: PlacementClient, job: StandaloneJob) -> None:
    """One request, answered and waited for as in a cluster."""
    asked = client.place("P 0", "host-c")
    seen: list[PlacementResponse] = []
    assert client.wait(asked.uuid, timeout_s=5, on_response=seen.append).status_code is (
        StatusCode.SUCCEEDED
    )
    assert job.asked[0].deployment_id == "standalone"
    task = client.view().processors["P 0"]
    assert (task.host, task.pinned) == ("host-c", True)
    assert client.place("P 0", "host-c", uuid=asked.uuid).uuid == asked.uuid
    assert len(job.asked) == 1


def test_an_active_swaps_its_place_with_its_standby(client: PlacementClient) -> None:
    """One request for both; two locations are enough."""
    plan = client.plan("P 0", "STANDBY")
    assert (plan.refusal, plan.host) == (None, "host-b")
    assert "standby the other way" in plan.steps[0]
    client.place("P 0", "STANDBY")
    processors = client.view().processors
    assert (processors["P 0"].host, processors["Standby-P 0-0"].host) == ("host-b", "host-a")


@pytest.mark.parametrize(
    ("unit", "destination", "rule"),
    [
        ("P 0", "host-b", "never on one host"),
        ("Standby-P 0-0", "host-a", "never on one host"),
        ("Standby-P 0-0", "STANDBY", "for an active"),
        ("P 0", "LAST_SEEN", "a task restarts with its processor"),
        ("P 0", "FORCE_RESTART_LAST_SEEN", "a task restarts with its processor"),
        ("a", "host-b", "a processor restarts where it is"),
        ("a", "FORCE_RESTART_LAST_SEEN", "a processor restarts where it is"),
        ("P 0", "host-z", "host-z"),
        ("P 9", "host-c", "P 9"),
    ],
)
def test_what_a_group_cant_do_is_refused_before_it_is_asked(
    client: PlacementClient, job: StandaloneJob, unit: str, destination: str, rule: str
) -> None:
    """With the smallest change that makes it legal."""
    with pytest.raises(InvalidInput, match=rule) as refused:
        client.place(unit, destination)
    assert refused.value.fix
    assert job.asked == []


def test_a_processor_is_restarted_as_a_whole(client: PlacementClient, job: StandaloneJob) -> None:
    """No task moves."""
    assert "no task moves" in client.plan("b", "LAST_SEEN").steps[0]
    asked = client.place("b", "LAST_SEEN")
    assert client.wait(asked.uuid, timeout_s=5).status_code is StatusCode.SUCCEEDED
    assert job.places == {"P 0": "a", "P 1": "b", "Standby-P 0-0": "b", "Standby-P 1-0": "c"}


def test_who_restarts_processors_sees_them_in_place_of_tasks(client: PlacementClient) -> None:
    """One with standbys alone goes with the active of one of them, and is never down beside it."""
    view = by_processor(client.view())
    assert {pid: view.is_standby(pid) for pid in view.processors} == {
        "a": False,
        "b": False,
        "c": True,
    }
    assert view.group_of("c") == "b"


@pytest.mark.parametrize(
    ("ask", "instead"),
    [
        (lambda client: client.reserve("P 0", "host-c"), "without it"),
        (lambda client: client.start_standby("P 0"), "replication.factor"),
        (lambda client: client.stop_standby("Standby-P 0-0"), "replication.factor"),
        (lambda client: client.fail_over("P 0"), "--to STANDBY"),
    ],
)
def test_what_our_coordinator_alone_can_is_refused_with_what_to_do(
    client: PlacementClient, ask: Callable[[PlacementClient], object], instead: str
) -> None:
    """A group has no such request."""
    with pytest.raises(Refused, match="only samza_dagster's coordinator") as refused:
        ask(client)
    assert "standalone group" in refused.value.seen
    assert instead in refused.value.fix


def test_a_request_waits_while_nobody_leads(job: StandaloneJob) -> None:
    """The view says so beside it."""
    job.leads = False
    client = PlacementClient(job.access())
    asked = client.place("P 0", "host-c")
    job.group = GroupView(version=3, agreed=3, model=job.group.model, locality=job.group.locality)
    (waiting,) = client.view().queued
    assert waiting.uuid == asked.uuid
    assert "waits until one leads" in waiting.trouble
    assert "nobody leads" in client.view().troubles[0]


def test_a_version_that_is_not_agreed_on_names_whom_it_waits_for(job: StandaloneJob) -> None:
    """As `status` shows it."""
    barrier = Barrier(BarrierState.NEW, frozenset("a"))
    job.group = replace(settled(), version=4, model=model_of(job.places, *"abc"), barrier=barrier)
    agreement = PlacementClient(job.access()).view().agreement
    assert agreement is not None
    assert (agreement.version, agreement.agreed, agreement.awaited) == (4, 3, ("b", "c"))


def test_a_standbys_lag_is_what_its_processor_reports(job: StandaloneJob) -> None:
    """By the task's name, from the location at which it runs; an active that works has all."""
    job.topics.behind = 7
    lags = {lag.task_name: lag for lag in PlacementClient(job.access(job.topics)).lag()}
    standby = lags["Standby-P 0-0"]
    assert (standby.processor_id, standby.host, standby.lag, standby.basis) == (
        *("Standby-P 0-0", "host-b"),
        *(7, "metrics"),
    )
    assert (lags["P 0"].lag, lags["P 0"].basis) == (0, "running")


def test_a_report_from_where_a_task_was_before_tells_nothing_of_it(job: StandaloneJob) -> None:
    """As of a container that was moved."""
    former = dict(job.places)
    client = PlacementClient(job.access(job.topics))
    client.place("Standby-P 0-0", "host-c")
    job.topics.reported_from = former
    lag = next(lag for lag in client.lag() if lag.task_name == "Standby-P 0-0")
    assert (lag.host, lag.lag, lag.basis) == ("host-c", None, "none")
