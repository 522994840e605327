"""`samza-dagster demo`: the demo for a person, or once with a JSON summary."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time

import click
from rich.console import Console

from samza_dagster.errors import SamzaDagsterError
from samza_dagster.interrupts import interrupts_deferred, interrupts_raise
from samza_dagster.sandbox.demo.run import Demo
from samza_dagster.sandbox.demo.takeover import TakeoverDemo
from samza_dagster.sandbox.lifecycle import COORDINATORS, PROCESSORS, SAMZAS, Options
from samza_dagster.sandbox.load_plan import RATE


@click.command("demo")
@click.option("--once", is_flag=True, help="End by itself; exit 0 only if all held.")
@click.option("--name", default="demo", show_default=True, help="Name of the sandbox.")
@click.option(
    "--state-mb", type=click.FloatRange(1, 4096), default=50.0, show_default=True,
    help="Live state per active, MB.",
)  # fmt: skip
@click.option(
    "--rate", type=click.FloatRange(1, 5000), default=RATE, show_default=True,
    help="Records a second.",
)  # fmt: skip
@click.option("--yarn", is_flag=True, help="On a real YARN.")
@click.option(
    "--coordinator", type=click.Choice(COORDINATORS), default=SAMZAS, show_default=True,
    help="With --yarn: Samza's own Application Master, or our coordinator.",
)  # fmt: skip
@click.option(
    "--standalone", is_flag=True, help="Standalone processors over a ZooKeeper: one is killed."
)
def demo_command(
    once: bool,
    name: str,
    state_mb: float,
    rate: float,
    yarn: bool,
    coordinator: str,
    standalone: bool,
) -> None:
    """Moves a stateful Samza container to its standby's host, driven by Dagster.

    Brings up Kafka, four simulated hosts, real Samza containers with state and hot
    standbys, and Dagster; stays up until Ctrl-C. The last line on standard output is a
    JSON summary.

    \b
    Examples:
      samza-dagster demo
      samza-dagster demo --once --state-mb 10
      samza-dagster demo --once --yarn
      samza-dagster demo --once --yarn --coordinator ours
      samza-dagster demo --once --standalone
    """
    options = Options(
        name=name, state_mb=state_mb, rate=rate, yarn=yarn, coordinator=coordinator, standalone=standalone,
        hosts=PROCESSORS if standalone else Options.hosts,
    )  # fmt: skip
    console = Console(stderr=True, highlight=False)
    began = time.monotonic()

    def tell(line: str) -> None:
        console.print(f"[dim]{time.monotonic() - began:6.1f} s[/dim]  {line}", soft_wrap=True)

    interrupts_raise(signal.SIGINT, signal.SIGTERM)
    made = TakeoverDemo if standalone else Demo
    demo = made(options, lambda line: tell(line.replace("[", r"\[")))
    status = 1
    try:
        demo.run()
        status = 0 if demo.findings.is_fulfilled else 1
        for what, url in demo.links.items():
            tell(f"{what:<20} {url}")
        if not once:
            tell(f"up until Ctrl-C; samza-dagster sandbox status --name {name} has the addresses")
            threading.Event().wait()
    except KeyboardInterrupt:
        status = 130 if status else 0
        tell("stopping …")
    except SamzaDagsterError as error:
        demo.findings.failure = str(error)
        status = error.exit_code
        tell(f"[red]{error}[/red]")
    finally:
        with interrupts_deferred():
            demo.close()
    tell("all that it started is stopped")
    click.echo(json.dumps(demo.findings.to_json(demo.seconds, time.monotonic() - began)))
    sys.exit(status)
