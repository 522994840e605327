"""Whose a deployment is, by what coordinator stream and state topic say."""

from __future__ import annotations

import threading
from dataclasses import dataclass

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
