"""A processor's id says nothing: under other names the reducer decides the same."""

from __future__ import annotations

import dataclasses
import random
import re
import uuid
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rpds import HashTrieMap

from samza_dagster.placement.events import Event
from samza_dagster.placement.indexing import rebuilt
from samza_dagster.placement.reducer import Step, step
from samza_dagster.placement.state import JobState, SpinUp
from tests.simulation.driver import simulate

pytestmark = pytest.mark.simulator

_ID = re.compile(r"\d+(-\d+)?")
_EXECUTION_ID = re.compile(r"(.+)-(\d+(?:_\d+)?)-(\d+)")
# Sentences for people, and digests over them: they have names in them.
_TEXTS = {"why", "message", "evidence", "digest", "previous_hash", "certificate_hash", "index"}


def strings(value: Any) -> Iterator[str]:
    """All texts within a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from (key, *strings(entry))
    elif dataclasses.is_dataclass(value):
        for f in dataclasses.fields(value):
            if f.name not in _TEXTS:
                yield from strings(getattr(value, f.name))
    elif isinstance(value, tuple | frozenset):
        for entry in value:
            yield from strings(entry)


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """The value with other processor ids, also within execution ids."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        run = _EXECUTION_ID.fullmatch(value)
        if run is None:
            return names.get(value, value)
        pid = names[run[2].replace("_", "-")]
        return f"{run[1]}-{re.sub('[^A-Za-z0-9._]', '_', pid)}-{run[3]}"
    if isinstance(value, Mapping):
        entries = {names.get(key, key): renamed(entry, names) for key, entry in value.items()}
        return HashTrieMap(entries) if isinstance(value, HashTrieMap) else entries
    if dataclasses.is_dataclass(value):
        changed = {
            f.name: renamed(getattr(value, f.name), names)
            for f in dataclasses.fields(value)
            if f.name not in _TEXTS
        }
        return dataclasses.replace(value, **changed)
    if isinstance(value, tuple | frozenset):
        return type(value)(renamed(entry, names) for entry in value)
    return value


def without_texts(value: Any) -> Any:
    """What it decides: plain values without the sentences."""
    if dataclasses.is_dataclass(value):
        told = {f.name for f in dataclasses.fields(value)} - _TEXTS
        return type(value).__name__, {n: without_texts(getattr(value, n)) for n in told}
    if isinstance(value, Mapping):
        return {key: without_texts(entry) for key, entry in value.items()}
    return tuple(map(without_texts, value)) if isinstance(value, tuple) else value


def ids_in(*values: Any) -> set[str]:
    """The processor ids that they name, those within execution ids included."""
    texts = set(strings(values))
    runs = {run[2].replace("_", "-") for text in texts if (run := _EXECUTION_ID.fullmatch(text))}
    return runs | {text for text in texts if _ID.fullmatch(text)}


def named_anew(before: JobState, after: JobState) -> set[str]:
    """The standbys that an action adds which has begun in this step."""
    begun = {group.action.ask.uuid for group in before.groups.values() if group.action is not None}
    return {
        group.action.standby_id
        for group in after.groups.values()
        if isinstance(group.action, SpinUp) and group.action.ask.uuid not in begun
    }


def opaque(ids: set[str], lots: random.Random) -> dict[str, str]:
    """Other names in the same order, which decides between equals: every second a UUID.

    They differ where the order is the same within an execution id, which has `_` for `-`.
    """
    made = [
        str(uuid.UUID(int=lots.getrandbits(128)))
        if place % 2
        else "".join(lots.choices("0123456789abcdef", k=8) + lots.choices("ab-_.: /", k=28))
        for place in range(len(ids))
    ]
    return dict(zip(sorted(ids), sorted(made), strict=True))


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1_000_000))
def test_other_processor_ids_change_no_decision_but_the_names(seed: int) -> None:
    """Only a new standby is named for its active."""
    history: list[tuple[JobState, Event, Step]] = []

    def recorded(state: JobState, event: Event) -> Step:
        taken = step(state, event)
        history.append((state, event, taken))
        return taken

    simulate(seed, 400, reducer=recorded)
    lots = random.Random(seed)
    for before, event, taken in lots.sample(history, min(60, len(history))):
        known = ids_in(before, event)
        if named_anew(before, taken.state) & known:
            continue  # a standby that is gone in this step had the name
        names = opaque(known, lots)
        for new in ids_in(taken.state, taken.commands) - known:
            names[new] = f"{names[new.partition('-')[0]]}-0"
        other = step(rebuilt(renamed(before, names)), renamed(event, names))
        assert without_texts(other.state) == without_texts(renamed(taken.state, names))
        assert without_texts(other.commands) == without_texts(renamed(taken.commands, names))
