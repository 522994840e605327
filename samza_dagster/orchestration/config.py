"""Config of the placement jobs: what an operator fills in, with bounds and defaults."""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal

import dagster as dg
from pydantic import AfterValidator, ConfigDict, Field, field_validator
from pydantic_core import PydanticUndefined

from samza_dagster.errors import InvalidInput
from samza_dagster.model.naming import ANY_HOST

PROCESSOR_PATTERN = r"^[^\s/]([^\t\r\n/]*[^\s/])?$"
"""An id is opaque, and a task's name has spaces; a slash divides it from its job in a partition's key."""
_HOST_PATTERN = r"^[0-9A-Za-z_.:-]+$"
DAY_S = 86_400
LONGEST_ID, LONGEST_HOST = 128, 255
LONGEST_WHO, LONGEST_REASON = 128, 500
LONGEST_APP_NAME, LONGEST_APP_ID = 128, 64
"""Characters of a job's name and id: a topic's name, which has both, has 249 at most."""
MOST_LAG = 10**9
"""Records: what the forms and the YAML take as a bound of a lag."""
OR = " or "
"""The separator of destinations; the first legal one is taken."""
MOST_DESTINATIONS = 42
MOST_NAMED = 10_000
"""Containers or hosts in one list: as many as the largest job has."""


def _are_hosts(names: list[str]) -> list[str]:
    for name in names:
        _check(name, _HOST_PATTERN, LONGEST_HOST, "a host name")
    return names


def _are_names(names: list[str]) -> list[str]:
    for name in names:
        _check(name, PROCESSOR_PATTERN, LONGEST_HOST, "a processor id or a host name")
    return names


def _check(text: str, pattern: str, longest: int, what: str) -> None:
    if len(text) > longest or re.fullmatch(pattern, text) is None:
        raise ValueError(f"{text[:longest]!r} is not {what} of at most {longest} characters")


# Bounds of each entry are checked here: Dagster reads no annotation within a list or a map.
Hosts = Annotated[list[str], Field(max_length=MOST_NAMED), AfterValidator(_are_hosts)]
"""Host names."""
Names = Annotated[list[str], Field(max_length=MOST_NAMED), AfterValidator(_are_names)]
"""Processor ids or host names."""
Host = Annotated[str, Field(min_length=1, max_length=LONGEST_HOST, pattern=_HOST_PATTERN)]
"""A host name, or a word for one, such as `ANY_HOST`."""
HostOrEmpty = Annotated[str, Field(max_length=LONGEST_HOST, pattern=rf"^$|{_HOST_PATTERN}")]
HostOrNone = Annotated[str | None, Field(max_length=LONGEST_HOST, pattern=_HOST_PATTERN)]


def given(value: int | None, policy: int) -> float:
    """Return the config's value, else the policy's."""
    return float(policy if value is None else value)


ASKED = frozenset({"reason", "ticket"})
"""Beside what has no default, what the Launchpad writes down for a person to fill in."""


class OpConfig(dg.Config):
    """Config of an op; what checks it is built when a run first asks, not when definitions load.

    The Launchpad writes down each field that has a value as its default. Here that is `ASKED`
    alone: every other default comes from a function, so that the field is offered beside the
    form, with its default in words, and not asked for.
    """

    model_config = ConfigDict(defer_build=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Before what checks the config is built."""
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            default = field.default
            if name in ASKED or default is None or default is PydanticUndefined:
                continue
            field.default, field.default_factory = PydanticUndefined, partial(copy, default)
            words = default.value if isinstance(default, Enum) else default
            if words not in ("", [], {}):
                said = str(words).lower() if isinstance(words, bool) else words
                field.description = f"{field.description or ''} Default: {said}.".strip()


class SaidConfig(OpConfig):
    """The requester and the reason, kept as run tags."""

    reason: str = Field(
        default="",
        max_length=LONGEST_REASON,
        description="Why, in a few words; kept as run tag samza/why.",
    )
    ticket: str = Field(
        default="",
        max_length=LONGEST_WHO,
        description="Ticket or change number; run tag samza/ticket.",
    )
    requested_by: str = Field(
        default="", max_length=LONGEST_WHO, description="The requester; kept as run tag samza/who."
    )


class RunConfig(SaidConfig):
    """Config of every run that changes a placement."""

    timeout_s: int | None = Field(
        default=None,
        ge=1,
        le=DAY_S,
        description="Seconds that each op, of a bounce each restart, waits for the coordinator. What was only "
        "reserved is given back then; what is being stopped goes on: re-execute the run to follow. "
        "Empty: the policy's.",
    )
    dry_run: bool = Field(default=False, description="Print the plan and why; write nothing.")
    request_expiry_s: int | None = Field(
        default=None,
        ge=1,
        le=DAY_S,
        description="Seconds that the coordinator may take to reserve the destination, and to "
        "hold it for the stop; after that the action fails and the container is untouched. "
        "Empty: the policy's.",
    )
    verify_timeout_s: int | None = Field(
        default=None,
        ge=0,
        le=DAY_S,
        description="Seconds that the container may take from SUCCEEDED to processing again; "
        "0 doesn't wait for processing. Empty: the policy's.",
    )


class PlacementConfig(RunConfig):
    """Config of every action on one container."""

    processor: str = Field(
        default="",
        description="Processor id of the container to act on: '0' an active, '0-0' its first "
        "standby. Empty: the partition that is chosen in the Launchpad; another one than that is "
        "refused.",
        max_length=128,
        pattern=rf"^$|{PROCESSOR_PATTERN}",
    )


class ToHostConfig(PlacementConfig):
    """Config of actions that may go to a named host."""

    allow_unknown_host: bool = Field(
        default=False,
        description="With Samza's own AM: take a host that no container has reported yet. If the "
        "cluster has none of that name the request fails, and the container is untouched.",
    )


class SingleConfig(PlacementConfig):
    """Config of actions of one request."""

    beyond_budget: bool = Field(
        default=False,
        description="With Samza's own AM: ask also where it may end the job for so many stops of "
        "the container in a row.",
    )


class ToLegalHostConfig(SingleConfig, ToHostConfig):
    """Config of actions that may choose another host than the named one."""

    or_any_legal: bool = Field(
        default=False,
        description="A standby whose destination a rule forbids goes to any legal host.",
    )


class MoveContainerConfig(ToLegalHostConfig):
    """Where one container goes."""

    destination: str = Field(
        description="A host name, or ANY_HOST, LAST_SEEN, STANDBY where the coordinator knows it. Of "
        "several, as in `STANDBY or host-2 or ANY_HOST`, the first that no rule forbids when the run plans. "
        "Once the processor is chosen in the Launchpad, those that it may go to now are here.",
        min_length=1,
        max_length=MOST_DESTINATIONS * (LONGEST_HOST + len(OR)),
    )

    @field_validator("destination")
    @classmethod
    def _are_hosts(cls, destination: str) -> str:
        _are_hosts(destination.split(OR))
        return destination

    @property
    def destinations(self) -> list[str]:
        """The destinations that are named, the preferred one first."""
        return self.destination.split(OR)


class RestartContainerConfig(SingleConfig):
    """Restart on the host where the container was last seen."""


class MoveWithStandbyConfig(ToHostConfig):
    """Where an active goes, and which standby makes room."""

    destination: HostOrNone = Field(
        default=None,
        description="Host for the active. Empty: the host of its standby, where its state is warm.",
    )
    standby: str | None = Field(
        default=None,
        max_length=128,
        pattern=PROCESSOR_PATTERN,
        description="Which standby's host to take when there are several. Empty: the first that runs.",
    )


class RelocateStandbyConfig(ToLegalHostConfig):
    """Where a standby goes."""

    destination: HostOrNone = Field(
        default=None,
        description="Host for the standby. Empty: the legal host with most free memory.",
    )


class FailOverConfig(PlacementConfig):
    """The active that takes its standby's place. The coordinator chooses the standby's next host."""

    execution_id: str = Field(
        default="",
        max_length=LONGEST_HOST,
        description="Only while the active runs as this incarnation: the coordinator refuses it once another one has "
        "started. auto_failover names the one that it judged. Empty: whichever runs.",
    )


@dataclass(frozen=True)
class CatchUp:
    """When a new standby counts as warm: its lag in records, for how long, by when in seconds.

    `lag_limit_s`: or as many records as it applies in so many seconds, if that is more and known.
    """

    lag_limit: int
    steady_s: float
    timeout_s: float
    lag_limit_s: float = 0.0


class CatchUpConfig(OpConfig):
    """When a new standby counts as warm."""

    lag_limit: int | None = Field(
        default=None,
        ge=0,
        le=MOST_LAG,
        description="Records that a standby may be behind in any store, and by which that may vary, to "
        "count as warm. Empty: the policy's.",
    )
    steady_s: int = Field(
        default=30,
        ge=0,
        le=DAY_S,
        description="Seconds that a new standby's lag must stay small and flat.",
    )
    catch_up_timeout_s: int = Field(
        default=3_600,
        ge=1,
        le=DAY_S,
        description="Seconds that a new standby may take from its start until its lag is steady. It "
        "runs on after that: re-execute the run from failure to wait on.",
    )

    def catch_up(self, policy: int, policy_s: float) -> CatchUp:
        """The same as values; the policies' limits are in records and in seconds. One given here holds alone."""
        limit = round(given(self.lag_limit, policy))
        limit_s = policy_s if self.lag_limit is None else 0.0
        return CatchUp(limit, float(self.steady_s), float(self.catch_up_timeout_s), limit_s)


class IfItFailsConfig(OpConfig):
    """The fate of a standby that was spun up for a move which then fails."""

    if_it_fails: Literal["keep", "remove"] = Field(
        default="keep",
        description="What becomes of a standby that was spun up for a move which then fails or is "
        "cancelled: keep it, so that the run can be re-executed from failure, or remove it.",
    )


class SpinUpStandbyConfig(CatchUpConfig, PlacementConfig):
    """The active that gets another standby, its host, and when it counts as warm."""

    destination: Host = Field(
        default=ANY_HOST, description="Host for the new standby, or ANY_HOST."
    )


class MoveViaNewStandbyConfig(IfItFailsConfig, SpinUpStandbyConfig):
    """The active that moves, and its host, by way of a standby that is started there first."""

    destination: HostOrEmpty = Field(
        default="",
        description="Host for the active: the new standby warms up there first. Empty: the "
        "legal host with most free memory.",
    )
    keep_standby: bool = Field(
        default=False,
        description="Off: the new standby gives its place to the active and is gone: as many "
        "standbys as before. On: it is relocated, and the active has one more from then on.",
    )


def check_job_name(job: str) -> None:
    """Check `<name>/<id>`: raises `InvalidInput` for a name or an id that no job can have."""
    name, _, job_id = job.partition("/")
    for what, text, longest in (
        ("app_name", name, LONGEST_APP_NAME),
        ("app_id", job_id, LONGEST_APP_ID),
    ):
        if not 1 <= len(text) <= longest or "/" in text or text != text.strip():
            raise InvalidInput(
                f"{what} {text[:longest]!r}",
                seen=f"{len(text)} characters",
                fix=f"1 to {longest} characters, without a slash, or a space at an end",
            )
