"""What can't be read among much that can: it is left out, and said."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from samza_dagster.errors import InvalidInput

_Read = TypeVar("_Read")
_log = logging.getLogger(__name__)


class Unreadable:
    """What can't be read in one reading, by its name: it is left out, and logged when it is news."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        self._before: dict[str, str] = {}

    def begin(self) -> None:
        """Another reading."""
        self._before, self.seen = self.seen, {}

    def note(self, name: str, why: object) -> None:
        """That can't be read."""
        self.seen[name] = str(why)
        if self._before.get(name) != str(why):
            _log.warning("left out: %s", why)

    def unless(self, name: str, read: Callable[[], _Read | None]) -> _Read | None:
        """What is read; None where it can't be."""
        try:
            return read()
        except InvalidInput as error:
            self.note(name, error)
            return None
