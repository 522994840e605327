"""Log lines of a process, for people or as JSON, with the ids that connect them.

The agent's own, and what coordinator and standalone processor log by: the standard library alone.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import logging
import sys
import time
from typing import Any, Dict, Generator, Mapping, Optional, TextIO

FORMATS = ("text", "json")
_TEXT = "%(asctime)s %(levelname)s %(message)s"
_ABOUT: "contextvars.ContextVar[Mapping[str, Any]]" = contextvars.ContextVar("about")
_PROCESS: Dict[str, Any] = {}


def log_as(form: str, ids: Mapping[str, Any], stream: Optional[TextIO] = None) -> None:
    """Log everything from INFO on to stderr (or `stream`), in one of `FORMATS`.

    Each line of JSON has the `ids`, which identify this process.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setLevel(logging.INFO)
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    _PROCESS.clear()
    _PROCESS.update(ids)


def process_is(**ids: Any) -> None:
    """Set log fields for the whole process from now on, as the epoch that it leads in."""
    _PROCESS.update(ids)


def known() -> Mapping[str, Any]:
    """Return the fields that `about` has set for this thread."""
    return _ABOUT.get({})


@contextlib.contextmanager
def about(**ids: Any) -> Generator[None, None, None]:
    """Add these fields to all that this thread logs within the block; None adds nothing."""
    known = {name: value for name, value in ids.items() if value is not None}
    token = _ABOUT.set({**_ABOUT.get({}), **known})
    try:
        yield
    finally:
        _ABOUT.reset(token)


class JsonLines(logging.Formatter):
    """A JSON object a line: time (UTC), level, logger, message, the ids, and a traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as a line without its end."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: Dict[str, Any] = {
            "time": "{}.{:03d}Z".format(moment, int(record.msecs)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps({**line, **_PROCESS, **_ABOUT.get({})}, ensure_ascii=False, default=str)
