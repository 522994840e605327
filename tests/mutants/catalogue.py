"""The bugs that are planted: at least two against each invariant, and against some laws."""

from __future__ import annotations

from samza_dagster.simulation.judges.violation import (
    ACTED_ONCE,
    FAILURE_LEAVES_RUNNING,
    NOT_KEPT_DOWN,
    NOTHING_FORGOTTEN,
    ONE_ACTION,
    ONE_OWNER,
    OTHER_DEPLOYMENT,
    RECOVERY_EQUIVALENT,
    RESERVE_BEFORE_STOP,
    SAME_HOST,
    STANDBY_DEAD_FIRST,
)
from tests.mutants.patches import Mutant

_OTHERS_ALIVE = "        if other.incarnation is not None and other.incarnation.host == host:\n"
_STALE_OR_KNOWN = "    if ask.deployment_id != draft.deployment_id or draft.knows(ask.uuid):\n"
_TAKEN = _STALE_OR_KNOWN + "        return\n    draft.remember(ask.uuid)\n"

CATALOGUE: tuple[Mutant, ...] = (
    Mutant(
        "a running member of the group holds no host",
        "rules.py",
        "        if other.incarnation is not None and other_id != giving_way:\n",
        "        if False:\n",
        SAME_HOST,
        more=((_OTHERS_ALIVE, "        if False:\n"),),
    ),
    Mutant(
        "two of a group may share a fault domain",
        "rules.py",
        "        if other is not None and other.fault_domain == known.fault_domain:\n",
        "        if False:\n",
        SAME_HOST,
        more=(("    if domains:\n", "    if False:\n"),),
    ),
    Mutant(
        "what became illegal since it was asked for is started",
        "containers.py",
        "    broken = rules.violation(group, draft.hosts, processor_id, host)\n",
        "    broken = None\n",
        NOTHING_FORGOTTEN,
    ),
    Mutant(
        "an active starts before the standby whose place it takes is dead",
        "rules.py",
        _OTHERS_ALIVE,
        "        if False:\n",
        STANDBY_DEAD_FIRST,
    ),
    Mutant(
        "a ghost holds no host",
        "rules.py",
        "    for ghost in group.ghosts:\n        if not ghost.left_behind:\n",
        "    for ghost in ():\n        if not ghost.left_behind:\n",
        STANDBY_DEAD_FIRST,
    ),
    Mutant(
        "nobody waits for owners of a deployment that grouped tasks otherwise",
        "containers.py",
        "rules.in_the_way(group, processor_id, host) or draft.regrouped_epoch:\n",
        "rules.in_the_way(group, processor_id, host):\n",
        ONE_OWNER,
    ),
    Mutant(
        "groups are compared after those that leave nothing were taken out",
        "deploy.py",
        "    _regroup(draft, event)\n    for group in tuple(draft.groups()):\n",
        "    for group in tuple(draft.groups()):\n",
        ONE_OWNER,
        more=(
            (
                "    draft.deployment_id = event.deployment_id\n",
                "    _regroup(draft, event)\n    draft.deployment_id = event.deployment_id\n",
            ),
        ),
    ),
    Mutant(
        "a ghost is forgotten once its host is back",
        "ghosts.py",
        "        _put_ghost(draft, group.group_id, leased)\n",
        "        others = draft.group(group.group_id).ghosts\n"
        "        draft.put_ghosts(group.group_id, tuple(g for g in others if g != ghost))\n",
        ONE_OWNER,
    ),
    Mutant(
        "a ghost's lease runs on although its host is back",
        "ghosts.py",
        "leased = ghost.evolve(lease_ends_ms=None, ",
        "leased = ghost.evolve(",
        ONE_OWNER,
    ),
    Mutant(
        "what a host's books lack is dead, though its start may be on its way",
        "hosts.py",
        "            if processor.phase is Phase.STOPPING:\n"
        "                draft.emit(containers.stop_command(",
        "            if processor.phase is Phase.STOPPING and (\n"
        "                incarnation.execution_id in event.execution_ids\n"
        "            ):\n                draft.emit(containers.stop_command(",
        ONE_OWNER,
    ),
    Mutant(
        "what other books lack is dead",
        "hosts.py",
        "            if not listed and not books.know(draft.hosts, incarnation):\n",
        "            if False:\n",
        ONE_OWNER,
    ),
    Mutant(
        "an agent that never knew a ghost can see it dead",
        "ghosts.py",
        "    if not books.know(draft.hosts, incarnation):\n        return\n",
        "",
        ONE_OWNER,
    ),
    Mutant(
        "a machine that kept its boot is another one",
        "books.py",
        "        and incarnation.boot_id != known.boot_id\n",
        "",
        STANDBY_DEAD_FIRST,
    ),
    Mutant(
        "the name of another machine is free although the ghost may own its tasks",
        "state.py",
        "        return self.elsewhere and self.ended is not None\n",
        "        return self.elsewhere\n",
        SAME_HOST,
    ),
    Mutant(
        "a ghost that has ended holds no host",
        "state.py",
        "        return self.elsewhere and self.ended is not None\n",
        "        return self.ended is not None\n",
        STANDBY_DEAD_FIRST,
    ),
    Mutant(
        "a ghost's tasks are given away at once",
        "rules.py",
        "    ghost = ownership.owning_ghost(group, processor_id)\n    if ghost is not None:\n",
        "    ghost = ownership.owning_ghost(group, processor_id)\n    if False:\n",
        ONE_OWNER,
    ),
    Mutant(
        "a lease is over at its last grant",
        "leases.py",
        "    return last_grant_ms + limits.lease_ms + limits.lease_bound_ms\n",
        "    return last_grant_ms + limits.lease_bound_ms\n",
        ONE_OWNER,
    ),
    Mutant(
        "clocks are believed to run alike",
        "leases.py",
        "    return last_grant_ms + limits.lease_ms + limits.lease_bound_ms\n",
        "    return last_grant_ms + limits.lease_ms\n",
        ONE_OWNER,
    ),
    Mutant(
        "a new leader goes by the old one's leases",
        "recovery.py",
        "        _renew_ghosts(draft, group)\n",
        "        pass\n",
        ONE_OWNER,
    ),
    Mutant(
        "the audit chain is cut",
        "draft.py",
        "        self._certificates, self._certificate_hash = record.number, record.digest\n",
        '        self._certificates, self._certificate_hash = record.number, ""\n',
        ONE_OWNER,
    ),
    Mutant(
        "epochs repeat",
        "draft.py",
        "        self._next_epoch += 1\n",
        "        self._next_epoch += epoch % 2\n",
        ONE_OWNER,
    ),
    Mutant(
        "a move stops before it has reserved",
        "actions.py",
        "    reserve(draft, group_id, action)\n\n\ndef reserve(",
        "    reserve(draft, group_id, action)\n"
        "    containers.stop(draft, group_id, ask.processor_id)\n\n\ndef reserve(",
        RESERVE_BEFORE_STOP,
    ),
    Mutant(
        "a restart is forced when it need not be",
        "actions.py",
        "    if ask.destination_host == naming.FORCE_RESTART_LAST_SEEN:\n",
        "    if ask.destination_host in (naming.FORCE_RESTART_LAST_SEEN, naming.LAST_SEEN):\n",
        RESERVE_BEFORE_STOP,
    ),
    Mutant(
        "a standby gives way with no place to go",
        "swaps.py",
        "    if ask.kind is AskKind.FAIL_OVER:\n        _stop_standby(",
        "    if True:\n        _stop_standby(",
        RESERVE_BEFORE_STOP,
    ),
    Mutant(
        "a failure to reserve stops the container",
        "actions.py",
        "    responses.fail(draft, group_id, action, texts.expired(why))\n",
        "    responses.fail(draft, group_id, action, texts.expired(why))\n"
        "    containers.stop(draft, group_id, action.ask.processor_id)\n",
        RESERVE_BEFORE_STOP,
    ),
    Mutant(
        "the way back leads anywhere",
        "actions.py",
        "    action = responses.fail(draft, group_id, action, message)\n"
        "    source = action.source_host if draft.limits.host_affinity else None\n",
        "    action = responses.fail(draft, group_id, action, message)\n    source = None\n",
        FAILURE_LEAVES_RUNNING,
    ),
    Mutant(
        "a hold that nobody commits stops the container",
        "actions.py",
        "    responses.fail(draft, group_id, action, message)\n    draft.put_action(group_id, None)\n",
        "    responses.fail(draft, group_id, action, message)\n    draft.put_action(group_id, None)\n"
        "    containers.stop(draft, group_id, action.ask.processor_id)\n",
        FAILURE_LEAVES_RUNNING,
    ),
    Mutant(
        "the group's lock is ignored",
        "ownership.py",
        "    if not group.queue or group.action is not None or group.failover is not None:\n",
        "    if not group.queue or group.failover is not None:\n",
        ONE_ACTION,
    ),
    Mutant(
        "the youngest request goes first",
        "requests.py",
        "key=lambda ask: (ask.timestamp_ms, ask.uuid)",
        "key=lambda ask: (-ask.timestamp_ms, ask.uuid)",
        ONE_ACTION,
    ),
    Mutant(
        "one action more than the job allows",
        "requests.py",
        "    while len(draft.index.acting) < draft.limits.max_concurrent_actions:\n",
        "    while len(draft.index.acting) <= draft.limits.max_concurrent_actions:\n",
        ONE_ACTION,
    ),
    Mutant(
        "one action more than a host allows",
        "host_limit.py",
        "if counts[host] >= limit), None)",
        "if counts[host] > limit), None)",
        ONE_ACTION,
    ),
    Mutant(
        "the lock is let go before the container is back",
        "actions.py",
        "    draft.put_action(group_id, action)\n    failover.go(",
        "    draft.put_action(group_id, None)\n    failover.go(",
        ONE_ACTION,
    ),
    Mutant(
        "a fail-over takes down another incarnation than it names",
        "requests.py",
        "        if now.execution_id == ask.execution_id:\n            return None\n",
        "        return None\n",
        ACTED_ONCE,
    ),
    Mutant(
        "a request that is known is taken again",
        "requests.py",
        _STALE_OR_KNOWN,
        "    if ask.deployment_id != draft.deployment_id:\n",
        ACTED_ONCE,
    ),
    Mutant(
        "what has ended is not remembered",
        "requests.py",
        "    draft.remember(ask.uuid)\n",
        "    pass\n",
        ACTED_ONCE,
    ),
    Mutant(
        "a process that exists counts as checked in",
        "reducer.py",
        "        if checked_in and processor.phase is Phase.STARTING:\n",
        "        if processor.phase is Phase.STARTING:\n",
        NOTHING_FORGOTTEN,
    ),
    Mutant(
        "a standby is said to be gone before it is dead",
        "spin_up.py",
        "    if standby.incarnation is None:\n",
        "    if True:\n",
        ACTED_ONCE,
    ),
    Mutant(
        "a cancelled request gets a second outcome",
        "controls.py",
        "    draft.put_queue(group.group_id, tuple(ask for ask in group.queue if ask.uuid != uuid))\n",
        "    pass\n",
        ACTED_ONCE,
    ),
    Mutant(
        "a request of another deployment is acted on",
        "requests.py",
        _STALE_OR_KNOWN,
        "    if draft.knows(ask.uuid):\n",
        OTHER_DEPLOYMENT,
    ),
    Mutant(
        "a request of another deployment is remembered",
        "requests.py",
        _TAKEN,
        "    if draft.knows(ask.uuid):\n        return\n    draft.remember(ask.uuid)\n"
        "    if ask.deployment_id != draft.deployment_id:\n        return\n",
        OTHER_DEPLOYMENT,
    ),
    Mutant(
        "a request of another deployment stays on the stream",
        "requests.py",
        "    draft.emit(DeleteRequest(ask.uuid, ask.own))\n" + _STALE_OR_KNOWN,
        "    if ask.deployment_id == draft.deployment_id:\n"
        "        draft.emit(DeleteRequest(ask.uuid, ask.own))\n" + _STALE_OR_KNOWN,
        OTHER_DEPLOYMENT,
    ),
    Mutant(
        "a restart asks under new ids",
        "recovery.py",
        "        request = _renewed(draft, processor.request, draft.limits.request_timeout_ms)\n",
        "        request = _renewed(draft, processor.request, draft.limits.request_timeout_ms)\n"
        "        request = request.evolve(request_id=draft.new_request_id())\n",
        RECOVERY_EQUIVALENT,
    ),
    Mutant(
        "a restart stops what runs",
        "recovery.py",
        "    elif incarnation is not None and processor.phase is Phase.STOPPING:\n",
        "    elif incarnation is not None:\n",
        RECOVERY_EQUIVALENT,
    ),
    Mutant(
        "a restart lets go of actions",
        "recovery.py",
        "    draft.put_action(group.group_id, action)\n",
        "    draft.put_action(group.group_id, None)\n",
        RECOVERY_EQUIVALENT,
    ),
    Mutant(
        "a request's deadline is not waited for",
        "summaries.py",
        "            if phase is _REQUESTING:\n",
        "            if False:\n",
        NOTHING_FORGOTTEN,
    ),
    Mutant(
        "what an action reserved is never given back",
        "responses.py",
        "            draft.emit(ReleaseResource(reservation.request_id))\n",
        "            pass\n",
        NOTHING_FORGOTTEN,
    ),
    Mutant(
        "a turn that found no host is the last",
        "reducer.py",
        "        containers.give_up_turn(draft, group_id, processor_id)\n",
        "        draft.put_processor(\n"
        "            group_id, processor.evolve(phase=Phase.WAITING, request=None, wanted=False)\n"
        "        )\n",
        NOTHING_FORGOTTEN,
    ),
    Mutant(
        "what survives its stop runs, though it never checked in",
        "containers.py",
        "    if processor.start_deadline_ms is not None:\n        draft.put_processor(\n",
        "    if False:\n        draft.put_processor(\n",
        NOTHING_FORGOTTEN,
    ),
    Mutant(
        "locality isn't written",
        "containers.py",
        "            deadline_ms=None,\n        ),\n    )\n    draft.emit(WriteLocality(processor_id, host))\n",
        "            deadline_ms=None,\n        ),\n    )\n",
        NOTHING_FORGOTTEN,
    ),
    Mutant(
        "a container that goes down waits for its destination as long as was asked",
        "actions.py",
        "open_.evolve(deadline_ms=min(open_.deadline_ms, latest_ms))",
        "open_",
        NOT_KEPT_DOWN,
    ),
    Mutant(
        "what is asked for a container that is down has its request's own time",
        "actions.py",
        "    return min(own, draft.limits.request_timeout_ms) if down else own\n",
        "    return own\n",
        NOT_KEPT_DOWN,
    ),
)
