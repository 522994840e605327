"""Every history of `histories.txt`: what `verify` finds in it.

Its records have the numbers, hashes and digests that they should: a forger who knows the rules.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.placement.state import End
from samza_dagster.placement.verification import Rule, verify
from tests.unit.placement.chronicle import TICK_MS, Chronicle, chained, moved

pytestmark = pytest.mark.unit

LEFT = 9
"""The number of the first record of a history that is cut."""
GONE = End("0_3", 3, "host-1", "dead", 20, "seen dead")


class Told(NamedTuple):
    """A history as it stands in the file."""

    promise: str
    steps: str
    found: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.steps}"


def histories() -> Iterator[Told]:
    """All of them: a promise, and a history in each indented line below it."""
    promise = ""
    for line in Path(__file__).with_name("histories.txt").read_text("utf-8").splitlines():
        if line.startswith("    "):
            yield Told(promise, *line.strip().split(" | "))
        elif line and not line.startswith("#"):
            promise = line


class History(Chronicle):
    """A chronicle that is told in words."""

    number = 1

    def take(self, step: str) -> None:
        """What the step tells is on record."""
        told, _, given = step.partition(" with ")
        fields = {k.arg: ast.literal_eval(k.value) for k in call(given).keywords if k.arg}
        match told.split(" "):
            case ["moved"]:
                self.__dict__ |= moved().__dict__
            case ["cut"]:
                self.epoch, self.number = 5, LEFT
            case ["epochs", "go", "on", "from", epoch]:
                self.epoch = int(epoch)
            case ["the", "first", count, "are", "gone"]:
                self.records, self.number = self.records[int(count) :], LEFT
            case ["at", at_ms]:
                self.now_ms = int(at_ms) - TICK_MS
            case [processor_id, "on", host]:
                self.start(processor_id, **{"host": host, **self.named(processor_id, fields)})
            case [execution_id, "ends", *by]:
                ended, how = self.started(execution_id), by[1] if by else "dead"
                self.end(ended, how, **self.named(ended.processor_id, fields))
            case _:
                raise LookupError(f"no step reads {step!r}")

    def named(self, processor_id: str, fields: dict[str, Any]) -> dict[str, Any]:
        """A predecessor is told by what differs from the one before, or from one that is gone."""
        if (changed := fields.get("predecessor")) is not None:
            before = self.predecessor.get(processor_id, GONE)
            fields["predecessor"] = replace(before, **changed)
        return fields

    def started(self, execution_id: str) -> AuditRecord:
        """Its start, also one that has aged away."""
        for record in self.records:
            if record.execution_id == execution_id:
                return record
        processor_id, _, epoch = execution_id.rpartition("_")
        before = Chronicle().start(processor_id, "host-1")
        return replace(before, execution_id=execution_id, epoch=int(epoch))


def call(arguments: str) -> ast.Call:
    """These arguments, given to anything."""
    made = ast.parse(f"it({arguments})", mode="eval").body
    assert isinstance(made, ast.Call)
    return made


@pytest.mark.parametrize("told", histories(), ids=str)
def test_what_is_found_in_a_history_is_what_is_told(told: Told) -> None:
    """Nothing, or the first record that breaks a rule, and that rule."""
    history = History()
    for step in told.steps.split("; "):
        history.take(step)
    violation = verify(chained(history.records, history.number)).violation
    where, _, words = told.found.partition(": ")
    assert (violation and f"{violation.position} {violation.rule}") == (
        None if where == "fine" else where
    )
    if violation is not None:
        assert violation.seen
        assert [word for word in words.split(", ") if word not in violation.seen] == []


ENDS = [hows for count in (1, 2, 3) for hows in product(("dead", "fenced", "lease"), repeat=count)]


@pytest.mark.parametrize("hows", ENDS, ids="-".join)
@pytest.mark.parametrize("started_before", [False, True], ids=["known", "started before"])
def test_an_incarnation_ends_in_one_way_and_is_then_seen_dead(
    hows: tuple[str, ...], started_before: bool
) -> None:
    """By a fence once, by its lease again and again, dead once and after all else."""
    job = moved()
    standby = job.not_ended["0-0"]
    for how in hows:
        job.end(standby, how)
    records = chained(job.records[4:], 9) if started_before else job.records
    legal = re.fullmatch(r"(fenced|(lease ?)*) ?(dead)?", " ".join(hows)) is not None
    violation = verify(records).violation
    assert (violation is None) is legal
    assert violation is None or violation.rule is Rule.ENDS
