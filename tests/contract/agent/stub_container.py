"""What a Samza container does towards its coordinator, and nothing else.

Reads its JobModel, heartbeats, ends with 143 on SIGTERM. The first argument is a variant:
`plain`, `stubborn` (ignores SIGTERM), `crash` (exit 7 at start), `forks` (has a child that
ignores SIGTERM, in its group), `orphans` (two that it isn't the parent of, in sessions of
their own: `ended` did, `daemon` lives), `works` (writes down the time, CLOCK_BOOTTIME, at all
times), `chatty` (numbered lines on its standard output, without end).
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import sys
import threading
import time
import urllib.request
from pathlib import Path


def work() -> None:
    """One line is one piece of work; the clock is read after the last wait before it."""
    with Path("worked").open("ab", buffering=0) as done:
        while True:
            time.sleep(0.01)
            done.write(b"%.3f\n" % time.clock_gettime(time.CLOCK_BOOTTIME))


def leave_orphan(name: str, *, ends: bool) -> None:
    """Its pid is in the file `name`."""
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            Path(name).write_text(str(os.getpid()))
            time.sleep(0 if ends else 600)
        os._exit(0)
    os.wait()


def chat() -> None:
    """Some 3 MB a second."""
    for number in itertools.count():
        print(f"{number:08} {'.' * 90}", flush=number % 1000 == 0)
        if number % 1000 == 0:
            time.sleep(0.03)


def main(variant: str) -> None:
    if variant == "crash":
        sys.exit(7)
    if variant == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    if variant == "forks" and os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path("grandchild").write_text(str(os.getpid()))
        time.sleep(600)
    if variant == "orphans":
        leave_orphan("ended", ends=True)
        leave_orphan("daemon", ends=False)
    url = os.environ["SAMZA_COORDINATOR_URL"]
    with urllib.request.urlopen(url, timeout=60) as response:
        model = json.loads(response.read())
    Path("job_model.json").write_text(json.dumps(model))
    if variant == "works":
        threading.Thread(target=work, daemon=True).start()
    if variant == "chatty":
        threading.Thread(target=chat, daemon=True).start()
    Path("argv").write_text("\n".join(sys.argv[1:]))
    Path("environment").write_text(json.dumps(dict(os.environ)))
    heartbeat = (
        f"{url}containerHeartbeat?executionContainerId={os.environ['EXECUTION_ENV_CONTAINER_ID']}"
    )
    while True:
        try:
            with urllib.request.urlopen(heartbeat, timeout=60) as response:
                if not json.loads(response.read())["alive"]:
                    os._exit(1)
        except (OSError, http.client.HTTPException):  # the latter: cut off in mid-answer
            pass  # Samza's client tries for a minute before it gives up
        time.sleep(0.5)


if __name__ == "__main__":
    main(sys.argv[1])
