"""Options that the commands share: which job, on which cluster, and the form of the output."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import click

from samza_dagster.configuration import (
    Configuration,
    JobSettings,
    configuration,
    described,
    flag,
    variable,
)

if TYPE_CHECKING:
    from samza_dagster.client import PlacementClient
    from samza_dagster.metadata.connection import Connection


class Target(JobSettings):
    """The job that the command line names; environment and file supply the rest."""

    @classmethod
    def of(cls, **given: str | None) -> Self:
        """Return the target of a command's flags, some of which weren't given."""
        return cls(**{name: value for name, value in given.items() if value})

    def configuration(self) -> Configuration:
        """Return the values in force, and where each was set. Raises `InvalidInput`."""
        return configuration(self.model_dump())

    def connection(self) -> Connection:
        """The connection. Raises `InvalidInput` that names what is missing."""
        return self.configuration().connection()

    def client(self) -> PlacementClient:
        """A client of this job; the caller closes it."""
        from samza_dagster.client import PlacementClient

        return PlacementClient(self.connection())


def gathered(
    name: str, make: Callable[..., Any], *options: Callable[[Any], Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds options to a command, which gets what `make` makes of their values as `name`."""
    probe = functools.reduce(lambda command, option: option(command), options, lambda: None)
    taken = [each.name for each in click.command()(probe).params if each.name]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_made(*args: Any, **given: Any) -> Any:
            made = make(**{each: given.pop(each) for each in taken})
            return command(*args, **{name: made}, **given)

        for option in reversed(options):
            with_made = option(with_made)
        return with_made

    return decorate


def not_empty(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Refuse the empty value of a script whose variable isn't set: another job would be meant."""
    if value == "":
        raise click.BadParameter("it is empty: give a value, or leave the option out")
    return value


def setting(name: str) -> Callable[[Any], Any]:
    """The option of one setting of a job; environment and file stand behind it."""
    text = f"{described(name).removesuffix('.')} [env: {variable(name)}]."
    title = JobSettings.model_fields[name].title
    return click.option(flag(name), metavar=title, help=text, callback=not_empty)


TARGET_OPTIONS = [setting(name) for name in JobSettings.model_fields]
target_options = gathered("target", Target.of, *TARGET_OPTIONS)
"""Adds the options of the job; the command gets them as `target`."""
BOOTSTRAP_OPTIONS = [setting(name) for name in ("bootstrap_servers", "config", "client_config")]
"""The brokers and the login there."""


json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout, errors included."
)
