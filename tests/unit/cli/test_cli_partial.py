"""What one part of a job's topics tells is shown though another can't be read: exit code 4."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.cli import doctor as doctors
from samza_dagster.client import PlacementClient, audit_history
from samza_dagster.client.audit_history import AuditHistory
from samza_dagster.coordinator import diagnosis
from samza_dagster.coordinator.fencing.examination import Condition
from samza_dagster.errors import InvalidInput, Unreachable
from samza_dagster.metadata import Connection
from samza_dagster.model import StatusCode
from tests.unit.placement.chronicle import Chronicle

pytestmark = pytest.mark.unit

PROPERTIES = (
    "job.name=j\nsystems.kafka.producer.bootstrap.servers=127.0.0.1:1\njob.default.system=kafka\n"
)
LOST = Unreachable("read the state topic", seen="state-0 has no leader", fix="start its broker")


class NoState:
    """A state topic without a leader."""

    def read(self) -> None:
        raise LOST

    def close(self) -> None:
        """Nothing to release."""


@pytest.fixture
def stateless(commands: Any) -> Any:
    """A job of which the coordinator stream alone can be read, with an action that ended."""
    commands.answers = [(StatusCode.SUCCEEDED, "done")]
    request = commands.json("place", "0", "--to", "host-9", "--allow-unknown-host")["request"]
    commands.uuid = request["uuid"]
    commands.state = NoState()
    return commands


def test_status_shows_the_job_as_the_coordinator_stream_has_it(stateless: Any) -> None:
    """And says what is missing."""
    document = stateless.json("status", code=4)
    assert document["processors"]["0-0"]["host"] == "host-3"
    assert document["unread"] == "state-0 has no leader"
    shown = stateless.run("status")
    assert (shown.exit_code, "host-3" in shown.stdout) == (4, True)
    assert "state can't be read: state-0 has no leader" in shown.stderr


def test_status_of_a_processor_and_of_a_request_show_what_the_stream_has(stateless: Any) -> None:
    """A request in the stream is answered in the stream: nothing is missing of it."""
    document = stateless.json("status", "0", code=4)
    assert [response["uuid"] for response in document["history"]] == [stateless.uuid]
    found = stateless.json("status", stateless.uuid)
    assert found["response"]["statusCode"] == "SUCCEEDED"
    unknown = stateless.json("status", "11111111-1111-4111-8111-111111111111", code=4)
    assert unknown["seen"] == "state-0 has no leader"


def test_locality_is_of_the_coordinator_stream(stateless: Any) -> None:
    """Only standbys that were spun up may be missing."""
    document = stateless.json("locality", code=4)
    assert document["task-localities"]["P 0"] == "host-1"
    assert document["unread"] == "state-0 has no leader"


def test_what_decides_isnt_answered_in_part(stateless: Any) -> None:
    """A plan over half of what is known could break a rule."""
    assert stateless.json("explain", "0", code=4)["seen"] == "state-0 has no leader"


def test_verify_checks_the_records_though_nobody_tells_which_is_the_last(
    commands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A violation among them is one all the same."""
    job = Chronicle()
    job.start("0", "host-1")
    job.start("0-0", "host-2")

    class Log:
        def records(self) -> tuple[Any, ...]:
            return ()

    def no_head() -> None:
        raise LOST

    assert audit_history.consistent(Log(), no_head).unread == "state-0 has no leader"
    found = AuditHistory(tuple(job.records), unread="state-0 has no leader")
    monkeypatch.setattr(audit_history, "read_history", lambda _connection: found)
    given = ("verify", "--bootstrap-servers", "h:1", "--job-name", "j")
    assert commands.json(*given, code=4)["ok"] is True
    shown = commands.run(*given)
    assert "No rule is broken" in shown.stdout
    assert "Whether records are missing at the end isn't checked" in shown.stderr
    found = AuditHistory(tuple(reversed(job.records)), unread="state-0 has no leader")
    assert commands.json(*given, code=1)["ok"] is False


@pytest.mark.parametrize(("holds", "code"), [(True, 4), (False, 1)])
def test_doctor_shows_what_it_found_before_something_couldnt_be_asked(
    commands: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, holds: bool, code: int
) -> None:
    """A condition that doesn't hold is the graver news."""

    def report(*_: object) -> Iterator[Condition]:
        yield Condition("the job's inputs exist", holds, "in: 4 partitions")

    def clocks(_connection: object) -> Iterator[Condition]:
        raise LOST
        yield

    monkeypatch.setattr(doctors, "machine_findings", list)
    monkeypatch.setattr(diagnosis, "access_findings", lambda _, **__: iter(()))
    monkeypatch.setattr(diagnosis, "report", report)
    monkeypatch.setattr(doctors, "job_findings", clocks)
    config = tmp_path / "job.properties"
    config.write_text(PROPERTIES)
    given = ("doctor", "--config", str(config))
    document = commands.json(*given, code=code)
    assert [check["ok"] for check in document["checks"]] == [True, holds]
    assert [error["seen"] for error in document["unread"]] == ["state-0 has no leader"]
    assert document["ok"] is False
    assert "state-0 has no leader" in commands.run(*given).stderr


def test_doctor_is_for_a_job_that_was_never_deployed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has no coordinator stream yet, and no host whose clock could be looked at."""

    def known_view(_client: PlacementClient) -> None:
        raise InvalidInput("read the job", seen="no topic __samza_coordinator_j_1")

    monkeypatch.setattr(PlacementClient, "known_view", known_view)
    assert list(doctors.job_findings(Connection("127.0.0.1:1", "j"))) == []
