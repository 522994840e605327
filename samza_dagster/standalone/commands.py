"""Commands of `processor.step` to a standalone processor: values, carried out by `runner`."""

from __future__ import annotations

from dataclasses import dataclass, field

from samza_dagster.model import JobModel
from samza_dagster.standalone import requests
from samza_dagster.standalone.division import Containers
from samza_dagster.standalone.group import BarrierState, Running


@dataclass(frozen=True)
class Register:
    """Make an ephemeral, sequential node for this processor."""


@dataclass(frozen=True)
class GiveUp:
    """End its work, then delete the own node and end, as for a planned leave: `why` is for a person."""

    why: str


@dataclass(frozen=True)
class StopWork:
    """End these containers of this processor, by their ids; `stopped` says when one has ended."""

    containers: frozenset[str]


@dataclass(frozen=True)
class JoinBarrier:
    """Make the own node among the barrier's participants."""

    version: int


@dataclass(frozen=True)
class StartWork:
    """Write where the tasks of these containers are, then start them.

    `all` are those that the processor is to have.

    `at_work` says when one processes its tasks.
    """

    containers: Containers
    all: Containers = field(repr=False, compare=False)
    model: JobModel = field(repr=False, compare=False)


@dataclass(frozen=True)
class Expect:
    """Get ready to start these containers, which may never come, and no others.

    `all` as for a start.

    `there` says when one is ready.
    """

    containers: Containers
    all: Containers = field(repr=False, compare=False)
    model: JobModel = field(repr=False, compare=False)


@dataclass(frozen=True)
class ReportRunning:
    """Write into the own node what this processor runs."""

    running: Running


@dataclass(frozen=True)
class Publish:
    """Write the model and a barrier of state NEW under `version`, then set the version.

    The model's node must be new, and the version's still have `revision`: else another has
    published, and nothing is set.
    """

    version: int
    model: JobModel
    revision: int


@dataclass(frozen=True)
class EndBarrier:
    """Set the state of a barrier that is NEW.

    With DONE the version is the agreed one, and old ones go.
    """

    version: int
    state: BarrierState


Command = (
    Register
    | GiveUp
    | StopWork
    | JoinBarrier
    | StartWork
    | Expect
    | ReportRunning
    | Publish
    | EndBarrier
    | requests.Command
)
