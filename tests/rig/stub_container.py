"""Stands in for the JVM of a container: reads its JobModel, heartbeats, holds its stores.

Standard library alone, so that it starts in 50 ms. It takes an exclusive lock in every
store directory, as RocksDB does, and from when it has its JobModel on one of its processor in
the whole job and one of its group on its host (parked before that, it owns nothing). It writes what it sees to `journal.jsonl` beside
the state, so that a test hears of overlaps from the kernel and not from the coordinator.
"""

import fcntl
import http.client
import json
import os
import signal
import sys
import time
import urllib.request


def main() -> int:
    url = os.environ["SAMZA_COORDINATOR_URL"]
    processor = os.environ["SAMZA_CONTAINER_ID"]
    execution = os.environ["EXECUTION_ENV_CONTAINER_ID"]
    base = os.environ["LOGGED_STORE_BASE_DIR"]
    journal = os.path.join(base, "journal.jsonl")

    def note(what, **more):
        line = {"what": what, "processor": processor, "execution": execution, "pid": os.getpid()}
        line.update(more, at=time.time())
        with open(journal, "a") as out:
            out.write(json.dumps(line) + "\n")

    def stop(_number, _frame):
        note("stopped")
        os._exit(143)

    signal.signal(signal.SIGTERM, stop)
    held = []

    def hold(path, **about):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        lock = open(path, "w")
        held.append(lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            note("VIOLATION", **about)
            return False
        return True

    with urllib.request.urlopen(url, timeout=60) as answer:
        model = json.loads(answer.read())
    # The job's directory holds one directory a host, and the state is in that.
    everywhere = os.path.join(os.path.dirname(os.path.dirname(base)), "alive", processor)
    group = processor.split("-")[0]
    if not hold(everywhere, two_processes_of=processor):
        return 9
    if not hold(os.path.join(base, "groups", group), two_members_of=group):
        return 9
    refused = ("refuse-starts", "refuse-starts-" + processor)
    if any(os.path.exists(os.path.join(base, name)) for name in refused):
        note("refused")
        return 3
    for task in model["containers"][processor]["tasks"]:
        parts = task.split("-")
        active = parts[1] if len(parts) > 2 else task
        path = os.path.join(base, "stores", active.replace(" ", "_"))
        if not hold(os.path.join(path, "LOCK"), task=task):
            return 9
    note("started")
    while True:
        beat = url + "containerHeartbeat?executionContainerId=" + execution
        try:
            with urllib.request.urlopen(beat, timeout=10) as answer:
                if not json.loads(answer.read())["alive"]:
                    note("told to stop")
                    return 1
        except (OSError, http.client.HTTPException):  # the latter: cut off in mid-answer
            note("nobody answers")
        time.sleep(5)


if __name__ == "__main__":
    sys.exit(main())
