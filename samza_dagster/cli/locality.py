"""`samza-dagster locality`: where containers and tasks are."""

from __future__ import annotations

import click

from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import busy, print_json, print_table
from samza_dagster.cli.status import end_if_unread, tell_over


@click.command()
@json_option
@target_options
def locality(target: Target, as_json: bool) -> None:
    """Show the host of each processor and task, as the containers reported it last.

    Exits 4 when the coordinator's state can't be read: standbys that it has spun up are missing.

    \b
    Examples:
      samza-dagster locality
      samza-dagster locality --json
    """
    with target.client() as client, busy("Reading the locality …"):
        hosts, view = client.locality(), client.known_view()
        tasks = {
            task: (processor, hosts.host_of(processor.processor_id))
            for _, processor in sorted(view.processors.items())
            for task in processor.tasks
        }
    if as_json:
        print_json(
            {
                **hosts.to_wire(),
                "task-localities": {task: host for task, (_, host) in tasks.items()},
                "over": [action.to_json() for action in view.over],
                "unread": view.unread,
            }
        )
    else:
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
        tell_over(view.over)
    end_if_unread(view)
