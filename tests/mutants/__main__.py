"""`make mutants`: each planted bug against the simulator alone, and a table.

The exit code is 1 if one survives, or if only others than the judge that it names find it.

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
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.mutants.catalogue import CATALOGUE, Mutant, copy_of_placement
from tests.mutants.hunt import DOES_NOT_LOAD

HUNT = Path(__file__).parent / "hunt.py"
# A hunt that takes longer is taken for one that never ends: many times what it needs alone.
LONGEST_HUNT_S = 1_800
SLOWEST_EVENTS_PER_S = 50
CATALOGUE_EVENTS = 2_500_000


class UnsoundReducer(Exception):
    """The reducer as it is breaks a rule: no mutant says anything before that is mended."""


def hunt(mutant: Mutant | None, events: int, *, only: int | None = None) -> dict[str, Any]:
    """One hunt in a copy of its own, what `hunt.py` printed; None is the reducer as it is.

    With `only` no other seed is tried.
    """
    named = "" if mutant is None else mutant.invariant
    arguments = [str(events), named, "" if only is None else str(only)]
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        into = Path(name)
        copy_of_placement(into, mutant)
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": name, "PYTHONHASHSEED": "0"}
        try:
            done = subprocess.run(
                [sys.executable, "-S", "-c", _WITH_LIBRARIES, str(HUNT), *arguments],
                cwd=into,
                env=environment | {"MUTANT_LIBRARIES": os.pathsep.join(p for p in sys.path if p)},
                capture_output=True,
                text=True,
                timeout=LONGEST_HUNT_S + events / SLOWEST_EVENTS_PER_S,
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
    mutants = [m for m in CATALOGUE if not options.names or m.name in options.names]
    began = time.monotonic()
    found: list[dict[str, Any]] = []
    with ThreadPoolExecutor(options.workers) as pool:
        for row in pool.map(partial(_caught, events=options.events), mutants):
            found.append(row)
            print(f"{row['mutant']}: {row['invariant'] or 'survives'}", file=sys.stderr)
    _tell(found)
    wrong = [row for row in found if row["invariant"] != row["expected"]]
    killed = [row for row in found if row["invariant"] is not None]
    if options.json:
        document = {
            "seconds": round(time.monotonic() - began, 1),
            "longest_hunt_events": options.events,
            "mutants": len(found),
            "killed": len(killed),
            "results": found,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    for row in wrong:
        by = f"found by {row['invariant']}" if row["invariant"] else "survives"
        print(f"{row['mutant']}: expected {row['expected']}, {by}", file=sys.stderr)
    return 1 if wrong else 0


def _caught(mutant: Mutant, events: int) -> dict[str, Any]:
    """What found it; raises `UnsoundReducer` if the history that shows the bug breaks without it: then it tells nothing."""
    found = hunt(mutant, events)
    if found["invariant"] == DOES_NOT_LOAD:
        raise SystemExit(f"planted bug {mutant.name!r} is no program: {found['what']}")
    if "seed" in found:
        sound = hunt(None, 1, only=found["seed"])
        if sound["invariant"] is not None:
            raise UnsoundReducer(f"seed {found['seed']}: {sound['invariant']}: {sound['what']}")
    file = f"samza_dagster/placement/{mutant.file}"
    return {"mutant": mutant.name, "file": file, "expected": mutant.invariant, **found}


def _tell(rows: list[dict[str, Any]]) -> None:
    console = Console() if sys.stdout.isatty() else Console(width=150)
    table = Table("mutant", "expected", "found by", "seed", "events", title="Planted bugs")
    for row in rows:
        by = row["invariant"] or "survives"
        seed = str(row.get("seed", ""))
        table.add_row(row["mutant"], row["expected"], by, seed, str(row["events"]))
    console.print(table)
    events = [row["events"] for row in rows if row["invariant"] is not None]
    if events:
        console.print(
            f"{len(events)} of {len(rows)} found; events to catch: median "
            f"{statistics.median(events):.0f}, most {max(events)}"
        )


if __name__ == "__main__":
    sys.exit(main())
