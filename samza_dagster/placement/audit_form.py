"""What a record of the audit history may say by itself, and the names of all rules."""

from __future__ import annotations

import re
from enum import StrEnum

from samza_dagster.placement.certificates import RULES_VERSION, AuditRecord
from samza_dagster.placement.state import Ended, Fencing, Role

START, END = "start", "end"
WAYS = frozenset(way.value for way in Ended)
_ROLES = frozenset(role.value for role in Role)
_FENCINGS = frozenset(fencing.value for fencing in Fencing)
_LEASE_ENDED = re.compile(r"its lease ended at (-?\d+), it is (-?\d+)")


class Rule(StrEnum):
    """What a record may break."""

    NUMBER = "number"  # counted by one, in order
    CHAIN = "chain"  # names the digest of the record before it
    DIGEST = "digest"  # is the hash of what the record says
    RULES_VERSION = "rules-version"  # written by rules that this release knows
    FORM = "form"  # a start or an end, of a known role, in a known way
    EPOCH = "epoch"  # grows with every start of the job
    EXECUTION = "execution"  # every incarnation starts once
    PREDECESSOR = "predecessor"  # the processor's incarnation before, as its end was recorded
    ONE_OWNER = "one-owner"  # none starts before the one before has ended
    REGROUPED = "regrouped"  # where tasks changed groups, none starts before the earlier have ended
    SAME_HOST = "same-host"  # no member of a group where another isn't known dead, or left behind
    TIME = "time"  # dated after what it follows, but for how far leaders' clocks may differ
    OTHERS = "others"  # the group's other members, as the history has them
    ENDS = "ends"  # of a known start, and once dead
    HEAD = "head"  # the last record is the one that the coordinator's state names
    RETENTION = "retention"  # nothing is gone that is younger than what the topic keeps


class Broken(Exception):
    """A record breaks a rule."""

    def __init__(self, rule: Rule, seen: str) -> None:
        super().__init__(rule, seen)
        self.rule = rule
        self.seen = seen


def check_form(record: AuditRecord) -> None:
    """Raises `Broken` at what no release would write, whatever came before."""
    if record.rules_version != RULES_VERSION:
        raise Broken(
            Rule.RULES_VERSION, f"{record.rules_version}; this release knows {RULES_VERSION}"
        )
    is_end = record.kind == END
    ways = WAYS if is_end else frozenset({""})
    fine = {
        "kind": record.kind in (START, END),
        "role": record.role in _ROLES,
        "how": record.how in ways,
        "fencing": record.fencing in _FENCINGS,
        "predecessor": record.kind == START or record.predecessor is None,
        "left_behind": record.kind == START or not record.left_behind,
        "grouping": record.kind == START or not record.grouping,
        "spun_up_by": record.kind == START or not record.spun_up_by,
        "epoch": record.epoch > 0,
        "execution_id": bool(record.execution_id),
        "host": bool(record.host),
        "processor_id": bool(record.processor_id),
        "group_id": bool(record.group_id),
        "evidence": not is_end or is_evidence(record.how, record.at_ms, record.evidence),
    }
    for name in (name for name, is_fine in fine.items() if not is_fine):
        raise Broken(
            Rule.FORM, f"{name} {getattr(record, name)!r} in a record of kind {record.kind!r}"
        )
    if (record.role == Role.ACTIVE) != (record.processor_id == record.group_id):
        raise Broken(
            Rule.FORM,
            f"role {record.role!r} of processor {record.processor_id!r} in group "
            f"{record.group_id!r}, which is named for its active",
        )
    # A fence under way is given up where a deployment or a term has none any more.
    if record.how == Ended.FENCED and record.fencing != Fencing.BROKER:
        raise Broken(Rule.FORM, f"how {record.how!r} where the fencing is {record.fencing!r}")


def is_evidence(how: str, at_ms: int, evidence: str) -> bool:
    """Whether it says anything, and of a lease that it had run out by the time of its end."""
    if how != Ended.LEASE:
        return bool(evidence)
    said = _LEASE_ENDED.fullmatch(evidence)
    return said is not None and int(said[1]) <= int(said[2]) == at_ms
