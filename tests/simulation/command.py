"""`python -m tests.simulation`: the reducer in a virtual world, under faults, until a rule breaks."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samza_dagster.cli.options import gathered, json_option
from samza_dagster.cli.output import notice, print_json, print_table
from samza_dagster.cli.reporting import Reporting
from samza_dagster.errors import InvalidInput

if TYPE_CHECKING:
    from tests.simulation.campaign import BrokenHistory, CampaignResult
    from tests.simulation.event_log import LogReplayed
    from tests.simulation.explorer import Exploration
    from tests.simulation.judges.violation import InvariantViolated
    from tests.simulation.script import Script


@dataclass(frozen=True)
class SimulationReport:
    """How a run tells its end, and whether it tells its progress."""

    report_file: Path | None
    as_json: bool
    quiet: bool

    def end(self, document: dict[str, Any], show: Callable[[], None]) -> None:
        """The document into the file, and on stdout as JSON or as `show` writes it."""
        if self.report_file is not None:
            self.report_file.write_text(json.dumps(document) + "\n", encoding="utf-8")
        if self.as_json:
            print_json(document)
        else:
            show()


report_options = gathered(
    "report",
    SimulationReport,
    click.option(
        "--report",
        "report_file",
        type=click.Path(path_type=Path, dir_okay=False, writable=True),
        metavar="FILE",
        help="Write what --json prints there, beside the tables.",
    ),
    json_option,
    click.option("--quiet", is_flag=True, help="No progress on stderr."),
)


def end_with_parent() -> None:
    """First call of a worker: a thread waits for the parent's end, and ends this process."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "this isn't a worker"

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


AT_LEAST = 100
"""How often each pair of transition and fault is to be met in a long run."""

_LONG_RUN = 5_000_000
"""Events asked from which on a pair that is met less often fails the run."""


def _number(name: str, default: int, help_text: str, most: int | None = None) -> Callable[..., Any]:
    kind = click.IntRange(1, most)
    return click.option(
        f"--{name}", type=kind, default=default, show_default=True, metavar="N", help=help_text
    )


def _file(name: str, parameter: str, help_text: str, *, exists: bool = True) -> Callable[..., Any]:
    kind = click.Path(path_type=Path, dir_okay=False, exists=exists, writable=not exists)
    return click.option(f"--{name}", parameter, type=kind, metavar="FILE", help=help_text)


@click.command(
    "simulate",
    cls=Reporting,
    epilog="Exit codes: 0 every rule held, 1 one broke or was never put to the test, or in a run of "
    f"{_LONG_RUN:,} events a fault met a transition less than {AT_LEAST} times, 2 bad usage.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="N",
    help="Of the first history; the same one gives the same histories.",
)
@_number("events", 50_000, "Events that the reducer takes, over all histories.")
@_number("workers", 1, "Processes; the seeds are the same for any number.", most=64)
@_file("replay", "script_file", "Play a script again and tell what happens.")
@_file(
    "log",
    "log_file",
    "Step through the events that a coordinator recorded and compare each state.",
)
@click.option(
    "--small-world",
    "small",
    is_flag=True,
    help="Look at every interleaving of a small job instead, up to --states.",
)
@click.option(
    "--standalone",
    is_flag=True,
    help="Groups of standalone processors instead, over a ZooKeeper that fails.",
)
@_number("states", 100_000, "With --small-world: distinct states of each kind of trouble.")
@click.option(
    "--trouble",
    "troubles",
    multiple=True,
    metavar="NAME",
    help="With --small-world: only this kind, as 'all of it'; may be repeated.",
)
@report_options
def simulate(
    report: SimulationReport,
    seed: int,
    events: int,
    workers: int,
    script_file: Path | None,
    log_file: Path | None,
    small: bool,
    standalone: bool,
    states: int,
    troubles: tuple[str, ...],
) -> int:
    """Run the placement rules in a virtual world of hosts, leaders, brokers and faults.

    Nothing real is touched. A seed is a history of some 250 events and always the same.
    A history that breaks a rule is shortened and told; its script plays it again.

    \b
    Examples:
      python -m tests.simulation
      python -m tests.simulation --seed 7 --events 5000000 --workers 2 --json > result.json
      python -m tests.simulation --replay broken-7.json
      python -m tests.simulation --log events.jsonl
      python -m tests.simulation --small-world --states 1000000 --workers 2
      python -m tests.simulation --standalone --events 1000000
      python -m tests.simulation --small-world --states 1000000 --trouble 'all of it'
    """
    if script_file is not None and log_file is not None:
        raise InvalidInput(
            "what to replay", seen="both --replay and --log", fix="give one of the two"
        )
    if log_file is not None:
        return _follow(log_file, report)
    if script_file is not None:
        from tests.simulation.script import Script

        return _replay(Script.parse(script_file.read_text(encoding="utf-8")), report)
    if standalone:
        return simulate_standalone(seed, events, report)
    if small:
        return explore_small_world(states, workers, troubles, report)
    return _search(seed, events, workers, report)


def _search(seed: int, events: int, workers: int, report: SimulationReport) -> int:
    from tests.simulation.campaign import run
    from tests.simulation.coverage import missing
    from tests.simulation.judges.violation import JUDGES

    on_one_line = sys.stderr.isatty()
    begin = "\r" if on_one_line else ""
    shown_at = [0]
    broken_shown = [0]

    def progress(result: CampaignResult) -> None:
        # At once: whoever gives up on a long run still knows the seed.
        for broken in result.broken[broken_shown[0] :]:
            notice(f"\nSeed {broken.seed} breaks {broken.invariant}: {broken.what}")
        broken_shown[0] = len(result.broken)
        done = min(100, 100 * result.events // events)
        if report.quiet or not (on_one_line or done >= shown_at[0] + 5):
            return
        shown_at[0] = done
        rate = result.events / max(result.seconds, 0.001)
        click.echo(
            f"{begin}{done:3d} %  {result.events:,} events  {rate:,.0f}/s  "
            f"{len(result.broken)} broken ",
            err=True,
            nl=not on_one_line,
        )

    result = run(
        seed,
        events,
        workers=workers,
        progress=progress,
        clock=time.monotonic,
        begins=end_with_parent,
    )
    if on_one_line and not report.quiet:
        click.echo(err=True)
    idle = [name for name in JUDGES if not result.premises[name]]
    seldom = missing(result.coverage, AT_LEAST) if events >= _LONG_RUN else []
    report.end(result.to_json(JUDGES, AT_LEAST), lambda: _show(result, JUDGES))
    for broken in result.broken[:3]:
        _tell(broken, report.quiet or report.as_json)
    if idle:
        notice(f"Never put to the test: {', '.join(idle)}")
    if seldom:
        rare = (f"{row} x {column} {result.coverage[row, column]}" for row, column in seldom)
        notice(f"Met less than {AT_LEAST} times: {', '.join(rare)}")
    return 1 if result.broken or idle or seldom else 0


def _show(result: CampaignResult, invariants: tuple[str, ...]) -> None:
    from tests.simulation.coverage import COLUMNS, ROWS, missing

    last = result.first_seed + result.histories - 1
    rate = result.events / max(result.seconds, 0.001)
    print_table(
        "Simulated",
        ("fact", "value"),
        [
            ("seeds", f"{result.first_seed} to {last}"),
            ("histories", f"{result.histories:,}"),
            ("events", f"{result.events:,}"),
            ("events that changed the state", f"{result.changes:,}"),
            ("faults", f"{result.faults:,}"),
            ("seconds", f"{result.seconds:.1f}"),
            ("events a second", f"{rate:,.0f}"),
            ("histories that broke a rule", len(result.broken)),
            (f"pairs met less than {AT_LEAST} times", len(missing(result.coverage, AT_LEAST))),
        ],
    )
    print_table(
        "Invariants",
        ("invariant", "put to the test", "broken"),
        [
            (
                name,
                f"{result.premises[name]:,}",
                sum(broken.invariant == name for broken in result.broken),
            )
            for name in (
                *invariants,
                *sorted({b.invariant for b in result.broken} - set(invariants)),
            )
        ],
    )
    print_table(
        "Faults by what was under way",
        ("under way", *COLUMNS),
        [(row, *(str(result.coverage[row, column]) for column in COLUMNS)) for row in ROWS],
    )


def _tell(broken: BrokenHistory, quiet: bool) -> None:
    """Shortens a broken history, writes its script beside us, and tells what happens in it."""
    from tests.simulation.shrinking import shrink

    notice(f"Shortening the history of seed {broken.seed} …")
    script = shrink(broken.script, broken.invariant)
    path = Path(f"broken-{broken.seed}.json")
    path.write_text(json.dumps(script.to_json()) + "\n", encoding="utf-8")
    notice(f"Shortened to {len(script.moves)} moves: python -m tests.simulation --replay {path}")
    if not quiet:
        for line in _played(script)[0]:
            notice(line)


def _played(script: Script) -> tuple[list[str], InvariantViolated | None]:
    from tests.simulation.script import play

    lines: list[str] = []
    return lines, play(script.setup, script.moves, lines=lines).violation


def _replay(script: Script, report: SimulationReport) -> int:
    lines, violation = _played(script)
    found = None
    if violation is not None:
        found = {"invariant": violation.invariant, "what": violation.what}
    document = {"version": 1, "violation": found, "history": lines}
    report.end(document, lambda: click.echo("\n".join(lines)))
    return 0 if violation is None else 1


def _follow(path: Path, report: SimulationReport) -> int:
    """The reducer follows what a coordinator recorded; 1 when a state differs, and the first that does is told."""
    from tests.simulation.event_log import replay_log

    replayed = replay_log(path)
    document: dict[str, Any] = {
        "version": 1,
        "events": replayed.events,
        "terms": replayed.terms,
        "take_overs_judged": replayed.judged,
        "lines_cut_short": list(replayed.cut_short),
        "differs_at_line": replayed.differs,
        "where": replayed.where,
        "expected": replayed.expected,
        "seen": replayed.seen,
    }
    report.end(document, lambda: _show_followed(replayed))
    return 0 if replayed.differs is None else 1


def _show_followed(replayed: LogReplayed) -> None:
    for number in replayed.cut_short:
        click.echo(f"Line {number} was cut short: its writer was killed, its step not committed.")
    if replayed.differs is None:
        terms = f" in {replayed.terms:,} terms, {replayed.judged:,} take-overs judged"
        click.echo(
            f"{replayed.events:,} events{terms if replayed.terms else ''}, every state the same."
        )
    elif replayed.where:
        click.echo(
            f"Line {replayed.differs} took over another state than the term before left: "
            f"{replayed.where} is {replayed.seen}, expected was {replayed.expected}."
        )
    else:
        click.echo(
            f"Line {replayed.differs} gave another state: {replayed.seen}, "
            f"recorded was {replayed.expected}."
        )


DEADLINE_S = 3_600.0
"""For each kind of trouble."""


def explore_small_world(
    states: int, workers: int, troubles: tuple[str, ...], report: SimulationReport
) -> int:
    """Returns 1 when a rule broke; the fewest moves that lead there are told.

    `troubles` are names of `TROUBLES`; none of them: each. Raises
    `InvalidInput` for another name.
    """
    from tests.simulation.explorer import explore_troubles
    from tests.simulation.small_world import TROUBLES

    names = [trouble.name for trouble in TROUBLES]
    for trouble in troubles:
        if trouble not in names:
            known = ", ".join(f"'{name}'" for name in names)
            raise InvalidInput("--trouble", seen=trouble, fix=f"one of {known}")

    def explored(name: str, seen: Exploration) -> None:
        if not report.quiet:
            notice(f"{name}: {seen.states:,} states in {seen.seconds:.0f} s")

    found = explore_troubles(
        [trouble for trouble in TROUBLES if not troubles or trouble.name in troubles],
        max_states=states,
        deadline_s=DEADLINE_S,
        workers=workers,
        finished=explored,
        clock=time.monotonic,
        begins=end_with_parent,
    )
    document = {
        "version": 1,
        "small_worlds": {name: _explored_as_json(seen) for name, seen in found.items()},
    }
    report.end(document, lambda: _show_explored(found))
    for name, seen in found.items():
        if seen.finding is not None:
            notice(f"\n{name} breaks {seen.finding.invariant}: {seen.finding.what}")
            for number, move in enumerate(seen.finding.path, start=1):
                notice(f"  {number:2d}  {move}")
    return 1 if any(seen.finding is not None for seen in found.values()) else 0


def _show_explored(found: Mapping[str, Exploration]) -> None:
    print_table(
        "Two actives, a standby each, three hosts",
        ("trouble", "states", "transitions", "depth", "ends", "closed", "seconds"),
        [
            (
                name,
                f"{seen.states:,}",
                f"{seen.transitions:,}",
                str(seen.depth),
                str(len(seen.outcomes)),
                "yes" if seen.closed else f"no, {seen.frontier:,} open",
                f"{seen.seconds:.1f}",
            )
            for name, seen in found.items()
        ],
    )


def _explored_as_json(seen: Exploration) -> dict[str, Any]:
    finding = seen.finding
    return {
        "states": seen.states,
        "transitions": seen.transitions,
        "depth": seen.depth,
        "open": seen.frontier,
        "closed": seen.closed,
        "quiescent": seen.quiescent,
        "outcomes": len(seen.outcomes),
        "seconds": round(seen.seconds, 2),
        "premises": dict(seen.premises),
        "violation": None
        if finding is None
        else {
            "invariant": finding.invariant,
            "what": finding.what,
            "moves": [str(move) for move in finding.path],
        },
    }


_EVENTS_OF_A_HISTORY = 1_000
_MOST_BROKEN = 5


def simulate_standalone(seed: int, events: int, report: SimulationReport) -> int:
    """Histories from `seed` on until so many events have happened; 1 when one broke an invariant."""
    from tests.simulation.standalone_world import GroupViolation, world_of

    # The very code of processors runs here, and a virtual ZooKeeper fails all the time.
    for room in ("metadata", "standalone"):
        logging.getLogger(f"samza_dagster.{room}").setLevel(logging.CRITICAL)
    began, done, percent, histories, agreed = time.monotonic(), 0, 0, 0, 0
    broken: list[str] = []
    answers = Counter[str]()
    while done < events and len(broken) < _MOST_BROKEN:
        number = seed + histories
        world = world_of(number)
        try:
            world.run(_EVENTS_OF_A_HISTORY)
        except GroupViolation as error:
            broken.append(str(error))
            notice(str(error))
        histories += 1
        done += world.events
        agreed += world.versions_agreed
        answers += world.answers
        if not report.quiet and 100 * done // events >= percent + 5:
            percent = 100 * done // events
            click.echo(f"{percent:3d} %  {done:,} events, {len(broken)} broken", err=True)
    document = {
        "events": done,
        "histories": histories,
        "versions_agreed": agreed,
        "requests": dict(answers),
        "violations": broken,
        "seconds": round(time.monotonic() - began, 1),
    }
    shown = (
        f"{done:,} events in {histories:,} histories, {agreed:,} versions agreed on, "
        f"{answers.total():,} requests: {len(broken)} broken"
    )
    report.end(document, lambda: click.echo(shown))
    return 1 if broken else 0
