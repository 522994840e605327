"""Parent of one container: holds its lease, kills its group, records its end.

Run as `python -I warden.py <incarnation directory> [<ready descriptor> [<descriptor>…]]`,
leader of its own session, single-threaded (the kernel ties a parent-death signal to a
thread). It keeps the further descriptors open; its container gets none of them.

In the directory it reads `spec.json` and the grant that it names, and holds `warden.lock`, with its own
name in it, for its life. It writes `warden.json` once the container runs, and `exit.json` once it and every
process of its group are dead. A directory that has an `exit.json` never runs again.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, NoReturn, Optional

if __name__ == "__main__":
    # `-I` leaves the script's place off the path. Behind the standard library, which nothing
    # beside us may shadow, and before any other copy of this package that is installed.
    _packages = [i for i, p in enumerate(sys.path) if p.endswith("-packages")]
    sys.path.insert(min(_packages, default=len(sys.path)), str(Path(__file__).resolve().parents[2]))

from samza_dagster.agent import grants, procfs
from samza_dagster.agent.ending import (
    HOW_BY_ITSELF,
    HOW_LEASE,
    HOW_NOT_STARTED,
    HOW_STOPPED,
    write_exit,
)
from samza_dagster.agent.files import read_json, write_json
from samza_dagster.agent.lease import Grant, read_clocks
from samza_dagster.version import __version__

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# A wall clock set forward, as after a freeze, shortens a lease without a timer: look this often.
_LONGEST_SLEEP_S = 1.0


class Warden:
    """The warden of one container, from fork to the death of its last process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.spec: Dict[str, Any] = {}
        self.boot_id = procfs.boot_id()
        self.child = 0
        self.how = HOW_BY_ITSELF
        self.kill_at: Optional[float] = None  # monotonic; the grace after a SIGTERM
        self.grant: Optional[Grant] = None
        self.stop_asked = False
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl
        self._wake, self._wake_write = os.pipe()

    def run(self, ready: Optional[int]) -> int:
        """Run the container to its end; return its exit status, 3 or 4 if it was never started."""
        self._listen()
        if not self._claim():
            return 3
        spec = read_json(self.directory / "spec.json")
        if spec is None:
            return self._never("spec.json is missing or malformed")
        self.spec = spec
        if self._remaining_s() <= 0:
            return self._never("the host holds no live lease")
        if self.stop_asked:
            return self._never("stopped before it was started")
        why = self._fork()
        if why is not None:
            return self._never(why)
        self._tell(ready)
        self._watch()
        return self._bury()

    def _listen(self) -> None:
        os.set_blocking(self._wake, False)
        os.set_blocking(self._wake_write, False)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGCHLD, _only_wake)
        for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        # The kernel gives this process the container's orphans, so that it sees their deaths.
        self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def _on_term(self, *_: object) -> None:
        self.stop_asked = True

    def _claim(self) -> bool:
        """Claim the directory: one warden ever runs it, and none after its end was written.

        The claim contains this process's name before the fork: an agent that didn't start it can
        end it.
        """
        descriptor = os.open(str(self.directory / "warden.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if (self.directory / "exit.json").exists():
            return False
        me = procfs.name_of(os.getpid())
        assert me is not None  # this process runs
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(me.to_json()).encode("ascii"))
        return True

    def _never(self, why: str) -> int:
        write_exit(self.directory, how=HOW_NOT_STARTED, why=why)
        return 4

    def _fork(self) -> Optional[str]:
        """Start the container; return the reason when its program can't be executed."""
        read_end, tell = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_container(tell, parent)
        os.close(tell)
        with os.fdopen(read_end, "rb") as stream:
            failure = stream.read().decode("utf-8", "replace")
        if failure:
            os.waitpid(pid, 0)
            return failure
        self.child = pid
        return None

    def _become_container(self, tell: int, parent: int) -> NoReturn:
        """Make the child a group that dies with the warden, then the program. Never returns."""
        try:
            os.setpgid(0, 0)
            self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)
            signal.set_wakeup_fd(-1)
            for number in (
                signal.SIGTERM,
                signal.SIGCHLD,
                signal.SIGHUP,
                signal.SIGINT,
                signal.SIGPIPE,
            ):
                signal.signal(number, signal.SIG_DFL)
            log = os.open(
                str(self.directory / "container.log"),
                os.O_WRONLY | os.O_CREAT | os.O_APPEND,
                0o600,
            )
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.chdir(str(self.spec["work_dir"]))
            command: List[str] = self.spec["command"]
            environment: Dict[str, str] = self.spec["environment"]
            os.execvpe(command[0], command, environment)  # noqa: S606 - a shell is what we avoid
        except BaseException as error:
            os.write(tell, "{}: {}".format(type(error).__name__, error).encode("utf-8"))
        os._exit(127)

    def _tell(self, ready: Optional[int]) -> None:
        me = procfs.name_of(os.getpid())
        container = procfs.name_of(self.child)
        assert me is not None  # this process runs
        assert container is not None  # our own child, not reaped
        write_json(
            self.directory / "warden.json",
            {
                "version": 1,
                "program": __version__,
                "warden": me.to_json(),
                "container": container.to_json(),
            },
        )
        if ready is not None:
            os.close(ready)

    def _remaining_s(self) -> float:
        """Return what is left of the lease; read the file only once the known grant has ended."""
        now = read_clocks()
        if self.grant is None or not self.grant.is_live(now):
            found = grants.read(Path(self.spec["grant_file"]), self.boot_id)
            if self.grant is not None and found is not None and not found.follows(self.grant):
                return 0.0  # warden and agent were frozen at the end of the lease
            self.grant = found
        return 0.0 if self.grant is None else self.grant.remaining_s(now)

    def _watch(self) -> None:
        """Watch until the container itself is dead."""
        while True:
            if self._exited():
                return
            remaining = self._remaining_s()
            if remaining <= 0:
                self.how = HOW_LEASE
                os.killpg(self.child, signal.SIGKILL)
                os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOWAIT)
                return
            self._reap_orphans()
            if self.stop_asked and self.kill_at is None:
                self.how = HOW_STOPPED
                self.kill_at = time.monotonic() + float(self.spec["stop_grace_s"])
                os.kill(self.child, signal.SIGTERM)
            sleep = min(remaining, _LONGEST_SLEEP_S)
            if self.kill_at is not None:
                grace = self.kill_at - time.monotonic()
                if grace <= 0:
                    os.killpg(self.child, signal.SIGKILL)
                else:
                    sleep = min(sleep, grace)
            self._sleep(sleep, [])

    def _sleep(self, seconds: float, also: List[int]) -> None:
        select.select([self._wake, *also], [], [], seconds)
        try:
            while os.read(self._wake, 512):
                pass
        except BlockingIOError:
            pass

    def _exited(self) -> bool:
        # The zombie stays: as long as it does, no other process can get its pid and group.
        seen = os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return seen is not None

    def _reap_orphans(self) -> None:
        """Reap orphans while the container lives: once it is dead the kernel names it alone.

        It asks the kernel: `/proc` would cost each warden a read for each process of the host,
        each second.
        """
        while True:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if dead is None or dead.si_pid == self.child:  # its status stays, as above
                return
            os.waitpid(dead.si_pid, os.WNOHANG)

    def _bury(self) -> int:
        """Kill the rest of the group, wait for its death, write the end; return the exit status."""
        me = os.getpid()
        while True:
            left = [
                p
                for p in procfs.all_processes()
                if (p.pgrp == self.child or p.ppid == me) and p.pid != self.child and not p.is_dead
            ]
            if not left:
                break
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child, signal.SIGKILL)
            handles: List[procfs.ProcessHandle] = []
            for process in left:
                handle = procfs.ProcessHandle(
                    procfs.ProcessName(process.pid, process.start_ticks, self.boot_id)
                )
                handle.send(signal.SIGKILL)
                handles.append(handle)
            fds = [h.pidfd for h in handles if h.pidfd is not None]
            self._sleep(0.2 if len(fds) < len(handles) else 5.0, fds)
            for handle in handles:
                handle.close()
        end = os.waitid(os.P_PID, self.child, os.WEXITED)
        assert end is not None  # it is a zombie
        with contextlib.suppress(ChildProcessError):  # none is left
            self._reap_orphans()
        status = end.si_status if end.si_code == os.CLD_EXITED else 128 + end.si_status
        write_exit(self.directory, how=self.how, status=status)
        return status


def _only_wake(*_: object) -> None:
    """Do nothing: without a handler the kernel writes no wake-up pipe."""


def main(arguments: List[str]) -> int:
    """Run a warden; return the container's exit status, 3 another warden has it, 4 never started."""
    inherited = [int(argument) for argument in arguments[1:]]
    for descriptor in inherited:
        os.set_inheritable(descriptor, False)  # the container must not hold it open
    ready = inherited[0] if inherited else None
    try:
        return Warden(Path(arguments[0])).run(ready)
    except OSError as error:
        print(
            "warden: {}: {}".format(errno.errorcode.get(error.errno or 0), error), file=sys.stderr
        )
        raise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
