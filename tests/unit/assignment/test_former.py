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
    active = active_task_of(name)
    counting = ACTIVES if name == active else COPIES
    had: list[tuple[int, str]] = []
    for pid in {"a", "b", "c"} - {own}:
        given_ = ({each for each in counting if it.get(each) == pid} for it in history)
        age, newest = next(filter(lambda of: of[1], enumerate(given_)), (0, set[str]()))
        had += [(age, pid)] * any(active_task_of(each) == active for each in newest)
    assert former_processors(history)(name, own) == tuple(pid for _, pid in sorted(had))
