"""What a processor knows of its containers, over versions and ends that nobody chose."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from members import container

from samza_dagster.standalone.division import ids_of
from samza_dagster.standalone.work import NO_WORK

pytestmark = pytest.mark.unit

TASKS = ("1", "2", "3", "standby1", "standby2")


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sets(st.sampled_from(TASKS)), st.booleans()), min_size=1, max_size=6),
    st.integers(1, 3),
    st.data(),
)
def test_what_runs_was_told_to_start_and_is_at_work_once_that_very_process_has_said_so(
    versions: list[tuple[set[str], bool]], most: int, data: st.DataObject
) -> None:
    """Also where its id was another's before, which is free again: a request that waits for it ends no sooner."""
    work, live, said, now_ms = NO_WORK, set[str](), set[str](), 0
    for version, (tasks, is_restarted) in enumerate(versions, 1):
        work = work.without() if is_restarted else work
        work = work.by(version, "a", container("a", *sorted(tasks)), most).agreed("a", most, now_ms)
        for _ in range(3):
            now_ms += 50_000
            work, orders = work.ordered(now_ms, 8_000)
            assert not ids_of(orders.starts) & live, "none is started twice"
            live |= ids_of(orders.starts)
            ended = data.draw(st.sets(st.sampled_from(sorted(work.ending)))) if work.ending else ()
            work = work.ended(frozenset(ended))
            live, said = live.difference(ended), said.difference(ended)
            for each in data.draw(st.sets(st.sampled_from(sorted(live)))) if live else ():
                work = work.now_at_work(each, now_ms)
                said |= {each} - work.ending
            assert ids_of(work.running) == live
            assert work.at_work == said
            assert live - said - work.ending <= work.starting.keys() <= live - said
