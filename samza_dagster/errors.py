"""The errors that samza_dagster raises, one small tree.

SamzaDagsterError
├── InvalidInput            the caller's input can't be used (exit 2)
│   ├── MalformedRecord     a record of a topic can't be read: names topic, offset, field
│   ├── UnknownTopic        there is no such topic
│   └── Refused             valid input that a rule forbids: names rule, seen, fix
├── ActionFailed            the work was tried and ended in FAILED (exit 1)
├── DeadlineExceeded        no outcome in time; the work may continue (exit 3)
├── Unreachable             a broker, an agent or a coordinator doesn't answer (exit 4)
├── Fenced                  another coordinator leads; this one must end (exit 1)
└── MissingPrerequisite     Python, a JDK, an extra or a port is missing (exit 2)

Each has what was asked, what was seen and the change that would make it right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MOST_NAMED = 20
"""Most names in one message, because a job may have a thousand hosts."""


def some_of(names: Sequence[str], between: str = ", ") -> str:
    """Return as many names as a message has room for, and the number of the others."""
    more = f"{between}and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return between.join(names[:MOST_NAMED]) + more


class SamzaDagsterError(Exception):
    """Base of all errors of this package.

    `asked` is the caller's request, `seen` the observation, `fix` the smallest change that would
    make the request succeed. All three are for a person.
    """

    exit_code = 1

    def __init__(self, asked: str, *, seen: str = "", fix: str = "") -> None:
        self.asked = asked
        self.seen = seen
        self.fix = fix
        parts = [asked]
        if seen:
            parts.append(f"seen: {seen}")
        if fix:
            parts.append(f"fix: {fix}")
        super().__init__("; ".join(parts))

    def to_json(self) -> dict[str, str | int]:
        """Return the same facts as a JSON object, for `--json`."""
        return {
            "error": type(self).__name__,
            "asked": self.asked,
            "seen": self.seen,
            "fix": self.fix,
            "exit_code": self.exit_code,
        }


class InvalidInput(SamzaDagsterError):
    """The caller's input can't be used; nothing was written."""

    exit_code = 2


class MalformedRecord(InvalidInput):
    """A record of a topic can't be read; `seen` names topic, offset and field."""


class UnknownTopic(InvalidInput):
    """The topic doesn't exist: it was never written to, or the name is wrong."""


class Refused(InvalidInput):
    """A placement rule forbids the request; `asked` names the rule.

    `hosts`: the rules' verdict on each host, if any, as rows for a person.
    """

    def __init__(
        self,
        asked: str,
        *,
        seen: str = "",
        fix: str = "",
        hosts: Sequence[Mapping[str, object]] = (),
    ) -> None:
        super().__init__(asked, seen=seen, fix=fix)
        self.hosts = hosts


class ActionFailed(SamzaDagsterError):
    """The work was tried and its outcome is FAILED."""

    exit_code = 1


class DeadlineExceeded(SamzaDagsterError):
    """No outcome before the deadline; the work may continue."""

    exit_code = 3


class Unreachable(SamzaDagsterError):
    """A broker, an agent or a coordinator doesn't answer."""

    exit_code = 4


class Fenced(SamzaDagsterError):
    """Another coordinator leads this job; the broker refused our write."""

    exit_code = 1


class MissingPrerequisite(SamzaDagsterError):
    """A prerequisite isn't installed or free; `fix` is the way to get it."""

    exit_code = 2
