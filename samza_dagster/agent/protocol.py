"""The messages between agent and coordinator, as the agent's side sees them.

The page `docs/reference/agent-protocol.md` is the rule. Unknown fields are ignored. A version
that is one away is understood; any other is refused.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, cast

VERSION = 1
REFUSED = "refused"

_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_MAX_COMMANDS = 10_000


class ProtocolError(ValueError):
    """A message that can't be used; its text names the part."""


class Launch(NamedTuple):
    """An incarnation to start; `store_directories` are below the state directory.

    `files` (name → text) are in its work directory, for its own user alone, when it starts.
    """

    execution_id: str
    processor_id: str
    command: Tuple[str, ...]
    environment: Dict[str, str]
    job_model_json: str
    store_directories: Tuple[str, ...]
    stop_grace_s: float
    files: Dict[str, str]


class Command(NamedTuple):
    """A command; fields that its `kind` doesn't need are None.

    `about` are ids for lines of the log.

    `hold` names the container of the cluster's engine that a `reserve` is about.
    """

    id: str
    kind: str  # reserve, release, start, stop, forget, or REFUSED with `why`
    request_id: Optional[str] = None
    memory_mb: int = 0
    cores: int = 0
    execution_id: Optional[str] = None
    launch: Optional[Launch] = None
    why: str = ""
    hold: Optional[str] = None
    about: Tuple[Tuple[str, str], ...] = ()


class Reply(NamedTuple):
    """The coordinator's answer to a sync; the lease counts from when the sync was sent.

    `losses`: how often this leader had counted the host as lost when it answered.
    """

    epoch: int
    lease_s: float
    commands: Tuple[Command, ...]
    locality: Dict[str, str]
    losses: int = 0


def is_understood(version: Any) -> bool:
    """Return whether a version is understood: one back and forth."""
    return isinstance(version, int) and abs(version - VERSION) <= 1


def check_name(value: Any, field: str) -> str:
    """Return a name that is safe as one part of a path and of a URL, or raise `ProtocolError`."""
    if not isinstance(value, str) or not _SAFE_NAME.fullmatch(value):
        raise ProtocolError(
            "{}: {!r} has other characters than A-Z a-z 0-9 . _ -".format(field, value)
        )
    return value


def _object(value: Any, field: str) -> Dict[str, Any]:
    if not isinstance(value, dict):
        raise ProtocolError("{}: an object is needed".format(field))
    return cast("Dict[str, Any]", value)


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str) or not value or len(value) > 500:
        raise ProtocolError("{}: a text of 1 to 500 characters is needed".format(field))
    return value


def _whole(value: Any, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**9:
        raise ProtocolError("{}: a whole number from 0 is needed, not {!r}".format(field, value))
    return value


def _strings(value: Any, field: str) -> Tuple[str, ...]:
    items = cast("List[Any]", value) if isinstance(value, list) else None
    if items is None or not all(isinstance(v, str) for v in items):
        raise ProtocolError("{}: a list of strings is needed".format(field))
    return tuple(items)


def _mapping(value: Any, field: str) -> Dict[str, str]:
    items = _object(value, field)
    if not all(isinstance(v, str) for v in items.values()):
        raise ProtocolError("{}: an object of strings is needed".format(field))
    return items


def _below(path: str) -> str:
    parts = path.split("/")
    if not path or path.startswith("/") or any(p in ("", ".", "..") for p in parts):
        raise ProtocolError(
            "store_directories: {!r} isn't a path below the state directory".format(path)
        )
    return path


def _launch(value: Any, *, parked: bool) -> Launch:
    given = _object(value, "launch")
    command = _strings(given.get("command"), "launch.command")
    environment = _mapping(given.get("environment"), "launch.environment")
    if not command or not command[0]:
        raise ProtocolError("launch.command: a program is needed")
    if any("\0" in part for part in (*command, *environment, *environment.values())):
        raise ProtocolError("launch: a NUL can't be passed to a program")
    if any("=" in key or not key for key in environment):
        raise ProtocolError("launch.environment: a name is empty or has '='")
    model = "" if parked else given.get("job_model_json")
    grace = given.get("stop_grace_s", 20.0)
    if not isinstance(model, str):
        raise ProtocolError("launch.job_model_json: a string is needed")
    if isinstance(grace, bool) or not isinstance(grace, (int, float)) or not 0 <= grace <= 3600:
        raise ProtocolError("launch.stop_grace_s: 0 to 3600 seconds")
    files = _mapping(given.get("files", {}), "launch.files")
    return Launch(
        check_name(given.get("execution_id"), "launch.execution_id"),
        _text(given.get("processor_id"), "launch.processor_id"),
        command,
        environment,
        model,
        tuple(
            _below(p) for p in _strings(given.get("store_directories"), "launch.store_directories")
        ),
        float(grace),
        {check_name(name, "launch.files"): text for name, text in files.items()},
    )


def _parked_launch(value: Any) -> Optional[Launch]:
    """Parse the launch of a reserve; None for an unusable one: the resource is held without it."""
    try:
        return None if value is None else _launch(value, parked=True)
    except ProtocolError:
        return None


def _command(value: Any) -> Command:
    given = _object(value, "commands")
    ident = _text(given.get("id"), "commands.id")
    try:
        about = tuple(sorted(_mapping(given.get("about", {}), "about").items()))
        return _known(ident, given)._replace(about=about)
    except ProtocolError as error:
        # This command alone is refused: the lease and the other commands still count.
        return Command(ident, REFUSED, why=str(error))


def _known(ident: str, given: Dict[str, Any]) -> Command:
    kind = given.get("kind")
    if kind in ("stop", "forget"):
        return Command(
            ident, str(kind), execution_id=check_name(given.get("execution_id"), "execution_id")
        )
    if kind not in ("reserve", "release", "start"):
        raise ProtocolError("kind: {!r} is none that version {} knows".format(kind, VERSION))
    request_id = _text(given.get("request_id"), "request_id")
    if kind == "reserve":
        hold = given.get("hold")
        return Command(
            ident,
            "reserve",
            request_id=request_id,
            memory_mb=_whole(given.get("memory_mb"), "memory_mb"),
            cores=_whole(given.get("cores"), "cores"),
            launch=_parked_launch(given.get("launch")),
            hold=None if hold is None else check_name(hold, "hold"),
        )
    launch = _launch(given.get("launch"), parked=False) if kind == "start" else None
    return Command(ident, str(kind), request_id=request_id, launch=launch)


def parse_reply(value: Any) -> Reply:
    """Parse a reply. Raises `ProtocolError` that names the first unusable part."""
    given = _object(value, "reply")
    if not is_understood(given.get("version")):
        raise ProtocolError(
            "version: {!r} is more than one from ours, {}".format(given.get("version"), VERSION)
        )
    commands = given.get("commands")
    listed = cast("List[Any]", commands) if isinstance(commands, list) else None
    if listed is None or len(listed) > _MAX_COMMANDS:
        raise ProtocolError("commands: a list of at most {} is needed".format(_MAX_COMMANDS))
    return Reply(
        _whole(given.get("epoch"), "epoch"),
        _whole(given.get("lease_ms"), "lease_ms") / 1000.0,
        tuple(_command(c) for c in listed),
        _mapping(given.get("locality", {}), "locality"),
        _whole(given.get("losses", 0), "losses"),
    )
