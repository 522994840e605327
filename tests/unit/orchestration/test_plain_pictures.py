"""Pictures of characters: what a run's page shows of one event, and no line more."""

from __future__ import annotations

import pytest

from samza_dagster.orchestration.plans.move import HostRow
from samza_dagster.orchestration.show.plain_pictures import (
    LINES,
    plain_lag,
    plain_maps,
    plain_timeline,
)

pytestmark = pytest.mark.unit


def host(number: int, *containers: str) -> HostRow:
    modes = ("standby" if "-" in one else "active" for one in containers)
    told = (f"{one} {mode} running" for one, mode in zip(containers, modes, strict=True))
    return HostRow(f"host-{number}", "alive", tuple(told))


def test_a_move_is_seen_at_once() -> None:
    """What changed comes first, actives in brackets."""
    before = [host(1, "0", "1-0"), host(2, "0-0"), host(3), host(4, "1")]
    after = [host(1, "1-0"), host(2, "0"), host(3, "0-0"), host(4, "1")]
    head, *lines = plain_maps(before, after).splitlines()
    assert "before" in head
    assert "after" in head
    assert [" ".join(line.split()) for line in lines] == [
        "→ host-1 [0] 1-0 1-0",
        "→ host-2 0-0 [0]",
        "→ host-3 0-0",
        "host-4 [1] [1]",
    ]


@pytest.mark.parametrize("hosts", [1, LINES - 1, LINES, 500])
def test_no_picture_is_longer_than_what_the_page_shows_of_an_event(hosts: int) -> None:
    """What has no room is counted, and what changed isn't among it."""
    before = [host(n, f"{n}") for n in range(hosts)]
    after = [*before[:-1], host(hosts - 1, "x")]
    told = plain_maps(before, after)
    assert len(told.splitlines()) <= LINES
    assert f"host-{hosts - 1} " in told
    assert ("more hosts" in told) is (hosts >= LINES)
    moments = [(f"stage {n}", "IN_PROGRESS", n * 100) for n in range(hosts)]
    assert len(plain_timeline(moments).splitlines()) <= LINES


def test_a_timeline_has_a_bar_for_each_stage_as_long_as_it_lasted() -> None:
    """Statuses of one stage are one bar."""
    head, *lines = plain_timeline(
        [("reserving", "CREATED", 0), ("reserving", "ACCEPTED", 500), ("stopping", "X", 1_000),
         ("", "SUCCEEDED", 4_000)]
    ).splitlines()  # fmt: skip
    assert "4 s from first to last" in head
    assert [line.split()[0] for line in lines] == ["reserving", "stopping", "SUCCEEDED"]
    assert [line.count("█") for line in lines] == [12, 36, 1]
    assert lines[0].endswith("1.00 s")


def test_lag_is_a_line_with_its_ends() -> None:
    """By what was seen; without a sample it says so."""
    told = plain_lag([(0, 800.0), (60_000, 400.0), (120_000, 0.0)], limit=100)
    assert told.startswith("records behind ▕█")
    assert "800 → 0 in 2 min, 800 at most, limit 100" in told
    assert plain_lag([]) == "records behind: no sample"
