"""`make mutants`: each planted bug against the simulator alone, and a table.

The exit code is 1 if one survives or only others than the invariant that it names find it, or if
an invariant has fewer than two.

python -m tests.mutants [NAME …] [--events N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.mutants.catalogue import CATALOGUE
from tests.mutants.hunt import DOES_NOT_LOAD
from tests.mutants.patches import Mutant, copy_of_placement
from tests.mutants.verdict import Catch, asked_too_seldom, wrong_catches

HUNT = Path(__file__).parent / "hunt.py"
FIRST_SEED = 1
STEPS = 250
# A hunt that takes longer is taken for one that never ends: many times what it needs alone.
LONGEST_HUNT_S = 1_800
SLOWEST_EVENTS_PER_S = 50
CATALOGUE_EVENTS = 2_500_000


class UnsoundReducer(Exception):
    """The reducer as it is breaks a rule: no mutant says anything before that is mended."""


def hunt(
    mutant: Mutant | None,
    events: int,
    *,
    seed: int = FIRST_SEED,
    only: tuple[int, ...] | None = None,
) -> dict[str, Any]:
    """One hunt in a copy of its own; None is the reducer as it is.

    With `only` no other seeds are tried.
    """
    judges: list[str] = []
    if mutant is not None and mutant.invariant:
        judges.append(f"--for={mutant.invariant}")
    if only is not None:
        judges.append("--seeds=" + ",".join(map(str, only)))
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        into = Path(name)
        if mutant is None:
            copy_of_placement(into)
        else:
            copy_of_placement(into, mutant.file, mutant.text())
        return _run(into, [str(seed), str(STEPS), str(events), *judges])


def _run(into: Path, arguments: list[str]) -> dict[str, Any]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(into), "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(
            [sys.executable, "-S", "-c", _WITH_LIBRARIES, str(HUNT), *arguments],
            cwd=into,
            env=environment | {"MUTANT_LIBRARIES": os.pathsep.join(p for p in sys.path if p)},
            capture_output=True,
            text=True,
            timeout=LONGEST_HUNT_S + int(arguments[2]) / SLOWEST_EVENTS_PER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"invariant": "never-ends", "events": 0}
    if done.returncode != 0:
        return {"invariant": "ends-the-process", "what": done.stderr[-2_000:], "events": 0}
    return json.loads(done.stdout)


# The copy comes first on the path, also before an editable install of the product.
_WITH_LIBRARIES = (
    "import os, runpy, sys; "
    "sys.path[1:1] = [os.environ['PYTHONPATH']]; "
    "sys.path += os.environ['MUTANT_LIBRARIES'].split(os.pathsep); "
    "sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def main() -> int:
    """Runs the catalogue."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument(
        "--events", type=int, default=CATALOGUE_EVENTS, help="longest hunt for one mutant"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="write the results there as well")
    options = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=150)
    mutants = [m for m in CATALOGUE if not options.names or m.name in options.names]
    for mutant in mutants:
        mutant.text()
    began = time.monotonic()
    catches = _hunt_all(console, mutants, options)
    _tell_catalogue(console, catches)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(_as_json(catches, began, options), indent=1) + "\n")
    wrong = wrong_catches(catches) + asked_too_seldom(CATALOGUE)
    for what in wrong:
        print(what, file=sys.stderr)
    return 1 if wrong else 0


def _hunt_all(console: Console, mutants: list[Mutant], options: argparse.Namespace) -> list[Catch]:
    def one(mutant: Mutant) -> Catch:
        found = hunt(mutant, options.events)
        if found["invariant"] == DOES_NOT_LOAD:
            raise SystemExit(f"planted bug {mutant.name!r} is no program: {found['what']}")
        if "seed" in found:
            _assert_sound(found["seed"], FIRST_SEED)
        return Catch(mutant, found)

    with (
        Progress(console=console, transient=True) as bar,
        ThreadPoolExecutor(options.workers) as pool,
    ):
        task = bar.add_task("mutants", total=len(mutants))
        catches: list[Catch] = []
        for catch in pool.map(one, mutants):
            catches.append(catch)
            bar.advance(task)
            if not console.is_terminal:
                print(f"{catch.mutant.name}: {catch.invariant or 'survives'}", file=sys.stderr)
    return catches


def _assert_sound(seed: int, first: int) -> None:
    """Raises `UnsoundReducer` if that history breaks without a mutant: then it tells nothing."""
    sound = hunt(None, 1, seed=first, only=(seed,))
    if sound["invariant"] is not None:
        raise UnsoundReducer(f"seed {seed}: {sound['invariant']}: {sound['what']}")


def _tell_catalogue(console: Console, catches: list[Catch]) -> None:
    table = Table("mutant", "expected", "found by", "seed", "events", title="Planted bugs")
    for catch in catches:
        found = catch.found
        by = catch.invariant or "[red]survives[/]"
        if catch.invariant is not None and not catch.is_as_expected:
            by = f"[yellow]{by}[/]"
        seed = str(found.get("seed", ""))
        table.add_row(catch.mutant.name, catch.mutant.invariant, by, seed, str(found["events"]))
    console.print(table)
    caught = [catch.found["events"] for catch in catches if catch.invariant is not None]
    if caught:
        console.print(
            f"{len(caught)} of {len(catches)} found; events to catch: median "
            f"{statistics.median(caught):.0f}, most {max(caught)}"
        )
    expected = Counter(c.mutant.invariant for c in catches if c.mutant.invariant == c.invariant)
    console.print("as expected: " + ", ".join(f"{k} {n}" for k, n in sorted(expected.items())))


def _as_json(catches: list[Catch], began: float, options: argparse.Namespace) -> dict[str, Any]:
    killed = [catch for catch in catches if catch.invariant is not None]
    events = [catch.found["events"] for catch in killed]
    return {
        "seconds": round(time.monotonic() - began, 1),
        "longest_hunt_events": options.events,
        "mutants": len(catches),
        "killed": len(killed),
        "kill_ratio": round(len(killed) / len(catches), 4) if catches else None,
        "median_events": statistics.median(events) if events else None,
        "results": [
            {
                "mutant": catch.mutant.name,
                "file": f"samza_dagster/placement/{catch.mutant.file}",
                "expected": catch.mutant.invariant,
                **catch.found,
            }
            for catch in catches
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
