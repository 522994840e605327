"""What a record may say after those before it: the rules that an audit history is judged by."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from samza_dagster.placement.audit_form import END, WAYS, Broken, Rule, check_form, is_evidence
from samza_dagster.placement.certificates import AuditRecord, Predecessor
from samza_dagster.placement.state import Ended, Role

NO_PREDECESSOR = "first"
CLOCKS_DIFFER_MS = 3_600_000
"""How far the clocks of a job's leaders, its brokers and a reader are taken to differ at most."""


@dataclass(slots=True)
class _Life:
    """One incarnation: its start, and the records of its end, `dead` last."""

    start: AuditRecord
    ends: list[AuditRecord] = field(default_factory=list[AuditRecord])

    @property
    def seen_dead(self) -> bool:
        return bool(self.ends) and self.ends[-1].how == Ended.DEAD

    def __str__(self) -> str:
        return f"{self.start.execution_id} on {self.start.host}"


@dataclass(slots=True)
class CheckedHistory:
    """What the records so far say. `complete`: it began with the job's first record."""

    complete: bool
    starts: Counter[str] = field(default_factory=Counter[str])
    ways: Counter[str] = field(default_factory=Counter[str])
    _lives: dict[str, _Life] = field(default_factory=dict[str, _Life])
    _newest: dict[str, _Life] = field(default_factory=dict[str, _Life])
    _undead: dict[str, list[_Life]] = field(default_factory=dict[str, list[_Life]])
    # By the grouping that it was started under: those that own tasks, as far as is known.
    _owners: dict[str, dict[str, _Life]] = field(default_factory=dict[str, dict[str, _Life]])
    _older_ends: dict[str, str] = field(default_factory=dict[str, str])
    _highest_epoch: int = 0
    _first_epoch: int | None = None

    def take(self, record: AuditRecord) -> None:
        """Raises `Broken` at the first rule that the record breaks."""
        check_form(record)
        if record.kind == END:
            self._end(record)
        else:
            self._start(record)

    def _start(self, record: AuditRecord) -> None:
        if record.execution_id in self._lives or record.execution_id in self._older_ends:
            raise Broken(Rule.EXECUTION, f"{record.execution_id} was there before")
        if record.epoch <= self._highest_epoch:
            raise Broken(
                Rule.EPOCH, f"epoch {record.epoch} after epoch {self._highest_epoch} of the job"
            )
        before = self._newest.get(record.processor_id)
        if before is None:
            self._check_unknown_predecessor(record)
        else:
            _check_group(record, before.start)
            _check_predecessor(record, before)
            for end in before.ends:
                _check_time(record, end.at_ms, f"the end of {before}")
        self._check_regrouped(record)
        self._check_same_host(record)
        self._check_others(record)
        life = _Life(record)
        self._lives[record.execution_id] = self._newest[record.processor_id] = life
        self._undead.setdefault(record.group_id, []).append(life)
        self._owners.setdefault(record.grouping, {})[record.execution_id] = life
        self._highest_epoch = record.epoch
        if self._first_epoch is None:
            self._first_epoch = record.epoch
        self.starts[record.processor_id] += 1
        self.ways[record.predecessor.how if record.predecessor else NO_PREDECESSOR] += 1

    def _check_unknown_predecessor(self, record: AuditRecord) -> None:
        named = record.predecessor
        if named is None:
            return
        if self.complete:
            raise Broken(
                Rule.PREDECESSOR,
                f"{named.execution_id} is named, but {record.processor_id} never started before",
            )
        if named.how not in WAYS or named.epoch >= record.epoch:
            raise Broken(
                Rule.PREDECESSOR,
                f"{named.execution_id} of epoch {named.epoch}, ended by {named.how!r}",
            )
        if not is_evidence(named.how, named.at_ms, named.evidence):
            raise Broken(
                Rule.PREDECESSOR,
                f"{named.execution_id} is said to have ended {_named_end(named)}",
            )
        _check_time(record, named.at_ms, f"the end of {named.execution_id}")

    def _check_regrouped(self, record: AuditRecord) -> None:
        """Its tasks may have been those of any processor that was started under other groups."""
        for grouping, owners in self._owners.items():
            if owners and record.grouping != grouping:
                raise Broken(
                    Rule.REGROUPED,
                    f"{record.execution_id} starts on {record.host}, its tasks grouped as "
                    f"{record.grouping:.12}, while {next(iter(owners.values()))} hasn't ended, "
                    f"whose tasks were grouped as {grouping:.12}",
                )

    def _check_same_host(self, record: AuditRecord) -> None:
        left = set(record.left_behind)
        here = {
            (life.start.processor_id, life.start.execution_id): life
            for life in self._undead.get(record.group_id, ())
            if life.start.host == record.host
        }
        for who, life in here.items():
            if who not in left:
                raise Broken(
                    Rule.SAME_HOST,
                    f"{record.execution_id} starts on {record.host}, where "
                    f"{life.start.execution_id} of its group isn't known dead",
                )
            if not life.ends:
                raise Broken(
                    Rule.SAME_HOST,
                    f"{record.execution_id} starts on {record.host}, and {life} hasn't ended "
                    "on the machine that was left",
                )
        for _, execution_id in sorted(left - here.keys()):
            if self.complete or execution_id in self._lives:
                raise Broken(
                    Rule.SAME_HOST,
                    f"{record.execution_id} names {execution_id} as left behind on another "
                    f"machine of {record.host}, and it wasn't there",
                )
        others_left = {processor_id for processor_id, _ in left}
        for processor_id, host in record.others:
            if host == record.host and processor_id not in others_left:
                raise Broken(
                    Rule.SAME_HOST,
                    f"{record.execution_id} starts on {host}, and names {processor_id} of its "
                    "group there, not known dead",
                )

    def _check_others(self, record: AuditRecord) -> None:
        named = set(record.others)
        undead = {
            (life.start.processor_id, life.start.host)
            for life in self._undead.get(record.group_id, ())
        }
        for processor_id, host in sorted(undead - named):
            raise Broken(Rule.OTHERS, f"{processor_id} on {host} isn't known dead, and isn't named")
        for processor_id, host in sorted(named - undead):
            if self.complete:
                raise Broken(
                    Rule.OTHERS, f"{processor_id} on {host} is named, but nothing of it runs there"
                )

    def _end(self, record: AuditRecord) -> None:
        life = self._lives.get(record.execution_id)
        if life is None:
            self._end_of_older(record)
            return
        start = life.start
        was = (start.processor_id, start.group_id, start.role, start.epoch, start.host)
        now = (record.processor_id, record.group_id, record.role, record.epoch, record.host)
        if now != was:
            raise Broken(
                Rule.ENDS,
                f"{record.execution_id} ends as {_identity_text(now)}, it started as {_identity_text(was)}",
            )
        _check_once(record, life.ends[-1].how if life.ends else None)
        _check_time(record, start.at_ms, f"the start of {life}")
        if record.how == Ended.LEASE:
            self._check_renewed(record)
        life.ends.append(record)
        self._owners.get(start.grouping, {}).pop(record.execution_id, None)
        if life.seen_dead:
            self._undead[record.group_id].remove(life)

    def _check_renewed(self, record: AuditRecord) -> None:
        """A lease that ends again ran anew, which none does beside a successor."""
        newest = self._newest[record.processor_id]
        if newest.start.epoch > record.epoch and not newest.ends:
            raise Broken(
                Rule.ONE_OWNER,
                f"the lease of {record.execution_id} on {record.host} ends again, it ran anew "
                f"while {newest} hadn't ended",
            )

    def _end_of_older(self, record: AuditRecord) -> None:
        """Of an incarnation whose start was before this history's first record."""
        is_older = self._first_epoch is None or record.epoch < self._first_epoch
        if self.complete or not is_older:
            raise Broken(Rule.ENDS, f"{record.execution_id} ends, and never started")
        _check_once(record, self._older_ends.get(record.execution_id))
        self._older_ends[record.execution_id] = record.how
        self._highest_epoch = max(self._highest_epoch, record.epoch)


def _check_group(record: AuditRecord, before: AuditRecord) -> None:
    if record.deployment_id == before.deployment_id and record.group_id != before.group_id:
        raise Broken(
            Rule.FORM,
            f"group_id {record.group_id!r} of processor {record.processor_id!r}, which has "
            f"{before.group_id!r} in this deployment",
        )


def _check_predecessor(record: AuditRecord, before: _Life) -> None:
    named = record.predecessor
    start = before.start
    if not before.ends:
        raise Broken(
            Rule.ONE_OWNER,
            f"{record.execution_id} starts on {record.host} while {before} hasn't ended",
        )
    if named is None:
        # A standby that was removed, or a processor of an older deployment, came back.
        if record.role == Role.ACTIVE and start.deployment_id == record.deployment_id:
            raise Broken(Rule.PREDECESSOR, f"none is named, it was {before}")
        return
    if (named.execution_id, named.epoch, named.host) != (
        start.execution_id,
        start.epoch,
        start.host,
    ):
        raise Broken(
            Rule.PREDECESSOR,
            f"{named.execution_id} on {named.host} of epoch {named.epoch} is named, it was "
            f"{before} of epoch {start.epoch}",
        )
    # Seen dead later it may be named by either end; of a lease that ran anew the last one counts.
    leased = [end for end in before.ends if end.how != Ended.DEAD][-1:]
    ends = [*leased, *(end for end in before.ends if end.how == Ended.DEAD)]
    recorded = [_end_record(end.how, end.at_ms, end.evidence) for end in ends]
    if _named_end(named) not in recorded:
        raise Broken(
            Rule.PREDECESSOR,
            f"{named.execution_id} is said to have ended {_named_end(named)}; recorded: "
            + ", ".join(recorded),
        )


def _check_once(record: AuditRecord, known: str | None) -> None:
    # One that lost its tasks to a fence or its lease may be seen dead later, and a lease that
    # was over runs anew while its host is back; nothing else twice.
    leased = known == record.how == Ended.LEASE
    if known is not None and not leased and (known == Ended.DEAD or record.how != Ended.DEAD):
        raise Broken(
            Rule.ENDS, f"{record.execution_id} ends by {record.how}, it had ended by {known}"
        )


def _named_end(named: Predecessor) -> str:
    return _end_record(named.how, named.at_ms, named.evidence)


def _check_time(record: AuditRecord, after_ms: int, what: str) -> None:
    if record.at_ms < after_ms - CLOCKS_DIFFER_MS:
        raise Broken(
            Rule.TIME,
            f"the {record.kind} of {record.execution_id} is dated {record.at_ms}, "
            f"{what} {after_ms}",
        )


def _end_record(how: str, at_ms: int, evidence: str) -> str:
    return f"by {how} at {at_ms} ({evidence!r})"


def _identity_text(identity: tuple[str, str, str, int, str]) -> str:
    processor_id, group_id, role, epoch, host = identity
    return f"{role} {processor_id} of group {group_id}, epoch {epoch}, on {host}"
