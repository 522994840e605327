"""What the benchmark of downtimes must not let pass, and that it goes on only from what is like it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.downtime_judgement import (
    BOUNDED,
    COLD,
    HOST_LOST,
    LOST_EVERY,
    Kept,
    Move,
    Results,
    keep,
    resumed,
    what_is_wrong,
)

pytestmark = pytest.mark.unit

SIZES = (16.0, 64.0, 256.0)
MOVES = 8
NOISE_MS = (-120, 40, 90, -30, 60, -80, 20, 10)


def results(
    onto_standby: Callable[[float], float] = lambda _: 3_000.0,
    cold: Callable[[float], float] = lambda size: 5_000 + 100 * size,
    *,
    rate: float = 1_000.0,
) -> Results:
    """Downtimes by the state's MB, `MOVES` of each with some noise."""

    def some(take_ms: Callable[[float], float], size: float, count: int = MOVES) -> list[Move]:
        return [Move(round(take_ms(size)) + more, rate) for more in NOISE_MS[:count]]

    return {
        size: {
            **{kind: some(onto_standby, size) for kind in BOUNDED if kind != HOST_LOST},
            HOST_LOST: some(onto_standby, size, MOVES // LOST_EVERY),
            "same host": some(lambda _: 6_000, size),
            COLD: some(cold, size),
        }
        for size in SIZES
    }


def wrong(measured: Results, *, moves: int = MOVES) -> list[str]:
    """At 1,000 inputs a second."""
    return what_is_wrong(measured, moves=moves, rate=1_000.0)


def test_what_was_measured_whole_within_bounds_and_flat_is_right() -> None:
    """Also one that shrinks with the state: that is noise, and no growth."""
    assert wrong(results()) == []
    assert wrong(results(lambda size: 3_000 - size / 10)) == []


def test_downtimes_that_grow_with_the_state_fail_though_each_is_within_its_bound() -> None:
    """1,000, 2,000 and 3,900 ms over the sizes: what a restore onto the standby would look like."""
    growing = {16.0: 1_000.0, 64.0: 2_000.0, 256.0: 3_900.0}
    found = wrong(results(growing.__getitem__))
    assert [each.partition(",")[0] for each in found] == [
        f"{kind}: grows with the state" for kind in BOUNDED
    ]


def test_a_bound_that_is_missed_at_one_size_fails() -> None:
    """By its kind: a crash has a second more."""
    found = wrong(results(lambda _: 4_500))
    assert found == [f"{size:g} MB, planned move: p50_ms {4_515} above 4000" for size in SIZES], (
        found
    )
    measured = results()
    measured[64.0]["failover"][-1] = Move(30_000, 1_000.0)
    assert any(each.startswith("64 MB, failover: p95_ms") for each in wrong(measured))


def test_one_move_is_not_the_whole() -> None:
    """n = 1 was enough for exit status 0."""
    measured = {
        size: {kind: moves[:1] for kind, moves in kinds.items()}
        for size, kinds in results().items()
    }
    found = wrong(measured, moves=20)
    assert "16 MB, planned move: 1 of 20" in found
    assert "16 MB, host lost: 1 of 5" in found
    assert wrong({16.0: {}, 64.0: {}}, moves=1)


def test_inputs_slower_than_asked_fail() -> None:
    """Less load, less state to catch up with."""
    assert wrong(results(rate=960.0)) == []
    found = wrong(results(rate=700.0))
    assert "16 MB, planned move: inputs at 700/s, not 1000/s" in found
    one = results()
    one[64.0][COLD][3] = Move(11_000, 100.0)
    assert wrong(one) == ["64 MB, cold host: inputs at 100/s, not 1000/s"]


def setting(**more: Any) -> dict[str, Any]:
    """Of a run."""
    return {"state_mb": list(SIZES), "rate": 1_000.0, "code": "c0de", "machine": "m", **more}


def kept(measured: Results) -> Kept:
    """At one commit, with a move that failed."""
    return Kept(measured, ["abc"], ["16 MB, failover: 3 missing"])


def test_what_is_kept_is_what_is_gone_on_from(tmp_path: Path) -> None:
    """Every move with its rate, also of a turn that isn't whole; the commits, and what failed."""
    path, measured = tmp_path / "results" / "downtime.json", results()
    measured[64.0][COLD].pop()
    nothing = Kept({size: {} for size in SIZES}, [], [])
    assert resumed(path, setting()) == nothing
    keep(path, setting(), kept(measured))
    assert resumed(path, setting()) == kept(measured)
    assert resumed(None, setting()) == nothing


@pytest.mark.parametrize("other", [{"code": "0ther"}, {"machine": "another"}, {"rate": 200.0}])
def test_runs_of_other_code_machine_or_load_are_not_pooled(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    """The refusal names what differs."""
    keep(tmp_path / "kept.json", setting(**other), kept(results()))
    ((name, value),) = other.items()
    with pytest.raises(SystemExit, match=f"{name} {value}, now {setting()[name]}"):
        resumed(tmp_path / "kept.json", setting())
