"""The Dagster instance that a command reads and writes, and what keeps it from being opened."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from samza_dagster.errors import InvalidInput, SamzaDagsterError, Unreachable

if TYPE_CHECKING:
    import dagster as dg

_CONFIG = "dagster.yaml"
_RUNS = Path("history", "runs.db")
"""Where an instance without a `dagster.yaml`, which has Dagster's defaults, keeps its runs."""
_SQLITE = b"SQLite format 3\x00"


def require_instance(home: Path) -> None:
    """Raises `InvalidInput` when `home` is no DAGSTER_HOME; Dagster would make a new one of it."""
    if (home / _CONFIG).is_file() or _begins_with(home / _RUNS, _SQLITE):
        return
    raise InvalidInput(
        f"open the Dagster instance of DAGSTER_HOME {home}",
        seen=f"no {_CONFIG} in it, and no runs of an instance with Dagster's defaults ({_RUNS})"
        if home.is_dir()
        else "no such directory",
        fix="the DAGSTER_HOME that Dagster's daemon runs with; to make one:"
        f" samza-dagster instance {home}",
    )


def _named(_context: click.Context, _parameter: click.Parameter, home: Path | None) -> Path:
    if home is None or not home.is_dir():
        raise InvalidInput(
            "which Dagster instance",
            seen=f"no directory {home}" if home else "neither --dagster-home nor DAGSTER_HOME",
            fix="the DAGSTER_HOME that Dagster's daemon runs with",
        )
    return home


home_option = click.option(
    "--dagster-home",
    "home",
    envvar="DAGSTER_HOME",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_named,
    metavar="DIRECTORY",
    help="The Dagster instance [env: DAGSTER_HOME].",
)


@contextmanager
def dagster_instance(home: Path) -> Generator[dg.DagsterInstance]:
    """The instance of a DAGSTER_HOME. Creates none.

    Raises `InvalidInput` when there is none, or when its `dagster.yaml` can't be used here,
    naming what it misses, an environment variable for instance, and `Unreachable` when its
    database doesn't answer.
    """
    from sqlalchemy.exc import DBAPIError

    require_instance(home)
    os.environ.setdefault("DAGSTER_HOME", str(home))
    try:
        with _opened(home) as instance:
            yield instance
    except SamzaDagsterError:
        raise
    except Exception as error:
        # dagster_postgres wraps what its driver says in an error of its own; it is an extra.
        failed = error if isinstance(error, DBAPIError) else error.__cause__
        if not isinstance(failed, DBAPIError):
            raise
        raise Unreachable(
            f"read the Dagster instance {home}",
            seen=next(iter(str(failed.orig).strip().splitlines()), type(failed).__name__),
            fix="its database must answer at the address that dagster.yaml names",
        ) from error


def _opened(home: Path) -> dg.DagsterInstance:
    import dagster as dg
    from dagster_shared.check import CheckError
    from yaml import YAMLError

    fix = f"mend {home / _CONFIG}, or write it anew: samza-dagster instance {home} --force"
    try:
        return dg.DagsterInstance.from_config(str(home.resolve()))
    except dg.DagsterInvalidConfigError as error:
        seen = "; ".join(one.message.strip().splitlines()[0] for one in error.errors)
        fix = "run the command in the environment that Dagster's daemon runs in"
        raise InvalidInput(f"open the Dagster instance {home}", seen=seen, fix=fix) from error
    except (YAMLError, CheckError, UnicodeDecodeError) as error:
        seen = " ".join(str(error).split())
        raise InvalidInput(f"open the Dagster instance {home}", seen=seen, fix=fix) from error
    except OSError as error:
        seen = f"{error.filename or home}: {error.strerror or error}"
        fix = "run the command as the user that Dagster's daemon runs as"
        raise InvalidInput(f"open the Dagster instance {home}", seen=seen, fix=fix) from error


def _begins_with(path: Path, what: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(what)) == what
    except OSError:
        return False
