"""Coordinator processes forked from one that has imported all of it: ready in no time.

A coordinator is killed at every point of a matrix and another has to stand beside the next;
what each of them imports anew costs more than what is tested. `python -m tests.rig.nursery
MODULE` reads a JSON line for each child on stdin and answers with its pid; it starts no
thread and no client, so a fork of it is as good as a new process.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from tests.rig.pace import PACE

ROOT = Path(__file__).resolve().parent.parent.parent


class Born:
    """A child of the nursery, waited for and signalled as a `Popen` is."""

    def __init__(self, pid: int, status: Path) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Its exit status (negative: the signal) once it is dead and was reaped."""
        if self.returncode is None and self._status.exists():
            self.returncode = int(self._status.read_text())
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Raises `TimeoutError` while it lives on."""
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"process {self.pid} lives on")
            time.sleep(0.01)
        return status

    def send_signal(self, number: int) -> None:
        """As long as it wasn't reaped."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Nursery:
    """Starts children that run a module's `run_command`. Close it when they are dead."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self._statuses = tempfile.TemporaryDirectory(prefix="nursery-")
        self._count = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.rig.nursery", module],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def start(self, arguments: Sequence[str], log: Path) -> Born:
        """One more child, in a session of its own, its output appended to `log`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._count += 1
        status = Path(self._statuses.name) / str(self._count)
        asked = {"arguments": list(arguments), "log": str(log), "status": str(status)}
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        return Born(int(self._process.stdout.readline()), status)

    def close(self) -> None:
        """Ends it; children that live are nobody's then."""
        self._process.communicate(timeout=10 * PACE)
        self._statuses.cleanup()


def _serve(module: str) -> None:
    command = importlib.import_module(module).run_command
    importlib.import_module("confluent_kafka.admin")
    children: dict[int, Path] = {}

    def note_dead(_number: int, _frame: FrameType | None) -> None:
        for pid in list(children):
            # One death's handler may run within another's.
            with contextlib.suppress(ChildProcessError):
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    path = children.pop(pid)
                    beside = path.with_suffix(".new")
                    beside.write_text(str(os.waitstatus_to_exitcode(status)))
                    beside.replace(path)

    signal.signal(signal.SIGCHLD, note_dead)
    for line in sys.stdin:
        asked = json.loads(line)
        # Its death isn't heard of before it is known.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if pid == 0:
            _live(command, asked)
        children[pid] = Path(asked["status"])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        print(pid, flush=True)


def _live(command: Any, asked: dict[str, Any]) -> None:
    """The child's whole life."""
    code: Any = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, stream in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(descriptor, stream)
        command(asked["arguments"])
    except SystemExit as error:
        code = error.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    _serve(sys.argv[1])
