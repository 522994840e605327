"""Coordinator processes forked from one that has imported all of it: ready in no time.

A coordinator is killed at every point of a matrix and another has to stand beside the next;
what each of them imports anew costs more than what is tested. The fork server starts no
thread and no client, so a fork of it is as good as a new process.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [__name__, "samza_dagster.coordinator.command", "confluent_kafka.admin"]
)


class Born:
    """Runs a module's `run_command`, waited for and signalled as a `Popen` is.

    In a session of its own, its output appended to `log`; `environment` comes on top.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> None:
        given = (module, list(arguments), dict(environment), str(log))
        self._process = _FORKS.Process(target=_live, args=given, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit status (negative: the signal) once it is dead."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Raises `TimeoutError` while it lives on."""
        self._process.join(timeout)
        if (status := self.returncode) is None:
            raise TimeoutError(f"process {self.pid} lives on")
        return status

    def send_signal(self, number: int) -> None:
        """As long as it isn't known to be dead."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _live(module: str, arguments: list[str], environment: Mapping[str, str], log: str) -> None:
    """The child's whole life."""
    code: Any = 1
    try:
        os.setsid()
        os.environ.update(environment)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for stream in (1, 2):
            os.dup2(output, stream)
        importlib.import_module(module).run_command(arguments)
    except SystemExit as error:
        code = error.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)
