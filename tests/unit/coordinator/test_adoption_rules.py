"""Whose a deployment is, by what coordinator stream and state topic say."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from samza_dagster.coordinator import adoption
from samza_dagster.coordinator.adoption import require_ended, require_ours
from samza_dagster.errors import Refused, Unreachable
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.job_owner import Deployed, deployed_by
from samza_dagster.metadata.resource_manager import Application, Cluster
from tests.rig.memory_store import MemoryMetadataStore

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "deployed",
    [Deployed(), Deployed(ours="run-1"), Deployed(run_id="run-1", ours="run-1")],
    ids=["nothing was deployed", "the stream was made anew", "both say the same"],
)
def test_what_nobody_else_deployed_is_led_unasked(deployed: Deployed) -> None:
    require_ours(deployed, adopt=False)


@pytest.mark.parametrize("ours", [None, "run-0"])
def test_what_another_deployed_is_led_when_told_to(ours: str | None) -> None:
    deployed = Deployed(run_id="run-1", ours=ours)
    with pytest.raises(Refused, match="--adopt"):
        require_ours(deployed, adopt=False)
    require_ours(deployed, adopt=True)


def test_a_record_that_cant_be_read_gives_nobodys_job_away() -> None:
    """One in another's config made its whole deployment nobody's, which was then led unasked."""
    store = MemoryMetadataStore()
    store.put("set-config", "app.run.id", b'{"values":{"value":"run-1"}}')
    store.put("set-config", "poison", b"{")
    assert deployed_by(store, None).run_id == "run-1"
    store.put("set-config", "app.run.id", b"{")
    with pytest.raises(Refused, match="not readable"):
        require_ours(deployed_by(store, None), adopt=False)
    require_ours(deployed_by(store, "run-1"), adopt=False)


@dataclass
class Yarn:
    """A ResourceManager that says this of every job; None: it knows none."""

    state: str | None
    answers: bool = True

    def cluster(self, job_name: str, job_id: str) -> Cluster:
        if not self.answers:
            raise Unreachable("ask YARN's ResourceManager", seen="Connection refused")
        return Cluster("http://rm:8088", {}, None if self.state is None else Application("a1", self.state))  # fmt: skip


def ended(monkeypatch: pytest.MonkeyPatch, yarn: Yarn, run_id: str = "run-1") -> None:
    monkeypatch.setattr(adoption, "resource_manager", lambda _: yarn)
    connection = Connection("a:1", "yw", yarn_resource_manager="http://rm:8088")
    require_ended(Deployed(run_id, "run-0"), connection, threading.Event())


@pytest.mark.parametrize("state", ["RUNNING", "ACCEPTED", "SUBMITTED"])
def test_a_job_isnt_adopted_while_yarn_has_its_application(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Also between two Application Masters, when nothing of it reports or answers."""
    with pytest.raises(Refused, match=f"a1 is {state}; fix: end its YARN application"):
        ended(monkeypatch, Yarn(state))


def test_a_job_isnt_adopted_while_yarn_that_was_to_be_asked_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Unreachable, match="Connection refused"):
        ended(monkeypatch, Yarn(None, answers=False))


@pytest.mark.parametrize("state", ["FINISHED", "KILLED", None])
def test_a_job_that_yarn_has_ended_or_forgotten_is_adopted(
    monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    ended(monkeypatch, Yarn(state))


def test_nobody_is_asked_about_what_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    ended(monkeypatch, Yarn("RUNNING", answers=False), run_id="run-0")


class Reports(threading.Event):
    """Containers that report at these seconds, on a clock that waits move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
        super().__init__()
        self.now_s, self._left = 0.0, list(seconds)
        sample = SimpleNamespace(host="host-4")
        monkeypatch.setattr(adoption.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(adoption, "metrics_topics", lambda _: {"metrics": 5.0})
        monkeypatch.setattr(adoption.KafkaCluster, "of", lambda _: None)
        monkeypatch.setattr(adoption, "FollowedTopic", lambda *_: self)
        monkeypatch.setattr(adoption, "task_samples", lambda came, *_: dict.fromkeys(came, sample))

    def wait(self, timeout: float | None = None) -> bool:
        self.now_s += timeout or 0.0
        return False

    def new_records(self) -> list[SimpleNamespace]:
        due = [at for at in self._left if at <= self.now_s]
        self._left = self._left[len(due) :]
        return [SimpleNamespace(value=at) for at in due]

    def close(self) -> None:
        """As a topic is closed."""

    def required_ended(self) -> None:
        require_ended(Deployed("run-1", "run-0"), Connection("a:1", "yw"), self)


def test_silence_for_an_interval_and_five_seconds_is_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reports = Reports(monkeypatch)
    reports.required_ended()
    assert reports.now_s == 10.0


def test_the_last_report_of_a_container_that_ends_is_no_sign_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It came a second after its application had ended, and the adoption was refused by it."""
    reports = Reports(monkeypatch, 0.5, 1.0)
    reports.required_ended()
    assert reports.now_s == 20.0


def test_containers_that_go_on_reporting_are_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = Reports(monkeypatch, 1.0, 6.0, 11.0)
    with pytest.raises(Refused, match="1 of its tasks report, on host-4"):
        reports.required_ended()
