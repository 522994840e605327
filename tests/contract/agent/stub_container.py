"""What a Samza container does towards its coordinator, and nothing else.

Reads its JobModel, heartbeats, ends with 143 on SIGTERM. The first argument is a variant:
`plain`, `stubborn` (ignores SIGTERM), `crash` (exit 7 at start), `forks` (has a child that
ignores SIGTERM, in its group), `works` (writes down the time, CLOCK_BOOTTIME, at all times).
"""

from __future__ import annotations

import http.client
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
    url = os.environ["SAMZA_COORDINATOR_URL"]
    with urllib.request.urlopen(url, timeout=60) as response:
        model = json.loads(response.read())
    Path("job_model.json").write_text(json.dumps(model))
    if variant == "works":
        threading.Thread(target=work, daemon=True).start()
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
