"""Each command's output, its JSON and its exit code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samza_dagster.errors import Unreachable
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.model import StatusCode

pytestmark = pytest.mark.unit

UUID = "88b0d30c-d518-4307-9e8e-c8529eb30f04"
MOVED = "Successfully completed the container placement action started container on host host-2"


def test_place_waits_and_shows_every_status(commands: Any) -> None:
    """Statuses on stderr as they come, the outcome on stdout."""
    commands.answers = [
        (StatusCode.IN_PROGRESS, "Preferred Resources requested"),
        (StatusCode.SUCCEEDED, MOVED),
    ]
    result = commands.run("place", "0", "--to", "host-2", "--uuid", UUID)
    assert result.exit_code == 0
    assert "Preferred Resources requested" in result.stderr
    assert "Preferred Resources requested" not in result.stdout
    assert UUID in result.stdout
    assert "SUCCEEDED" in result.stdout


@pytest.mark.parametrize(
    ("status", "code"),
    [(StatusCode.SUCCEEDED, 0), (StatusCode.FAILED, 1), (StatusCode.BAD_REQUEST, 2)],
)
def test_place_exits_by_the_outcome(commands: Any, status: StatusCode, code: int) -> None:
    """And prints request, timeline and outcome as one document."""
    commands.answers = [(StatusCode.IN_PROGRESS, "Preferred Resources requested"), (status, "m")]
    document = commands.json("place", "0", "--to", "host-2", code=code)
    assert document["request"]["destinationHost"] == "host-2"
    assert [r["statusCode"] for r in document["responses"]] == ["IN_PROGRESS", status.value]
    assert document["response"]["responseMessage"] == "m"


def test_place_without_waiting_returns_the_request(commands: Any) -> None:
    """No outcome is claimed."""
    document = commands.json("place", "0", "--to", "host-2", "--no-wait", "--request-expiry", "1.5")
    assert document["request"]["requestExpiry"] == 1500
    assert document["response"] is None


def test_place_that_runs_out_of_time_exits_3(commands: Any) -> None:
    """And says what was seen and how to go on."""
    document = commands.json("place", "0", "--to", "host-2", "--timeout", "0.2", code=3)
    assert document["error"] == "DeadlineExceeded"
    assert "no coordinator has taken it" in document["seen"]
    assert "samza-dagster status" in document["fix"]


def test_dry_run_writes_nothing_and_exits_as_the_request_would(commands: Any) -> None:
    """0 for a legal one, 2 for one that would be refused, with the plan in both cases."""
    end = commands.store.end_position()
    legal = commands.json("place", "0", "--to", "host-2", "--dry-run")
    assert legal["refusal"] is None
    assert "reserves" in legal["steps"][0]
    illegal = commands.json("place", "0", "--to", "host-3", "--dry-run", code=2)
    assert "0-0 is on host-3" in illegal["refusal"]
    assert commands.store.end_position() == end


def test_explain_answers_for_every_host(commands: Any) -> None:
    """Exit 0 for an illegal destination too: the question is answered."""
    plan = commands.json("explain", "0", "--to", "host-3")
    assert [(h["host"], h["legal"]) for h in plan["hosts"]] == [
        ("host-1", True),
        ("host-2", True),
        ("host-3", False),
        ("host-4", True),
    ]
    text = commands.run("explain", "0", "--to", "host-3").stdout
    assert "never on one host" in text
    assert "samza-dagster place 0-0 --to" in text


def test_explain_without_a_destination_tells_of_all_hosts(commands: Any) -> None:
    """As the advice of checks and of auto_failover has it: `samza-dagster explain <processor>`."""
    plan = commands.json("explain", "0")
    assert plan["destination"] == "host-2", "ANY_HOST by its name: Samza's AM coordinates"
    assert [h["host"] for h in plan["hosts"] if h["legal"]] == ["host-1", "host-2", "host-4"]
    assert commands.run("explain", "0-0").exit_code == 0


def test_a_refused_place_is_exit_2_with_the_three_facts(commands: Any) -> None:
    """As text on stderr, or as JSON on stdout; nothing is written."""
    end = commands.store.end_position()
    result = commands.run("place", "9", "--to", "host-2")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "seen: processors 0, 0-0, 1, 1-0" in result.stderr
    document = commands.json("place", "9", "--to", "host-2", code=2)
    assert document["asked"] == "processor '9' of job j 1"
    assert document["exit_code"] == 2
    assert commands.store.end_position() == end


def test_status_of_the_job_of_a_processor_and_of_a_request(commands: Any) -> None:
    """By what is named; a processor comes with the actions issued on it."""
    commands.answers = [(StatusCode.SUCCEEDED, MOVED)]
    commands.json("place", "0", "--to", "host-2", "--uuid", UUID)
    job = commands.json("status")
    assert job["coordinator"] == "samza"
    assert job["processors"]["0-0"]["host"] == "host-3"
    processor = commands.json("status", "0")
    assert processor["processor"]["mode"] == "Active"
    assert [r["uuid"] for r in processor["history"]] == [UUID]
    assert commands.json("status", "1")["history"] == []
    request = commands.json("status", UUID)
    assert request["response"]["statusCode"] == "SUCCEEDED"
    for arguments in ((), ("0",), (UUID,)):
        text = commands.run("status", *arguments)
        assert text.exit_code == 0
        assert "host-" in text.stdout


def test_status_of_a_request_whose_am_was_replaced_says_that_it_is_over(commands: Any) -> None:
    """Its last status stays in the stream for good: nobody goes on with it."""
    commands.answers = [(StatusCode.IN_PROGRESS, "Preferred Resources requested")]
    commands.json("place", "0", "--to", "host-2", "--uuid", UUID, "--no-wait")
    assert commands.json("status", UUID)["over"] is None
    record = stream.set_config(Author("nm3", "samza", 0), "app.run.id", "run-2")
    assert record.value is not None
    commands.store.put(record.namespace, record.key, record.value)
    assert "over: deployment run-1 ended; run-2 runs" in commands.run("status", UUID).stderr
    assert commands.json("status", UUID)["over"] == "over: deployment run-1 ended; run-2 runs"


def test_a_dry_run_refuses_a_hold_that_samzas_am_doesnt_know(commands: Any) -> None:
    """As the request is: `place` without it does the same there."""
    result = commands.run("place", "0", "--to", "host-2", "--hold", "--dry-run")
    assert result.exit_code == 2
    assert "reserves before it stops" in result.output


@pytest.mark.parametrize("what", [UUID, "7"])
def test_status_of_what_isnt_known_is_exit_2(commands: Any, what: str) -> None:
    """With what is known instead."""
    assert commands.json("status", what, code=2)["fix"]


def test_locality_of_processors_and_tasks(commands: Any) -> None:
    """In Samza's own form, and per task."""
    document = commands.json("locality")
    assert document["processor-localities"]["1-0"]["host"] == "host-4"
    assert document["task-localities"] == {
        "P 0": "host-1",
        "P 1": "host-2",
        "Standby-P 0-0": "host-3",
        "Standby-P 1-0": "host-4",
    }
    assert "Standby-P 1-0" in commands.run("locality").stdout


def test_lag_of_every_replica(commands: Any) -> None:
    """An unknown lag is null, never 0."""
    replicas = commands.json("lag")["replicas"]
    assert len(replicas) == 4
    assert {(r["end_offset"], r["lag"], r["basis"]) for r in replicas} == {(10, None, "none")}
    assert "known by" in commands.run("lag").stdout


def test_a_broker_that_doesnt_answer_is_exit_4(commands: Any) -> None:
    """For every command of the client."""
    commands.error = Unreachable("read", seen="127.0.0.1:1", fix="start it")
    for arguments in (["status"], ["locality"], ["lag"], ["place", "0", "--to", "h"]):
        assert commands.json(*arguments, code=4)["error"] == "Unreachable"


def test_ctrl_c_before_the_write_claims_no_write(
    commands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the request got into the stream isn't known then, and that is what is said."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("samza_dagster.client.PlacementClient.place", interrupted)
    result = commands.run("place", "0", "--to", "host-2", "--uuid", UUID)
    assert result.exit_code == 130
    assert f"may have been written: samza-dagster status {UUID}" in result.stderr


@pytest.mark.parametrize(
    ("said", "is_told"),
    [
        ("failed to start container on destination host host-2, attempting to start on source host host-1", True),
        ("failed to stop it; started again, said somebody", False),
    ],
)  # fmt: skip
def test_a_container_that_did_not_start_comes_with_the_place_of_its_log(
    commands: Any, said: str, is_told: bool
) -> None:
    """Samza's texts say that it failed, not why."""
    commands.answers = [(StatusCode.FAILED, said)]
    result = commands.run("place", "0", "--to", "host-2")
    assert result.exit_code == 1
    assert ("last-failure/0.log" in result.stderr) is is_told


@pytest.mark.parametrize(
    ("status", "code"),
    [(StatusCode.SUCCEEDED, 0), (StatusCode.FAILED, 1), (StatusCode.BAD_REQUEST, 2)],
)
@pytest.mark.parametrize("waits", ["--wait", "--no-wait"])
def test_a_request_that_is_repeated_writes_nothing_and_says_so(
    commands: Any, status: StatusCode, code: int, waits: str
) -> None:
    """The first outcome stands: it is what is told, also by the exit status and as JSON."""
    asked = ("place", "0", "--to", "host-2", "--uuid", UUID)
    commands.answers = [(status, "as it was")]
    first = commands.run(*asked)
    assert f"Request {UUID} is written." in first.stderr
    end = commands.store.end_position()
    again = commands.run(*asked, waits)
    assert f"Request {UUID} is written." not in again.stderr
    assert f"has ended as {status.value}: nothing is written" in " ".join(again.stderr.split())
    as_json = commands.run(*asked, waits, "--json")
    told = json.loads(as_json.stdout)
    assert (told["written"], told["response"]["statusCode"]) == (False, status.value)
    assert [result.exit_code for result in (first, again, as_json)] == [code] * 3
    assert commands.store.end_position() == end


def test_a_request_that_waits_is_told_so_when_it_is_repeated(commands: Any) -> None:
    """No coordinator has answered: nothing is written a second time."""
    asked = ("place", "0", "--to", "host-2", "--uuid", UUID, "--no-wait")
    assert json.loads(commands.run(*asked, "--json").stdout)["written"] is True
    again = commands.run(*asked)
    assert again.exit_code == 0
    assert "has no status: nothing is written" in " ".join(again.stderr.split())


def test_place_notices_the_stops_that_samzas_am_counts_and_goes_beyond_them_when_told(
    commands: Any,
) -> None:
    """From the fifth in a row; the eighth only with --beyond-budget, as the dry run has said."""
    place = ("place", "0", "--to", "LAST_SEEN", "--no-wait")
    noticed = ["in a row" in commands.run(*place).stderr for _ in range(7)]
    assert noticed == [False] * 4 + [True] * 3
    assert "stop 8 of 0 in a row" in commands.json(*place, "--dry-run", code=2)["refusal"]
    assert "--beyond-budget" in commands.json(*place, code=2)["fix"]
    assert "stop 8 of 0 in a row" in commands.run(*place, "--beyond-budget").stderr
