"""What sensors keep as text: small, and never an exception."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.orchestration.history import HistoryCursor, Position
from samza_dagster.orchestration.tags import MOST_TAG_BYTES
from samza_dagster.orchestration.versioned import Versioned
from samza_dagster.orchestration.watch.cursor import Act, FailoverCursor
from samza_dagster.orchestration.watch.findings import CheckMemory

pytestmark = pytest.mark.unit
JOB = "demo/1"
CURSORS: dict[type[Versioned], Versioned] = {
    FailoverCursor: FailoverCursor(JOB),
    CheckMemory: CheckMemory(JOB),
    HistoryCursor: HistoryCursor(JOB, Position(5, 4), Position(7, 7)),
}


@pytest.mark.parametrize("kept", CURSORS)
def test_what_is_small_is_plain_json_with_a_version(kept: type[Versioned]) -> None:
    """A person can read it in Dagster's UI."""
    text = CURSORS[kept].to_text()
    assert json.loads(text)["version"] == kept.VERSION
    assert kept.read(text) == CURSORS[kept]


def test_what_is_longer_than_a_tag_may_be_is_compressed() -> None:
    """Dagster stores a cursor with each tick."""
    many = replace(FailoverCursor(JOB), acts={f"run {n}": Act(f"{n}", n) for n in range(1_000)})
    text = many.to_text()
    assert MOST_TAG_BYTES < len(text) < 12_000
    assert FailoverCursor.read(text, JOB) == many


JUNK = (
    *("{", "[]", "null", "7", "x", " ", "eJwDAA==", "[" * 100_000, '{"a":' * 100_000),
    *(f'{{"version":{version},"job":"demo/1"}}' for version in ("9", "null", "[]", "1", "2", "3")),
)


@pytest.mark.parametrize("text", JUNK, ids=range(len(JUNK)))
@pytest.mark.parametrize("kept", CURSORS)
def test_what_isnt_understood_is_told_and_begun_anew(kept: type[Versioned], text: str) -> None:
    """Of a later version, or junk: a sensor never dies of its own past."""
    told: list[str] = []
    found = kept.read(text, JOB, told.append)
    assert found in (None, CURSORS[kept])
    assert bool(told) is (found is None)


@given(st.text(), st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.integers())))
def test_no_text_at_all_is_an_exception(text: str, fields: dict[str, object]) -> None:
    """Whoever wrote it."""
    for kept in CURSORS:
        assert kept.read(text, JOB) is None
        for version in (1, 2, 3, 4, 5):
            kept.read(json.dumps({**fields, "version": version, "job": JOB}), JOB)


@pytest.mark.parametrize("kept", CURSORS)
def test_what_another_job_kept_is_nothing_and_no_news(kept: type[Versioned]) -> None:
    """A component that was given another job begins anew by intent."""
    told: list[str] = []
    assert kept.read(CURSORS[kept].to_text(), "other/1", told.append) is None
    assert kept.read("", JOB, told.append) is None
    assert told == []
