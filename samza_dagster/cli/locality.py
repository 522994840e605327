"""`samza-dagster locality`: where containers and tasks are."""

from __future__ import annotations

import click

from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import busy, print_json, print_table


@click.command(short_help="Show where containers and tasks are.")
@json_option
@target_options
def locality(target: Target, as_json: bool) -> None:
    """Show the host of each processor and task, as the containers reported it last.

    \b
    Examples:
      samza-dagster locality
      samza-dagster locality --json
    """
    with target.client() as client, busy("Reading the locality …"):
        hosts = client.locality()
        tasks = {
            task: (processor, hosts.host_of(processor.processor_id))
            for _, processor in sorted(client.view().processors.items())
            for task in processor.tasks
        }
    if as_json:
        print_json(
            {
                **hosts.to_wire(),
                "task-localities": {task: host for task, (_, host) in tasks.items()},
            }
        )
        return
    print_table(
        "Processors",
        ("processor", "host"),
        [(p.id, p.host) for _, p in sorted(hosts.processor_localities.items())],
    )
    print_table(
        "Tasks",
        ("task", "mode", "processor", "host"),
        [
            (task, processor.mode.value, processor.processor_id, host)
            for task, (processor, host) in sorted(tasks.items())
        ],
    )
