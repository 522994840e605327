"""On whose books an incarnation stands, as the laws see it: who else can't tell its end."""

from __future__ import annotations

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.placement.state import Host, Incarnation

_FREED = "{} was started anew since, or is another machine: boot {}"


def are_its(books: str, boot_id: str, incarnation: Incarnation) -> bool:
    """Whether it was started on these books: then their silence says something.

    Without an id of its own, the boot of the machine tells; without that, nothing does.
    """
    if incarnation.books:
        return incarnation.books == books
    return incarnation.boot_id in ("", boot_id)


def knows(event: ev.HostRegistered, incarnation: Incarnation) -> bool:
    """Whether who registers can tell what became of it."""
    listed = incarnation.execution_id in event.execution_ids
    return listed or are_its(event.books, event.boot_id, incarnation)


def as_known(event: ev.HostRegistered, incarnation: Incarnation) -> Incarnation:
    """As the state has it from now on: on these books and this boot, if they know of it."""
    if not knows(event, incarnation):
        return incarnation
    return incarnation.evolve(books=event.books, boot_id=event.boot_id)


def freed(host: str, boot_id: str) -> str:
    """The evidence that an incarnation which has ended isn't on its host's machine."""
    return _FREED.format(host, boot_id)


def is_freed(record: AuditRecord) -> bool:
    """Whether it says that: nobody saw it dead."""
    return record.kind == "end" and record.evidence.startswith(freed(record.host, ""))


def all_freed(records: list[cmd.RecordCertificate]) -> frozenset[str]:
    """Execution ids of which it is said."""
    return frozenset(c.record.execution_id for c in records if is_freed(c.record))


def may_be_freed(host: Host, left: Incarnation) -> bool:
    """Its machine was started since, or has lost its name to another one."""
    other_boot = "" not in (left.boot_id, host.boot_id) and left.boot_id != host.boot_id
    return host.registered and other_boot and not are_its(host.books, host.boot_id, left)
