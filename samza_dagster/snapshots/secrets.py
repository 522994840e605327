"""Settings that hold secrets: what Spark carries to its workers has none of them, but the place of a file.

Spark's own traffic isn't encrypted by default, and a task is kept in its files. So settings of brokers and of the
tables' place are pickled as the name of a file that this user alone can read. A worker on another machine has
such a file of its own, in the directory that its environment names.
"""

from __future__ import annotations

import json
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path

from samza_dagster.errors import MissingPrerequisite

WORKER_SECRETS = "SAMZA_DAGSTER_WORKER_SECRETS"
"""Names the directory of a worker's own `brokers.json` and `tables.json`: an object of names and values each."""


class Secret(Mapping[str, str]):
    """A mapping whose values never leave the machine by pickling; `what` names its file."""

    def __init__(self, what: str, values: Mapping[str, str] | None, path: str = "") -> None:
        self._what, self._values, self._path = what, values, path

    @classmethod
    def of(cls, what: str, values: Mapping[str, str]) -> Secret:
        """Wrap settings, or return them if they are wrapped."""
        return values if isinstance(values, Secret) else cls(what, dict(values))

    def __reduce__(self) -> tuple[object, ...]:
        if not self._known:
            return (Secret, (self._what, dict[str, str]()))
        if not self._path:
            handle, self._path = tempfile.mkstemp(prefix=f"samza-dagster-{self._what}-")
            with os.fdopen(handle, "w") as file:  # mkstemp gives it to this user alone
                json.dump(dict(self._known), file)
            weakref.finalize(self, Path(self._path).unlink, missing_ok=True)
        return (Secret, (self._what, None, self._path))

    def __repr__(self) -> str:
        return f"Secret({self._what!r}, …)"

    def __getitem__(self, name: str) -> str:
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def _known(self) -> Mapping[str, str]:
        """Read the file when a worker needs it, so that a missing file is an error of the worker's task."""
        if self._values is None:
            directory = os.environ.get(WORKER_SECRETS)
            path = Path(directory, f"{self._what}.json") if directory else Path(self._path)
            try:
                self._values = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise MissingPrerequisite(
                    f"the settings of the {self._what} on a worker of Spark",
                    seen=f"{path}: {error}",
                    fix=f"a directory with {self._what}.json on each worker, named by {WORKER_SECRETS} there",
                ) from error
        return self._values or {}
