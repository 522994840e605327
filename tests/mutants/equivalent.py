"""Operator mutants that no test can find: what they change makes no difference.

Reviewed one by one; each names the line as it stands, the change, and the proof in a line.
A line that has changed takes its entry with it: the mutant is hunted again. Where the same
line stands in several functions it is named as `function: line`.
"""

from __future__ import annotations

Place = tuple[str, str, str]

EQUIVALENT: dict[Place, str] = {
    ("ends.py", "elif group.failover is not None and failover.waits_for(", "operand 1 dropped"): (
        "`waits_for` is False without a failover; the operand is there for the type"
    ),
    (
        "failover.py",
        "return gives_way and active is not None and active.incarnation is None",
        "operand 2 dropped",
    ): "a failover's active is a member of its group; the operand is there for the type",
    (
        "timeouts.py",
        "if processor.request is not None and processor.request.allocated_host is None:",
        "operand 2 dropped",
    ): "what takes an expired request leaves one alone that has its host",
    **{
        ("journal.py", line, "operand 1 dropped"): (
            "nothing starts but on a host that has registered, and none is dropped; the operand"
            " is there for the type"
        )
        for line in (
            "known is not None",
            "if known is None or (incarnation.journal,",
            "return known is None or incarnation.journal in",
        )
    },
    **{
        ("places.py", "return soonness(None, None, 0)", change): (
            "of a standby without a sample no age tells anything"
        )
        for change in ("0 → -1", "0 → 1")
    },
    (
        "actions.py",
        "if action.stage is Stage.HELD and action.reservation and action.reservation.confirmed:",
        "operand 2 dropped",
    ): "what is held has a reservation; the operand is there for the type",
    ("explain.py", "return texts.UNKNOWN_PROCESSOR", "returns None"): (
        "its one caller finds groups by whom they want; where it finds none it refuses anyway"
    ),
    (
        "orphans.py",
        "back = known is not None and known.alive and known.registered",
        "operand 2 dropped",
    ): "a host that is lost isn't registered from the same step on; who registers lives",
    (
        "state.py",
        "index: Index = field(default=EMPTY, compare=False, repr=False)",
        "False → True",
    ): ("only tests compare states or show them; what it holds is derived from the rest"),
    **{
        ("draft.py", f"while len({kept}) > max(0, self.limits.remembered_uuids):", change): (
            "so many as the limit allows are 1 at least (`REMEMBERED` in coordinator/limits.py)"
        )
        for kept in ("self._uuids", "self._refused")
        for change in ("0 → -1", "0 → 1")
    },
    ("ends.py", "pause_ms = failover.ACTIVE_FIRST_MS if gave_way else 0", "0 → -1"): (
        "`by_itself` takes the longer of it and the pause for tries, which is 0 at least"
    ),
    ("requests.py", "if group is None or refusal is not None:", "operand 1 dropped"): (
        "`refusal_of_ask` refuses where there is no group; the operand is there for the type"
    ),
    **{
        ("requests.py", "if group is None or refusal is None or refusal ==", change): (
            "where there is no group the refusal is that of an unknown processor"
        )
        for change in ("operand 1 dropped", "operand 2 dropped")
    },
    (
        "rules.py",
        'host = request.allocated_host or request.host or ""',
        "operand 3 dropped",
    ): "what has reserved or requested a host has one; the operand is there for the type",
    (
        "host_limit.py",
        "if action is not None and group_id != but:",
        "operand 1 dropped",
    ): "who is in the index of those that act has an action; the operand is there for the type",
    **{
        ("failover.py", "draft.put_processor(group_id, active.evolve(request=None))", change): (
            "the next fallback always puts another request in its place, and its own never counts"
            " against it"
        )
        for change in ("evolves without request", "statement removed")
    },
    **{
        (file, f"{function}: return False", "returns None"): (
            "whoever calls it asks for its truth alone, and keeps it nowhere"
        )
        for file, function in (
            ("failover.py", "begin"),
            ("failover.py", "waits_for"),
            ("ownership.py", "is_starting"),
        )
    },
}


def proof_of(file: str, line: str, change: str, function: str = "") -> str | None:
    """Why this change makes no difference; None when nobody has shown that."""
    text = line.strip()
    for (where, begins, what), proof in EQUIVALENT.items():
        if (where, what) != (file, change):
            continue
        if text.startswith(begins) or f"{function}: {text}".startswith(begins):
            return proof
    return None
