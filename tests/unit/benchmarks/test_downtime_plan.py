"""In which order moves are made, how long, what a failed one costs, and what the picture shows."""

from __future__ import annotations

import io
import socket
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest
from rich.console import Console

from benchmarks import client_quota
from benchmarks.downtime_judgement import COLD, HOST_LOST, KINDS, Move, Results, turns
from benchmarks.downtime_picture import WIDTH, downtime_svg, show
from benchmarks.downtime_plan import REBUILDS, SET_UP, Times, measure_all
from benchmarks.failover import NOT_RUN, PROCESSES
from benchmarks.measured_code import closure

pytestmark = pytest.mark.unit

SET_UP_S, MOVE_S = 60.0, 20.0


class Bench:
    """A time of its own; sandboxes that are set up and moves that are made in it."""

    def __init__(self, fails: Callable[[int], bool] = lambda _: False) -> None:
        self.now_s = 0.0
        self.begun: list[float] = []
        self.made: list[tuple[float, str]] = []
        self.open = 0
        self.results: Results = {16.0: {}, 64.0: {}}
        self.failed: list[str] = []
        self.kept: list[int] = []
        self._fails = fails
        self._tries = 0

    @contextmanager
    def sandbox_of(self, size: float) -> Generator[Callable[[str], Move]]:
        """Takes a minute."""
        self.begun.append(size)
        self.now_s += SET_UP_S
        self.open += 1

        def move(kind: str) -> Move:
            self.now_s += MOVE_S
            self._tries += 1
            if self._fails(self._tries):
                raise AssertionError("3 missing")
            self.made.append((size, kind))
            return Move(1, 1.0)

        try:
            yield move
        finally:
            self.open -= 1

    def go(self, moves: int = 5, in_a_row: int = 3, within_s: float = 1e9) -> None:
        """To its end."""
        times = Times(within_s, lambda: self.now_s)

        def count() -> None:
            assert all(moves for kinds in self.results.values() for moves in kinds.values())
            self.kept.append(len(self.made))

        measure_all(*(self.results, self.failed, self.sandbox_of), moves, in_a_row, count, times)
        assert self.open == 0


def test_sizes_take_turns_and_a_lost_host_comes_in_its_own() -> None:
    """Each move is kept as soon as it is made."""
    bench = Bench()
    bench.go()
    assert bench.begun == [16.0, 64.0, 16.0, 64.0]
    assert bench.kept == list(range(1, len(bench.made) + 1))
    for kinds in bench.results.values():
        counts = {kind: len(moves) for kind, moves in kinds.items()}
        assert counts == {kind: 2 if kind == HOST_LOST else 5 for kind in KINDS}
    first = [kind for size, kind in bench.made if size == 16.0][: len(KINDS) + 1]
    assert first == [*KINDS, KINDS[1]], "a host is lost in the first turn, and not in the second"


def test_a_move_that_fails_is_told_and_another_sandbox_goes_on() -> None:
    """It is made again there; what was measured before counts."""
    bench = Bench(lambda number: number == 4)
    bench.go()
    assert bench.failed == ["16 MB, same host: AssertionError: 3 missing"]
    assert bench.begun[:2] == [16.0, 16.0]
    assert {turns(kinds) for kinds in bench.results.values()} == {5}


def test_sandboxes_that_fail_again_and_again_are_not_built_for_ever() -> None:
    """Each is told, and that it was given up."""
    bench = Bench(lambda _: True)
    bench.go()
    assert len(bench.begun) == REBUILDS + 1
    assert len(bench.failed) == REBUILDS + 2
    assert "given up" in bench.failed[-1]


def test_nothing_is_begun_that_is_not_over_in_time() -> None:
    """Neither a sandbox nor a move; the first of each by a guess, later ones by what they took."""
    for within_s in (0.5, 150.0, 500.0, 900.0):
        bench = Bench()
        bench.go(within_s=within_s)
        assert bench.now_s <= within_s
        assert bool(bench.made) == (within_s > 150)
    times = Times(1_000.0, lambda: 0.0)
    times.took(16.0, SET_UP, -940.0)
    assert times.has(16.0, [SET_UP])
    assert not times.has(16.0, [SET_UP, COLD])


def test_a_commit_to_what_no_such_run_uses_voids_no_result() -> None:
    """Dagster's side, snapshots and other rigs aren't in it; what a move needs is."""
    used = closure(PROCESSES, NOT_RUN)
    assert {
        *("samza_dagster.placement.reducer", "samza_dagster.coordinator.command"),
        *("samza_dagster.agent.warden", "samza_dagster.sandbox.load", "tests.rig.replacement"),
        *("benchmarks.downtime_moves", "benchmarks.downtime_judgement"),
    } <= used.keys()
    others = ("samza_dagster.orchestration", "samza_dagster.snapshots", "tests.rig.cockpit")
    assert not [name for name in used if name.startswith((*others, "samza_dagster.cli.doctor"))]


def measured() -> Results:
    """At three sizes."""
    return {
        size: {kind: [Move(3_000 + n, 1.0) for n in range(3)] for kind in KINDS}
        for size in (16.0, 64.0, 256.0)
    }


def test_the_table_is_whole_where_no_terminal_says_how_wide_it_is() -> None:
    """Its bars aren't cut off: the longest has 30 blocks on one line."""
    written = io.StringIO()
    show(measured(), {}, Console(file=written, width=WIDTH))
    assert "█" * 30 in written.getvalue()
    assert "…" not in written.getvalue()


def test_the_plot_has_a_dot_for_each_move_and_a_line_for_each_kind() -> None:
    """Also of one size, where a line is a point."""
    drawn = downtime_svg(measured())
    assert drawn.count("h0") == 3 * 3 * len(KINDS)
    assert drawn.count("<polyline") == len(KINDS)
    assert all(kind in drawn for kind in KINDS)
    assert "<polyline" in downtime_svg({16.0: {COLD: [Move(5, 1.0)]}})


@pytest.mark.parametrize("error", [0, 35])
def test_a_quota_is_asked_for_and_a_refusal_told(error: int) -> None:
    """By the frames of AlterClientQuotas, version 0."""
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as stream:
                (length,) = struct.unpack(">i", stream.read(4))
                seen.append(stream.read(length))
                words = b"no such version"
                told = struct.pack(">iiihh", 1, 0, 1, error, len(words)) + words
                connection.sendall(struct.pack(">i", len(told)) + told)

        broker = threading.Thread(target=answer)
        broker.start()
        servers = f"127.0.0.1:{server.getsockname()[1]}"
        if error:
            with pytest.raises(ValueError, match="error 35 no such version"):
                client_quota.limit_consumers(servers, "a-client", None)
        else:
            client_quota.limit_consumers(servers, "a-client", 8_000.0)
        broker.join()
    assert seen[0][:8] == struct.pack(">hhi", 49, 0, 1)
    rate = b"consumer_byte_rate" + struct.pack(">d?", 0.0 if error else 8_000.0, bool(error))
    entity = b"\0\0\0\x02\0\x04user\xff\xff\0\x09client-id\0\x08a-client"
    assert seen[0].endswith(entity + b"\0\0\0\x01\0\x12" + rate + b"\0")
