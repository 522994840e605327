"""Who had a task formerly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samza_dagster.assignment.former import former_processors
from samza_dagster.model.naming import active_task_of, standby_task_name

pytestmark = pytest.mark.unit

ACTIVES = ("T0", "T1")
COPIES = (*ACTIVES, *(standby_task_name(each, 0) for each in ACTIVES))
VERSIONS = st.lists(st.dictionaries(st.sampled_from(COPIES), st.sampled_from("abc")), max_size=5)


@given(VERSIONS, st.sampled_from(COPIES), st.sampled_from("abc"))
def test_a_former_processor_had_the_task_when_it_last_had_any(
    history: list[dict[str, str]], name: str, own: str
) -> None:
    """The newest first: what one had before that it has a stale store of. Of an active only actives count."""
    counting = [
        {
            task: pid
            for task, pid in version.items()
            if name != active_task_of(name) or task in ACTIVES
        }
        for version in history
    ]
    had: list[tuple[int, str]] = []
    for pid in {"a", "b", "c"} - {own}:
        age = next((n for n, each in enumerate(counting) if pid in each.values()), None)
        last = {} if age is None else counting[age]
        if age is not None and pid in {
            last.get(each) for each in COPIES if active_task_of(each) == active_task_of(name)
        }:
            had.append((age, pid))
    assert former_processors(history)(name, own) == tuple(pid for _, pid in sorted(had))
