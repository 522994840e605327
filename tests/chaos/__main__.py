"""`python -m tests.chaos --faults 14 [--seed N] [--fencing lease]`; exit 0 when every judge agrees."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console

from samza_dagster.sandbox.broker_settings import JOB_LISTENER
from samza_dagster.sandbox.hosts import host_names
from tests.chaos.broker_links import BrokerLinks
from tests.chaos.report import Report
from tests.chaos.run import ChaosRun
from tests.chaos.schedule import KINDS, schedule
from tests.rig.broker import listeners
from tests.rig.demo_sandbox import OPTIONS, demo_sandbox
from tests.rig.sandbox_job import SandboxJob

LEASE_MS = 20_000
"""Short, so that faults outlast it. Then containers rightly end, and nothing may be lost by it."""
SETTINGS = {
    "samza.dagster.host.timeout.ms": "10000",
    # What is killed again and again by us doesn't flap.
    "cluster-manager.container.retry.count": "-1",
    "task.commit.ms": "1000",
}


@click.command()
@click.option("--faults", type=click.IntRange(1), default=14, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--fencing", type=click.Choice(["broker", "lease"]), default="broker", show_default=True
)
@click.option("--lease-ms", type=click.IntRange(1_000), default=LEASE_MS, show_default=True)
@click.option(
    "--lasting",
    type=click.FloatRange(0.1, 20.0),
    default=1.0,
    show_default=True,
    help="faults last so many times as long, but for those that outlast a lease anyway",
)
@click.option("--only", "kinds", multiple=True, type=click.Choice(KINDS), help="these kinds alone")
@click.option("--json", "output", type=click.Path(dir_okay=False, path_type=Path))
def main(
    faults: int,
    seed: int,
    fencing: str,
    lease_ms: int,
    lasting: float,
    kinds: tuple[str, ...],
    output: Path | None,
) -> None:
    """Faults by the seed on real containers, then what outsiders find."""
    console = Console(stderr=True)
    settings = {**SETTINGS, "samza.dagster.lease.ms": str(lease_ms)}
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as root,
        BrokerLinks(
            Path(root) / "links",
            host_names(OPTIONS.hosts),
            lambda: listeners(Path(root) / OPTIONS.name)[JOB_LISTENER],
        ) as links,
        demo_sandbox(
            Path(root), settings, links.hosts_file, fencing=fencing, job_address=links.address
        ) as sandbox,
    ):
        job = SandboxJob(sandbox)
        report = ChaosRun(job, links, Report(seed, fencing), console.print).go(
            schedule(seed, faults, kinds or KINDS, lasting=lasting, lease_s=lease_ms / 1000)
        )
        job.close()
    console.print(report.table())
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(report.to_json(), indent=1))
    told = report.to_json()
    for overlap in report.overlaps:
        console.print(f"two owners: {overlap}")
    print(json.dumps({k: told[k] for k in told if k != "faults"}))
    sys.exit(0 if report.is_good else 1)


if __name__ == "__main__":
    main()
