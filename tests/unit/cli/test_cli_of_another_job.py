"""Topics that another job has by Samza's rule for names: each command says whose they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from samza_dagster.client import audit_history
from samza_dagster.coordinator import diagnosis
from samza_dagster.errors import Refused, Unreachable
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.metadata.job_owner import Deployed

pytestmark = pytest.mark.unit

OTHERS = Refused("job wd-v1, id 1", seen="topic t is of job wd_v1, id 1", fix="job.name=wd_v1")


@pytest.fixture
def others(commands: Any) -> Any:
    """The job `j` of the commands over a stream that says it is of `j_2`."""
    record = stream.set_config(Author("h", "samza", 1), "job.name", "j_2")
    assert record.value is not None
    commands.store.put(record.namespace, record.key, record.value)
    return commands


@pytest.mark.parametrize("command", [("locality",), ("status",), ("lag",), ("explain", "0")])
def test_what_reads_the_coordinator_stream_says_so(others: Any, command: tuple[str, ...]) -> None:
    """With the name to give instead."""
    document = others.json(*command, code=2)
    assert "is of job j_2, id 1" in document["seen"]
    assert "job.name=j_2" in document["fix"]


def test_a_client_tells_no_locality_of_another_job(others: Any) -> None:
    """Assets and checks read it without the view."""
    with pytest.raises(Refused, match="is of job j_2"):
        others.client(None).locality()


def test_verify_checks_no_history_of_another_job(
    commands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be whole and in order, and be taken for this job's."""

    def refuse(_connection: Connection) -> None:
        raise OTHERS

    there = SimpleNamespace(kept_since_ms=lambda: None, close=lambda: None)
    monkeypatch.setattr(audit_history, "open_audit", lambda _: there)
    monkeypatch.setattr(audit_history, "require_own_topics", refuse)
    document = commands.json("verify", "--bootstrap-servers", "h:1", "--job-name", "wd-v1", code=2)
    assert document["seen"] == OTHERS.seen


def test_doctor_finds_that_a_jobs_topics_are_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition as any other; while the brokers don't answer it isn't known."""
    job = Connection("h:1", "wd-v1")

    def raises(error: Exception) -> None:
        def read(_connection: Connection) -> Deployed:
            raise error

        monkeypatch.setattr(diagnosis, "read_deployed", read)

    raises(OTHERS)
    found, _ = diagnosis.owner(job)
    assert (found.ok, found.seen, found.fix) == (False, OTHERS.seen, OTHERS.fix)
    raises(Unreachable("read topic t"))
    with pytest.raises(Unreachable):
        diagnosis.owner(job)
    monkeypatch.setattr(diagnosis, "read_deployed", lambda _connection: Deployed())
    assert diagnosis.owner(job)[0].ok
