"""Requests of all kinds to Samza's own AM: how they are drawn, and how what was said of them is judged."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest
from click.testing import CliRunner

from samza_dagster.cli.main import cli
from samza_dagster.cli.options import Target
from samza_dagster.client.placement_client import PlacementClient
from samza_dagster.placement import texts
from tests.chaos.am_judge import Claim, Fault, Outcome, Process, Rest, Stream, Word, problems
from tests.chaos.am_requests import (
    CLI,
    KILL_AM,
    LOSE_NODE,
    REFUSED_THERE,
    Ask,
    command,
)
from tests.rig.am_in_memory import AmInMemory

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("kind", sorted(REFUSED_THERE & CLI.keys()))
@pytest.mark.parametrize("detail", range(4))
def test_what_is_to_be_refused_is_by_these_very_words(
    kind: str, detail: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the recorded AM: exit status 2, with a reason, and nothing is written."""
    am = AmInMemory()

    def client(_: Target) -> PlacementClient:
        return am.client

    monkeypatch.setattr(Target, "client", client)
    ask = Ask(1, kind, "0", "nm3", knows_yarn=False, detail=detail)
    ran = CliRunner().invoke(cli, command(ask, str(uuid.uuid4())), standalone_mode=True)
    assert ran.exit_code == 2, ran.output
    assert '"fix"' in ran.stdout
    assert am.placements() == []


ASK = Ask(7, "place", "0", "nm3", knows_yarn=False)
MOVED = Word(ASK, 100_000, 110_000, Outcome.DONE, (Claim("0", "nm3"),), uuid="u1")
BEFORE = Process("0", "nm1", "c1", 1_000, 104_000)
AFTER = Process("0", "nm3", "c2", 109_000, 300_000)
STANDBY = Process("0-0", "nm2", "c3", 1_000, 300_000)
PROCESSES = (BEFORE, AFTER, STANDBY)
STREAM = Stream(
    {"u1": [("IN_PROGRESS", texts.STOP_IN_PROGRESS), ("SUCCEEDED", texts.started("nm3"))]},
    {"u1": "0"},
)
THERE = {"0": "nm3", "0-0": "nm2"}
REST = Rest("RUNNING", 0, (), THERE, THERE, {"nm2": 1, "nm3": 2, "nm4": 0}, "nm3")


def test_what_was_said_truly_is_no_problem() -> None:
    assert problems([MOVED], PROCESSES, [], STREAM, REST) == []


def edited(**changes: object) -> Callable[[], list[str]]:
    """The judgement of the same with one thing otherwise."""
    given = {
        "words": [MOVED],
        "processes": PROCESSES,
        "faults": (),
        "stream": STREAM,
        "rest": REST,
        **changes,
    }
    return lambda: problems(**given)  # type: ignore[arg-type]


ELSEWHERE = replace(AFTER, host="nm4")
OTHERWISE = {
    "it was started on another host": edited(processes=(BEFORE, ELSEWHERE, STANDBY)),
    "it was started long before": edited(processes=(replace(AFTER, first_ms=50_000), STANDBY)),
    "it was never started": edited(processes=(BEFORE, STANDBY)),
    "nobody has asked for a second start": edited(stream=Stream()),
    "a refused one was written": edited(words=[replace(MOVED, outcome=Outcome.REFUSED)]),
    "it says over, and no AM was killed": edited(words=[replace(MOVED, outcome=Outcome.OVER)]),
    "it broke": edited(words=[replace(MOVED, outcome=Outcome.BROKEN)]),
    "its answer is another": edited(
        stream=replace(STREAM, statuses={"u1": [("IN_PROGRESS", texts.STOP_IN_PROGRESS), ("FAILED", "no")]})
    ),
    "it ought to have been refused": edited(
        words=[replace(MOVED, ask=replace(ASK, kind="unnamed host"))]
    ),
    "the AM ended by itself": edited(rest=replace(REST, attempts=1)),
    "the job ended": edited(rest=replace(REST, state="FAILED")),
    "a request is left": edited(stream=replace(STREAM, left=["u9"])),
    "something is in flight for ever": edited(rest=replace(REST, waits=["u9 of 1"])),
    "the view shows another host": edited(rest=replace(REST, shown={**THERE, "0": "nm1"})),
    "YARN counts a container more": edited(rest=replace(REST, per_node={"nm2": 2, "nm3": 2})),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERWISE)
def test_each_untruth_is_told(what: str) -> None:
    assert len(OTHERWISE[what]()) == 1


def test_an_am_that_was_killed_explains_that_a_request_is_over_and_that_all_start_anew() -> None:
    over = replace(MOVED, outcome=Outcome.OVER, claims=())
    again = (
        replace(BEFORE, last_ms=105_000),
        replace(BEFORE, execution_id="c4", first_ms=130_000, last_ms=300_000),
        replace(STANDBY, last_ms=105_000),
        replace(STANDBY, execution_id="c5", first_ms=130_000),
    )
    killed = [Fault(KILL_AM, 105_000)]
    there = {"0": "nm1", "0-0": "nm2"}
    rest = Rest("RUNNING", 1, (), there, there, {"nm1": 1, "nm2": 2}, "nm2")
    assert problems([over], again, killed, Stream(), rest) == []


def test_a_lost_node_explains_the_start_of_its_containers_groups_and_of_nobody_else() -> None:
    """A standby gives way to the active that was there."""
    rest = replace(REST, shown={**THERE, "0-0": "nm4"}, there={**THERE, "0-0": "nm4"}, per_node={"nm3": 2, "nm4": 1})  # fmt: skip
    again = replace(STANDBY, host="nm4", execution_id="c4", first_ms=190_000)
    processes = (BEFORE, AFTER, replace(STANDBY, last_ms=150_000), again)
    lost = Fault(LOSE_NODE, 150_000, "nm2")
    assert problems([MOVED], processes, [lost], STREAM, rest) == []
    gave_way = replace(lost, host="nm3")
    assert problems([MOVED], processes, [gave_way], STREAM, rest) == []
    (told,) = problems([MOVED], processes, [replace(lost, host="nm1")], STREAM, rest)
    assert told == "0-0 was started 2 times, 1 are explained"


@pytest.mark.parametrize(("last_ms", "is_true"), [(105_000, True), (200_000, False)])
def test_a_drained_host_was_empty_once(last_ms: int, is_true: bool) -> None:
    """Others may come there later: at some time after it was asked nobody was."""
    drained = Word(replace(ASK, kind="drain_host"), 100_000, 110_000, Outcome.DONE, (Claim(host="nm1"),))  # fmt: skip
    processes = (replace(BEFORE, last_ms=last_ms), AFTER, STANDBY)
    assert (problems([drained], processes, [], STREAM, REST) == []) == is_true
