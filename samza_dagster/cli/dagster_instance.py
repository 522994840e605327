"""The Dagster instance that a command reads and writes, and what keeps it from being opened."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from samza_dagster.errors import InvalidInput, Unreachable

if TYPE_CHECKING:
    import dagster as dg


@contextmanager
def dagster_instance(home: Path) -> Generator[dg.DagsterInstance]:
    """The instance of a DAGSTER_HOME.

    Raises `InvalidInput` when its `dagster.yaml` can't be used here, naming what it misses, an
    environment variable for instance, and `Unreachable` when its database doesn't answer.
    """
    import dagster as dg
    from sqlalchemy.exc import DBAPIError

    os.environ.setdefault("DAGSTER_HOME", str(home))
    try:
        with dg.DagsterInstance.from_config(str(home.resolve())) as instance:
            yield instance
    except dg.DagsterInvalidConfigError as error:
        raise InvalidInput(
            f"open the Dagster instance {home}",
            seen="; ".join(one.message.strip().splitlines()[0] for one in error.errors),
            fix="run the command in the environment that Dagster's daemon runs in",
        ) from error
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
