"""`samza-dagster sandbox up|dagster|down|status`."""

from __future__ import annotations

import json
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

import click

from samza_dagster.directories import sandboxes_directory
from samza_dagster.errors import ActionFailed, InvalidInput, Refused, SamzaDagsterError
from samza_dagster.interrupts import interrupts_raise
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.lifecycle import (
    COORDINATORS,
    PROCESSORS,
    SAMZAS,
    Options,
    Sandbox,
    resource_manager_of,
)
from samza_dagster.sandbox.progress import Phases
from samza_dagster.sandbox.yarn.runner import OwnYarnRunner, YarnRunner

_NAME = click.option("--name", default="default", show_default=True, help="Which sandbox.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_INTERRUPTED = 130


@click.group()
def sandbox() -> None:
    """Run Kafka, simulated hosts and the demo job on this machine.

    \b
    Examples:
      samza-dagster sandbox up                 # until Ctrl-C
      samza-dagster sandbox up --detach --json
      samza-dagster sandbox dagster            # its cockpit, until Ctrl-C
      samza-dagster sandbox status --json
      samza-dagster sandbox down
    """


@sandbox.command()
@_NAME
@click.option(
    "--actives", type=click.IntRange(1, 16), default=2, show_default=True, help="Active containers."
)
@click.option(
    "--standbys", type=click.IntRange(0, 3), default=1, show_default=True, help="Per active."
)
@click.option(
    "--hosts", "--processors", "hosts", type=click.IntRange(1, 32),
    help="So many hosts [4]; with --standalone processors, each on a host of its own [3].",
)  # fmt: skip
@click.option(
    "--state-mb", type=click.FloatRange(0.1, 10_000), default=50.0, show_default=True,
    help="Live state per active, MB.",
)  # fmt: skip
@click.option(
    "--rate",
    type=click.FloatRange(1, 20_000),
    default=60.0,
    show_default=True,
    help="Records a second.",
)
@click.option(
    "--host-memory-mb",
    type=click.IntRange(256, 1_048_576),
    default=2048,
    show_default=True,
    help="Of each host, MiB; a container takes 256.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the load's keys.")
@click.option(
    "--fencing",
    type=click.Choice(["broker", "lease"]),
    default="broker",
    show_default=True,
    help="What takes its tasks from a container that nobody has seen dead.",
)
@click.option(
    "--brokers", type=click.IntRange(1, 9), default=1, show_default=True, help="Of Kafka."
)
@click.option("--yarn", is_flag=True, help="On a real YARN.")
@click.option(
    "--coordinator", type=click.Choice(COORDINATORS), default=SAMZAS, show_default=True,
    help="With --yarn: Samza's own Application Master, without fencing, or our coordinator.",
)  # fmt: skip
@click.option("--standalone", is_flag=True, help="As standalone processors over a ZooKeeper.")
@click.option("--detach", is_flag=True, help="Return when it is up and leave it running.")
@_JSON
def up(
    *, name: str, detach: bool, as_json: bool, hosts: int | None, standalone: bool, **options: Any
) -> None:
    """Bring a sandbox up: broker, topics, state, hosts, coordinator, warm standbys.

    Stays until Ctrl-C and then ends all of it; with --detach it returns and stays up.

    \b
    Examples:
      samza-dagster sandbox up --state-mb 5 --rate 100
      samza-dagster sandbox up --name second --detach
      samza-dagster sandbox up --brokers 3
      samza-dagster sandbox up --yarn
      samza-dagster sandbox up --yarn --coordinator ours
      samza-dagster sandbox up --standalone --processors 3
    """
    interrupts_raise(signal.SIGINT, signal.SIGTERM)
    phases = Phases(_tell)
    started = time.monotonic()
    box = Sandbox(name)
    try:
        count = hosts or (PROCESSORS if standalone else Options.hosts)
        made = Options(name=name, hosts=count, standalone=standalone, **options)
        status = box.up(made, phases)
    except KeyboardInterrupt:
        _tell("nothing is left running")
        raise
    took = round(time.monotonic() - started, 1)
    facts = {**status, "seconds": {**phases.seconds, "all": took}}
    try:
        click.echo(json.dumps(facts) if as_json else _describe(facts))
        if detach:
            return
        _tell(f"up in {took} s; Ctrl-C ends it")
        while box.registry.live():
            time.sleep(1)
    except KeyboardInterrupt:
        _down(box)
        sys.exit(_INTERRUPTED)  # stdout has one document, the status
    _down(box)


@sandbox.command()
@_NAME
@click.option(
    "--port", type=click.IntRange(1, 65_535), default=3000, show_default=True, help="Of the UI."
)
def dagster(name: str, port: int) -> None:
    """Open Dagster on a sandbox that is up: its jobs, sensors and assets, until Ctrl-C.

    The instance is the sandbox's own: the next `sandbox up` of that name begins a new one.

    \b
    Examples:
      samza-dagster sandbox dagster
      samza-dagster sandbox dagster --name second --port 3001
    """
    interrupts_raise(signal.SIGINT, signal.SIGTERM)
    box = Sandbox(name)
    stack = box.dagster(port)
    try:
        with Phases(_tell).phase("Dagster"):
            stack.start(timeout_s=300)
        box.registry.update(dagster_url=stack.url)
        click.echo(stack.url)
        _tell("Ctrl-C ends it; the sandbox stays up")
        while stack.is_running:
            time.sleep(1)
        _tell("it was ended")
    except KeyboardInterrupt:
        _tell("ending …")
        sys.exit(_INTERRUPTED)
    finally:
        stack.stop()
        if box.registry.exists:
            box.registry.update(dagster_url=None)


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _down(box: Sandbox) -> None:
    _tell("ending …")
    _tell(f"ended {box.down()} processes")


@sandbox.command()
@_NAME
@click.option("--all", "every", is_flag=True, help="Every sandbox that is on record.")
@_JSON
def down(name: str, every: bool, as_json: bool) -> None:
    """End every process of a sandbox, also of one that was killed.

    With --all, one that can't be ended keeps none of the others up; the exit status is then 1.

    \b
    Examples:
      samza-dagster sandbox down --name second
      samza-dagster sandbox down --all
    """
    names = [p.parent.name for p in sandboxes_directory().glob("*/sandbox.json")]
    ended: dict[str, int] = {}
    failed: dict[str, SamzaDagsterError] = {}
    for each in sorted(names) if every else [name]:
        box = Sandbox(each)
        try:
            if box.registry.live():
                click.echo(f"ending {each} …", err=True)  # containers may wait for a lost broker
            ended[each] = box.down()
        except SamzaDagsterError as error:
            if not every:
                raise
            failed[each] = error
    if failed:
        raise ActionFailed(
            f"end {len(ended) + len(failed)} sandboxes",
            seen="; ".join(f"{each}: {error}" for each, error in failed.items())
            + (f" (ended: {', '.join(ended)})" if ended else ""),
            fix=f"samza-dagster sandbox down --name {next(iter(failed))}, when the cause is gone",
        )
    facts = {"name": None if every else name, "ended": sum(ended.values()), "by_name": ended}
    click.echo(json.dumps(facts) if as_json else f"ended {facts['ended']} processes")


@sandbox.command()
@_NAME
@click.option("--env", is_flag=True, help="Print `export` lines for the other commands.")
@_JSON
def status(name: str, env: bool, as_json: bool) -> None:
    """Show what is up: addresses, hosts, processors.

    \b
    Examples:
      samza-dagster sandbox status --json
      eval "$(samza-dagster sandbox status --env)"   # then: samza-dagster status
    """
    box = Sandbox(name)
    facts = box.status()
    if env and not as_json:
        click.echo(_exports(facts, box.dagster_home))
    else:
        click.echo(json.dumps(facts) if as_json else _describe(facts))


@sandbox.command("exec", context_settings={"ignore_unknown_options": True})
@_NAME
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(name: str, command: tuple[str, ...]) -> None:
    """Run a command in the network of a sandbox's YARN, with the flags of a coordinator of ours set.

    \b
    Examples:
      samza-dagster sandbox exec bash
      samza-dagster sandbox exec yarn application -list
    """
    runner = Sandbox(name).runner
    if not isinstance(runner, YarnRunner | OwnYarnRunner):
        raise Refused(
            "run a command in the network of a YARN",
            seen=f"sandbox {name} has none, or isn't up",
            fix="samza-dagster sandbox up --yarn --detach",
        )
    raise SystemExit(runner.files.run(command))


def _exports(facts: dict[str, Any], dagster_home: Path) -> str:
    """Return `export` lines for the job, and for the sandbox's Dagster once it exists."""
    if not facts["bootstrap_servers"]:
        up = f"samza-dagster sandbox up --name {facts['name']} --detach"
        remains = f"samza-dagster sandbox down --name {facts['name']}, then {up}"
        raise InvalidInput(
            f"the address of sandbox {facts['name']!r}",
            seen=f"it is {facts['state']}"
            + ("" if facts["state"] == "down" else ", without a broker"),
            fix=f"{up if facts['state'] == 'down' else remains}; or another --name",
        )
    values = demo_job.environment(
        facts["bootstrap_servers"],
        yarn_resource_manager=resource_manager_of(facts),
        zookeeper=facts["zookeeper"] or "",
    )
    if (dagster_home / "dagster.yaml").is_file():
        values["DAGSTER_HOME"] = str(dagster_home)
    return "\n".join(f"export {name}={shlex.quote(text)}" for name, text in values.items())


def _describe(facts: dict[str, Any]) -> str:
    hosts = ", ".join(f"{name} {host['state']}" for name, host in facts["hosts"].items())
    lines = [
        f"sandbox {facts['name']}: {facts['state']}"
        + (f", gone: {', '.join(facts['gone'])}" if facts.get("gone") else ""),
        f"  broker       {facts['bootstrap_servers'] or '-'}",
        *(
            [f"  zookeeper    {facts['zookeeper']}"]
            if facts["zookeeper"]
            else [f"  coordinator  {facts['coordinator_url'] or '-'}"]
        ),
        *([f"  yarn         {facts['resource_manager']}"] if facts.get("resource_manager") else []),
        f"  job          {facts['job']['name']} {facts['job']['id']}, deployment {facts['deployment_id'] or '-'}",
        f"  hosts        {hosts or '-'}",
        f"  dagster      {facts['dagster_url'] or _cockpit_of(facts)}",
        f"  data         {facts['data_dir']}",
    ]
    for processor_id, each in sorted(facts["processors"].items()):
        lines.append(
            f"  {processor_id:<6} {each.get('mode') or '':<8} {each.get('state') or '':<10} "
            f"{each.get('host') or '-':<8} pid {each.get('pid') or '-'}"
            + (f"  {_tasks_of(each)}" if "active_tasks" in each else "")
        )
    return "\n".join(lines)


def _tasks_of(processor: dict[str, Any]) -> str:
    """Return a standalone processor's tasks as text."""
    return ", ".join((*processor["active_tasks"], *processor["standby_tasks"])) or "no task"


def _cockpit_of(facts: dict[str, Any]) -> str:
    """Return the command that opens Dagster on the sandbox."""
    name = "" if facts["name"] == "default" else f" --name {facts['name']}"
    return f"samza-dagster sandbox dagster{name}" if facts["state"] == "up" else "-"
