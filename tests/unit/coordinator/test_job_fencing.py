"""When a coordinator finds out whether its brokers can fence, and what it leaves to others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.cluster.local import LocalAgents
from samza_dagster.coordinator import leadership
from samza_dagster.coordinator.fencing import job_fencing
from samza_dagster.coordinator.fencing.broker_fence import BrokerFence
from samza_dagster.coordinator.fencing.job_fencing import JobFencing
from samza_dagster.coordinator.fencing.principals import (
    Principals,
    is_fresh_rehearsal,
    rehearsal_id,
)
from samza_dagster.coordinator.launch import LaunchTemplate
from samza_dagster.coordinator.leadership import LeaderSettings, Leadership
from samza_dagster.errors import Refused, Unreachable
from samza_dagster.metadata.authorizer import AclRule
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_owner import Deployed
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.principal_view import PrincipalView
from samza_dagster.placement.state import Fencing, JobState, Limits
from tests.unit.coordinator.test_principals import state

pytestmark = pytest.mark.unit

NOW_MS = 1_795_264_662_180
PRINCIPALS = Principals("j", "1", ("kafka",), "a:1", "SASL_SSL", "SCRAM-SHA-512", "", b"s" * 32)
CLUSTER = KafkaCluster("a:1")


def test_a_failed_examination_is_no_word_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was in the way may be gone: the next one begins anew. One that held is enough."""
    outcomes: list[Exception | None] = [Refused("fence", seen="no login"), None]

    def examine(*_: object) -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    monkeypatch.setattr(job_fencing, "require_fence", examine)
    fencing = JobFencing({}, PRINCIPALS)
    fencing.begin_examination(CLUSTER)
    with pytest.raises(Refused):
        fencing.require()
    for _ in range(2):
        fencing.begin_examination(CLUSTER)
        fencing.require()
    assert outcomes == []


def test_who_cant_fence_never_waits_for_its_turn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It says so as it starts, not weeks later when it is needed."""

    def refuse(*_: object) -> None:
        raise Refused("samza.dagster.fencing=broker", seen="no authorizer")

    def wait(*_: object) -> bool:
        pytest.fail("it waits for its turn")

    monkeypatch.setattr(job_fencing, "require_fence", refuse)
    monkeypatch.setattr(leadership, "partition_counts", lambda *_: {})
    monkeypatch.setattr(leadership, "ensure_topics", lambda *_, **__: frozenset())
    monkeypatch.setattr(leadership, "read_deployed", lambda _: Deployed())
    monkeypatch.setattr(Leadership, "_is_my_turn", wait)
    config = {"job.name": "j", "task.inputs": "kafka.in"}
    settings = LeaderSettings(
        Connection("a:1", "j"),
        config,
        LaunchTemplate(command=("c",)),
        LocalAgents(tmp_path / "url", "token"),
    )
    coordinator = Leadership(settings)
    coordinator._fencing = JobFencing(config, PRINCIPALS)
    with pytest.raises(Refused, match="no authorizer"):
        coordinator.run()


class Brokers:
    """Notes whose rules and logins are removed, and who is let in; knows `users`."""

    def __init__(self) -> None:
        self.removed: list[str] = []
        self.let_in: list[str] = []
        self.users: set[str] = set()

    def require(self) -> None: ...

    def add_rules(self, rules: Any) -> None: ...

    def logins(self) -> set[str]:
        return self.users

    def set_login(self, user: str, password: str, mechanism: str) -> None:
        self.let_in.append(user)

    def remove_rules_of(self, principals: Any) -> None:
        self.removed += list(principals)

    def remove_logins(self, users: Any, mechanism: str) -> None: ...

    def rules(self) -> list[AclRule]:
        return []


def fence_at(brokers: Brokers, fenced: Callable[[str], None] = lambda _: None) -> BrokerFence:
    return BrokerFence(
        PRINCIPALS,
        brokers,  # pyright: ignore[reportArgumentType]
        security={},
        fenced=fenced,
    )


def test_a_take_over_leaves_an_examination_that_is_under_way_alone() -> None:
    """Of a coordinator that stands by, or of `doctor`: it would fail by that."""
    brokers = Brokers()
    fence = fence_at(brokers)
    fresh, old = rehearsal_id(NOW_MS - 60_000), rehearsal_id(NOW_MS - 7_200_000)
    before = frozenset({fresh, old, "j-1-0-000001"})
    fence.clean_up(before, JobState("j-1"), NOW_MS)
    assert brokers.removed == sorted(map(PRINCIPALS.principal, (old, "j-1-0-000001")))


def test_who_was_launched_without_a_login_gets_none_when_its_start_is_said_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next leader would take it for fenced, and it would go on under the job's own login."""
    brokers = Brokers()
    fence = fence_at(brokers)
    monkeypatch.setattr(BrokerFence, "at", lambda *_: fence)
    monkeypatch.setattr(PrincipalView, "brokers_without_login", lambda _: ())
    stored = state("j-1-0-000001", "j-1-1-000002", fencing=Fencing.LEASE)
    brokers.users = {PRINCIPALS.user("j-1-1-000002")}
    term = JobFencing({}, PRINCIPALS).at_take_over(CLUSTER, stored, lambda _: None)
    assert term is not None
    for execution_id in ("j-1-0-000001", "j-1-1-000002", "j-1-2-000003"):
        term.fence.admit(execution_id)
    assert brokers.let_in == [PRINCIPALS.user(f"j-1-{n}-00000{n + 1}") for n in (1, 2)]
    assert term.limits(Limits(fencing=Fencing.BROKER)).fencing is Fencing.LEASE


def test_only_an_examination_has_such_a_name() -> None:
    """Not a container, whatever its job is called; nor one of a release before."""
    assert is_fresh_rehearsal(rehearsal_id(NOW_MS), NOW_MS)
    for name in ("examination-1-0-000001", "examination-0123456789abcdef", "j-1-0-000001"):
        assert not is_fresh_rehearsal(name, NOW_MS)


def test_an_error_that_nobody_expects_doesnt_end_fencing(caplog: pytest.LogCaptureFixture) -> None:
    """It is told with its traceback, and the fence is tried again."""
    fenced: list[str] = []
    fence = fence_at(Brokers(), fenced.append)
    outcomes: list[Exception | None] = [KeyError("x"), None]

    def fence_now(execution_id: str) -> tuple[str, ...]:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        fence._closed = True
        return ()

    fence.fence_now = fence_now
    fence._changed.wait = lambda timeout=None: True
    fence._to_fence = {"x-1": None}
    fence._work()
    assert fenced == ["x-1"]
    assert "Traceback" in caplog.text


class Absent(Brokers):
    """Brokers that are away for the first two removals."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.errors: list[Exception] = [Unreachable("brokers"), KeyError("x")]

    def remove_rules_of(self, principals: Any) -> None:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        super().remove_rules_of(principals)


def test_what_was_seen_dead_while_the_brokers_were_away_is_removed_when_they_are_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its login and rules don't stay until the next take-over, nor does any error end the removal."""
    brokers = Absent()
    fence = fence_at(brokers)
    pauses: list[float | None] = []

    def wait(timeout: float | None = None) -> bool:
        pauses.append(timeout)
        fence._closed = timeout is None  # nothing is left to do
        return True

    fence._changed.wait = wait
    fence.remove("x-1")
    fence.remove("x-2")
    fence._work()
    assert brokers.removed == [PRINCIPALS.principal("x-1"), PRINCIPALS.principal("x-2")]
    assert brokers.asked == 3
    assert [pause is None for pause in pauses] == [False, False, True]
    assert "Traceback" in caplog.text


def test_brokers_that_are_away_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A removal is tried twice a second, for hours perhaps."""
    brokers = Absent()
    brokers.errors = [Unreachable("brokers") for _ in range(5)]
    fence = fence_at(brokers)
    fence._changed.wait = lambda timeout=None: True
    for _ in range(6):
        fence._to_remove = {"x-1": None}
        fence._try_to_remove(["x-1"])
    assert len(caplog.records) == 1
    assert fence._to_remove == {}
