"""Where a processor is: its location id, which all have in common that can share their state's disk (SAMZA-1554)."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path

from samza_dagster.errors import InvalidInput

ENTRY_POINTS = "samza_dagster.location_ids"
"""The entry points by which a package adds a provider: name → a function of the text after the colon."""


def location_id(named: str, environment: Mapping[str, str] | None = None) -> str:
    """The location by its provider's name.

    `host` is the host's name; `env:NAME` a variable; `file:PATH` a file's first line; `kubernetes` the pod's
    node or name (`NODE_NAME`, `POD_NAME`, by the downward API); several with `+` between are one composite
    location, their ids with `.` between. Raises `InvalidInput` that names the provider.
    """
    given = os.environ if environment is None else environment
    found = [_of(part.strip(), given) for part in named.split("+")]
    for name, value in zip(named.split("+"), found, strict=True):
        if not value or any(character.isspace() or character == "/" for character in value):
            raise InvalidInput(
                f"the location by {name}", seen=repr(value), fix="a name without spaces and slashes"
            )
    return ".".join(found)


def _of(provider: str, environment: Mapping[str, str]) -> str:
    name, _, argument = provider.partition(":")
    own: dict[str, Callable[[str], str]] = {
        "host": lambda _: socket.gethostname(),
        "env": lambda variable: _variable(variable, environment),
        "file": _first_line,
        "kubernetes": lambda _: environment.get("NODE_NAME") or _variable("POD_NAME", environment),
    }
    if name in own:
        return own[name](argument)
    for point in entry_points(group=ENTRY_POINTS, name=name):
        made: Callable[[str], str] = point.load()
        return made(argument)
    raise InvalidInput(
        "a provider of location ids",
        seen=repr(provider),
        fix=f"{', '.join(own)}, several with + between, or one of the entry points {ENTRY_POINTS}",
    )


def _variable(name: str, environment: Mapping[str, str]) -> str:
    value = environment.get(name, "")
    if not value:
        raise InvalidInput(
            "the location by a variable", seen=f"{name} isn't set", fix=f"set {name}"
        )
    return value


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").partition("\n")[0].strip()
    except OSError as error:
        raise InvalidInput(
            f"the location by {path}", seen=str(error), fix="a file that is there"
        ) from error
