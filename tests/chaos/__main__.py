"""`python -m tests.chaos --faults 14 [--seed N] [--fencing lease]`; exit 0 when every judge agrees."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path

import click
from rich.console import Console

from samza_dagster.interrupts import interrupts_raise
from samza_dagster.sandbox.hosts import host_names
from tests.chaos.acts import OwnActs
from tests.chaos.broker_links import BrokerLinks
from tests.chaos.clocks import SET, HostClocks
from tests.chaos.cut_links import HELD
from tests.chaos.report import Report, outcome
from tests.chaos.run import ChaosRun
from tests.chaos.schedule import (
    HOST_TIMEOUT_S,
    KINDS,
    LEASE_BOUND_S,
    NODE_EXPIRY_S,
    OF_SEVERAL_BROKERS,
    OF_YARN,
    Fault,
    schedule,
)
from tests.chaos.yarn_acts import YarnActs
from tests.rig.broker import job_listeners
from tests.rig.demo_sandbox import OPTIONS, demo_sandbox
from tests.rig.ours_on_yarn import JobOnYarn, ours_on_yarn
from tests.rig.sandbox_job import SandboxJob

LEASE_MS = 20_000
"""Short, so that faults outlast it. Then containers rightly end, and nothing may be lost by it."""
SETTINGS = {
    "samza.dagster.host.timeout.ms": str(round(HOST_TIMEOUT_S * 1000)),
    "samza.dagster.lease.bound.ms": str(round(LEASE_BOUND_S * 1000)),
    # What is killed again and again by us doesn't flap.
    "cluster-manager.container.retry.count": "-1",
    "task.commit.ms": "1000",
}
ON_YARN = (
    *OF_YARN,
    *(k for k in KINDS if k not in HELD and k not in SET and k != "upgrade agent"),
)
"""No link is cut there and no clock is wrong, and agents are as the coordinator has them."""


@click.command()
@click.option("--faults", type=click.IntRange(1), default=14, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--fencing", type=click.Choice(["broker", "lease"]), default="broker", show_default=True
)
@click.option(
    "--brokers",
    type=click.Choice(["1", "3"]),
    default="1",
    show_default=True,
    help="of three each may be away, and more may befall them",
)
@click.option("--yarn", is_flag=True, help="on a real YARN, whose parts are killed, too")
@click.option("--lease-ms", type=click.IntRange(1_000), default=LEASE_MS, show_default=True)
@click.option(
    "--lasting",
    type=click.FloatRange(0.1, 20.0),
    default=1.0,
    show_default=True,
    help="faults last so many times as long, but for those that outlast a lease anyway",
)
@click.option(
    "--only",
    "kinds",
    multiple=True,
    type=click.Choice((*KINDS, *OF_SEVERAL_BROKERS, *OF_YARN)),
    help="these kinds alone",
)
@click.option(
    "--skew-s",
    type=click.FloatRange(0),
    default=100.0,
    show_default=True,
    help="hosts' clocks are ahead and behind by it, by turns; 0 leaves them as they are",
)
@click.option(
    "--expect-overlaps",
    is_flag=True,
    help="fail without an overlap too: shows, with leases alone, that the judge isn't blind",
)
@click.option("--json", "output", type=click.Path(dir_okay=False, path_type=Path))
def main(
    faults: int,
    seed: int,
    fencing: str,
    brokers: str,
    yarn: bool,
    lease_ms: int,
    lasting: float,
    kinds: tuple[str, ...],
    skew_s: float,
    expect_overlaps: bool,
    output: Path | None,
) -> None:
    """Faults by the seed on real containers, then what outsiders find.

    What ends it early, a SIGINT or SIGTERM too, leaves no process, and the report of what was
    seen by then; exit 1.
    """
    if yarn and brokers != "1":
        raise click.UsageError("on YARN there is one broker")
    possible = ON_YARN if yarn else KINDS if brokers == "1" else (*OF_SEVERAL_BROKERS, *KINDS)
    if beyond := [kind for kind in kinds if kind not in possible]:
        raise click.UsageError(
            f"nobody there can suffer {', '.join(beyond)}: --brokers 3, or --yarn"
        )
    interrupts_raise(signal.SIGINT, signal.SIGTERM)
    console = Console(stderr=True)
    report = Report(
        *(seed, fencing),
        actives=OPTIONS.actives,
        brokers=int(brokers),
        expects_overlaps=expect_overlaps,
    )
    settings = {**SETTINGS, "samza.dagster.lease.ms": str(lease_ms)}
    planned = schedule(
        *(seed, faults, kinds or tuple(k for k in possible if skew_s or k not in SET)),
        lasting=lasting,
        lease_s=lease_ms / 1000,
        fenced=fencing == "broker",
    )

    def go() -> None:
        if yarn:
            run_on_yarn(report, planned, settings, console.print)
        else:
            run(report, planned, settings, skew_s, console.print)

    told_whatever_happens(report, go, console, output)
    sys.exit(0 if report.is_good else 1)


def run(
    report: Report,
    planned: Iterable[Fault],
    settings: Mapping[str, str],
    skew_s: float,
    say: Callable[[str], None],
) -> None:
    """A sandbox of its own, the faults, the judgement."""
    hosts = host_names(OPTIONS.hosts)
    with tempfile.TemporaryDirectory(prefix="chaos-") as root:
        clocks = HostClocks(Path(root) / "clocks", hosts, skew_s)
        behind = job_listeners(Path(root) / OPTIONS.name, report.brokers)
        with (
            BrokerLinks(Path(root) / "links", hosts, behind) as links,
            demo_sandbox(
                *(Path(root), settings, links.hosts_file, clocks.environment),
                fencing=report.fencing,
                brokers=report.brokers,
                job_address=links.addresses,
            ) as sandbox,
        ):
            job = SandboxJob(sandbox)
            try:
                ChaosRun(job, OwnActs(job, links, clocks), report, say).go(planned)
            finally:
                job.close()


def run_on_yarn(
    report: Report,
    planned: Iterable[Fault],
    settings: Mapping[str, str],
    say: Callable[[str], None],
) -> None:
    """The same on a YARN. With an even seed its NodeManagers recover: one that is back too late ends
    what lived on.
    """
    of_yarn = {
        "yarn.nm.liveness-monitor.expiry-interval-ms": str(round(NODE_EXPIRY_S * 1000)),
        "yarn.nodemanager.recovery.enabled": str(report.seed % 2 == 0).lower(),
    }
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as root,
        ours_on_yarn(
            Path(root), settings={**settings, **of_yarn}, fencing=report.fencing
        ) as sandbox,
        closing(JobOnYarn(sandbox)) as job,
    ):
        ChaosRun(job, YarnActs(job, Path(root) / "links"), report, say).go(planned)


def told_whatever_happens(
    report: Report, go: Callable[[], None], console: Console, output: Path | None
) -> None:
    """Table, file and verdict of what was seen, however `go` ends."""
    try:
        go()
    except (Exception, KeyboardInterrupt) as error:
        report.cut_short.append(outcome(error))
        console.print("".join(traceback.format_exception(error)), markup=False)
    console.print(report.table())
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(report.to_json(), indent=1))
    wrong = report.wrong_overlaps
    for overlap in report.overlaps:
        where = "" if overlap in wrong else ", as a frozen host thawed"
        console.print(f"two owners: {overlap}{where}")
    print(json.dumps(report.verdict()), flush=True)


if __name__ == "__main__":
    main()
