"""The page of the commands, by click's own metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import click

from docs.site.page import page, prose, table


def cli() -> str:
    """Each command of `samza-dagster`, and `place-container`."""
    from samza_dagster.cli.lag import lag
    from samza_dagster.cli.main import cli as root
    from samza_dagster.cli.place_container import place_container

    parts = [
        "Each command's own `--help` says the same. Where a job is meant, `--bootstrap-servers`, `--config`, `--job-name` and"
        " `--job-id` name it, or the environment does.",
        _help_text(root),
        "Exit status: 0 done, 1 failed, 2 bad usage or request, 3 timed out, 4 unreachable,"
        " 130 interrupted.",
    ]
    of_a_job = [row for row in _rows(lag) if row[0] != "`--json`"]
    parts += ["## Options of a job", "Most commands have them.", table(("option", ""), of_a_job)]
    for path, command in [*_commands(root, "samza-dagster"), ("place-container", place_container)]:
        parts.append(_command(path, command, of_a_job))
    return page("Commands", *parts)


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _command(path: str, command: click.Command, of_a_job: Sequence[tuple[str, str]]) -> str:
    """Its help, and its options; those of a job stand at the top of the page."""
    context = click.Context(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    rows = _rows(command)
    if set(of_a_job) <= set(rows):
        rows = [row for row in rows if row not in of_a_job]
        rows.append(("", "and the [options of a job](#options-of-a-job)"))
    options = table(("option", ""), rows) if rows else ""
    told = (f"## {path}", _help_text(command), f"```text\n{path} {usage}\n```", options)
    return "\n\n".join(part for part in told if part)


def _rows(command: click.Command) -> list[tuple[str, str]]:
    context = click.Context(command)
    records = [param.get_help_record(context) for param in command.params]
    return [(f"`{names}`", text) for names, text in filter(None, records)]


def _help_text(command: click.Command) -> str:
    """Its paragraphs; what click is told to leave as it is, is an example."""
    parts: list[str] = []
    for paragraph in re.split(r"\n\n+", prose(command.help or "")):
        if not paragraph.startswith("\b"):
            parts.append(paragraph)
            continue
        head, *lines = paragraph.removeprefix("\b\n").splitlines()
        if head.endswith(":"):
            parts.append(head)
        else:
            lines.insert(0, head)
        parts.append("```\n{}\n```".format("\n".join(line.strip() for line in lines)))
    return "\n\n".join(parts)
