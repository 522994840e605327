"""`samza-dagster doctor`: obstacles to a job's operation, and how to remove them."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING

import click
from confluent_kafka import libversion

from samza_dagster.cli.options import Target, json_option, target_options
from samza_dagster.cli.output import at, busy, notice, print_json, print_table
from samza_dagster.client import JobView, LeaderView, PlacementClient, ReplicaLag
from samza_dagster.client.access import wall_clock_ms
from samza_dagster.client.host_clocks import disagreements
from samza_dagster.client.replica_lag import LOST_FIX, lost_changelogs
from samza_dagster.client.views import LOST_STATE, NO_LEADER
from samza_dagster.coordinator import diagnosis
from samza_dagster.coordinator.fencing.examination import Condition
from samza_dagster.errors import (
    InvalidInput,
    MalformedRecord,
    MissingPrerequisite,
    Unreachable,
    some_of,
)
from samza_dagster.sandbox.java_check import find_java
from samza_dagster.version import __version__

if TYPE_CHECKING:
    from samza_dagster.metadata.connection import Connection

_CONFIGURED = "it is said which job on which cluster is meant"
_VERSIONS = ("dagster", "confluent-kafka", "click", "pydantic")
_EXTRAS = {
    "spark": "pyspark",
    "coordinator": "prometheus_client",
    "yarn": "py4j",
    "postgres": "dagster_postgres",
    "sandbox": "dagster_webserver",
}
"""Extra → a module that it brings."""


@click.command()
@json_option
@target_options
def doctor(target: Target, as_json: bool) -> None:
    """Check this machine, the brokers, the job and its coordinator, and say how to fix problems.

    Without a job it says what to set. With one it checks the brokers, this login's rights on the job's
    topics, and topics that are wrong, were deleted or lack replicas, each with the command that fixes it.
    It also checks the job's coordinator, its agents, and changelogs that were deleted or made anew. Where
    containers report, it compares the clocks of their hosts.

    With --config it also shows what the coordinator would refuse, and the topics that a new job's start
    would create. With samza.dagster.fencing=broker it rehearses the fence: it creates a principal, lets it
    in, shuts it out, sees every broker refuse it, and removes it. For a job under Samza's own Application
    Master it checks only what that one needs, and YARN if its address is given. Exits 1 when a condition
    doesn't hold, else 4 when something can't be read.

    \b
    Examples:
      samza-dagster doctor
      samza-dagster doctor --bootstrap-servers broker-1:9092 --job-name orders
      samza-dagster doctor --config job.properties --json
    """
    unread: list[Unreachable] = []
    with busy("Looking at this machine …"):
        found = list(machine_findings())
    connection = _connection(target, found)
    if connection is not None:
        has_config = bool(target.configuration().value("config"))
        with busy("Asking the brokers …"):
            found += _as_far_as_read(_broker_findings(target, connection, has_config), unread)
        if not unread:
            with busy("Reading the job …"):
                found += _as_far_as_read(job_findings(connection), unread)
    _show(found, unread, as_json)


def _show(found: list[Condition], unread: list[Unreachable], as_json: bool) -> None:
    broken = any(not each.ok for each in found)
    if as_json:
        print_json(
            {
                "ok": not broken and not unread,
                "checks": [asdict(each) for each in found],
                "unread": [error.to_json() for error in unread],
            }
        )
    else:
        known = "What is known holds" if unread else "Every condition holds"
        print_table(
            "A condition doesn't hold" if broken else known,
            ("check", "holds", "seen", "fix"),
            [(f.check, "yes" if f.ok else "NO", f.seen, "" if f.ok else f.fix) for f in found],
        )
        for error in unread:
            notice(f"Warning: not known: {error}")
    if broken or unread:
        raise click.exceptions.Exit(1 if broken else Unreachable.exit_code)


def _connection(target: Target, found: list[Condition]) -> Connection | None:
    """The job that is meant; None without, and the finding says what to set."""
    try:
        connection = target.connection()
    except InvalidInput as error:
        fix = f"{error.fix}; to try it without a cluster: samza-dagster sandbox up"
        found.append(Condition(_CONFIGURED, False, error.seen or error.asked, fix))
        return None
    job = f"{connection.job_name} {connection.job_id} at {connection.bootstrap_servers}"
    found.append(Condition(_CONFIGURED, True, f"{job}; samza-dagster config show has the rest"))
    return connection


def _as_far_as_read(found: Iterator[Condition], unread: list[Unreachable]) -> Iterator[Condition]:
    """The findings up to the first that can't be told; why goes to `unread`."""
    try:
        yield from found
    except Unreachable as error:
        unread.append(error)


def _broker_findings(
    target: Target, connection: Connection, has_config: bool
) -> Iterator[Condition]:
    """Check the brokers, for the job's config or the deployed job. Raises `Unreachable`."""
    yield from diagnosis.access_findings(connection, has_config=has_config)
    if has_config:
        yield from diagnosis.report(Path(target.configuration().value("config")), connection)
    else:
        yield from diagnosis.deployed_findings(connection)


def job_findings(connection: Connection) -> Iterator[Condition]:
    """Check the coordinator, hosts' clocks, changelogs, and whether Samza's AM can serve.

    Clocks are checked only while there are reports, and nothing before a job's first deployment, for
    which this command is useful too. Raises `Unreachable`.
    """
    try:
        client = PlacementClient(connection)
    except MalformedRecord:
        raise
    except InvalidInput as error:
        yield Condition("the standalone group is found, or is new", True, error.seen)
        return
    with client:
        try:
            view = client.known_view()
        except MalformedRecord:
            raise
        except InvalidInput:  # no coordinator stream yet, or another job's, which is told before
            return
        yield from coordinator_findings(view)
        yield from poison_findings(view)
        reports, unread = client.reports()
        yield from judged(disagreements(reports, wall_clock_ms()))
        lags = client.lag()
        yield from changelog_findings(lags)
        reasons = sorted({lag.reason or "" for lag in lags if lag.unknown_because == NO_LEADER})
        unread += [Unreachable("read the changelogs", seen=some_of(reasons))] if reasons else []
        if unread:
            raise unread[0]


def changelog_findings(lags: Sequence[ReplicaLag]) -> Iterator[Condition]:
    """Yield a line for each changelog that its replicas can't use, else one for all. Pure."""
    check, lost = "every store's changelog is there, and whole", lost_changelogs(lags)
    for seen in lost.values():
        yield Condition(check, False, seen, LOST_FIX)
    read = {lag.changelog for lag in lags if lag.unknown_because != NO_LEADER}
    if read and not lost:
        yield Condition(check, True, some_of(sorted(read)))


def coordinator_findings(view: JobView) -> Iterator[Condition]:
    """Yield the job's coordinator and what doesn't run. Pure."""
    if view.leader is not None:
        yield _check_leader(view.leader)
    if view.agreement is not None:
        leader = view.agreement.leader or "nobody"
        seen = f"a group of {len(view.members)} processors, {leader} leads"
        fix = "samza-dagster processor status; the log of each processor"
        yield Condition(
            "the standalone group is well",
            not view.troubles,
            "; ".join((seen, *view.troubles)),
            fix,
        )
    lost = [name for name, host in sorted(view.hosts.items()) if host.state == LOST_STATE]
    if view.agreement is None and view.capabilities.knows_all_hosts and view.hosts:
        seen = f"silent: {', '.join(lost)}" if lost else f"{len(view.hosts)} hosts"
        fix = (
            "start the agent there (samza-dagster agent run); its containers are replaced meanwhile"
        )
        yield Condition("every agent that the job knows answers", not lost, seen, fix)
    if view.deployed is not None:
        waits = "; ".join(f"{pid}: {why}" for pid, why in sorted(view.degraded.items()))
        fix = (
            "samza-dagster status; samza-dagster explain PROCESSOR says what keeps one from a host"
        )
        seen = "all run" if view.deployed else waits or "some are on their way"
        yield Condition("every active and every standby runs", view.deployed, seen, fix)


def _check_leader(leader: LeaderView) -> Condition:
    seen = f"epoch {leader.epoch} on {leader.host}, last sign of life {at(leader.beat_ms)}"
    return Condition(
        "a coordinator of ours leads the job",
        not leader.ended,
        f"{seen}, ended in order" if leader.ended else seen,
        "samza-dagster coordinator run; until then containers run on, and nobody answers a request",
    )


def poison_findings(view: JobView) -> Iterator[Condition]:
    """Check whether Samza's AM, where it coordinates, gets past every placement record."""
    if not view.capabilities.rules_before_stop:
        seen = "; ".join(f"{key}: {why}" for key, why in view.poison.items())
        yield Condition(
            "Samza's AM can serve placement requests",
            not view.poison,
            seen or "it can read every record",
            "samza-dagster gc removes what it throws at (--dry-run shows it)",
        )


def judged(disagreements: Mapping[str, str]) -> list[Condition]:
    """Return a line for each host whose clock is wrong, and one for all others that have reported."""
    fix = (
        "synchronise it (chronyd, ntpd), or what it is held against; no placement is decided by it"
    )
    found = [
        Condition(f"the clock of {host} is within 5 s of the others'", False, seen, fix)
        for host, seen in sorted(disagreements.items())
        if seen
    ]
    right = len(disagreements) - len(found)
    if right:
        which = "the other hosts'" if found else "the hosts'"
        seen = f"{right} hosts have reported, and nothing else shows"
        found.append(Condition(f"{which} clocks are within 5 s of each other", True, seen))
    return found


def machine_findings() -> Iterator[Condition]:
    """Check what is installed on this machine."""
    versions = [f"samza_dagster {__version__}", f"Python {platform.python_version()}"]
    versions += [f"{name} {metadata.version(name)}" for name in _VERSIONS]
    versions.append(f"librdkafka {libversion()[0]}")
    yield Condition("what is installed is known", True, ", ".join(versions))
    there = [extra for extra, module in _EXTRAS.items() if util.find_spec(module) is not None]
    absent = [extra for extra in _EXTRAS if extra not in there]
    seen = f"{', '.join(there) or 'none'}" + (f"; not {', '.join(absent)}" if absent else "")
    yield Condition("the extras that are installed are known", True, seen)
    yield _java(is_needed="spark" in there or "sandbox" in there)


def _java(*, is_needed: bool) -> Condition:
    check = "a Java that Spark, the sandbox and containers run on is on this machine"
    try:
        java = find_java()
    except MissingPrerequisite as error:
        needed_by = "" if is_needed else "; no extra is installed that needs one"
        return Condition(check, not is_needed, f"{error.seen}{needed_by}", error.fix)
    return Condition(check, True, f"{java.version} by {java.found_by}")
