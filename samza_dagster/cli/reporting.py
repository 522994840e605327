"""How a command ends: exit code by the error tree, errors as text or as one JSON document.

0 done, 1 failed, 2 bad usage or request, 3 timed out, 4 unreachable, 130 interrupted.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from samza_dagster.cli.output import print_json
from samza_dagster.errors import InvalidInput, MissingPrerequisite, SamzaDagsterError
from samza_dagster.interrupts import interrupts_raise

INTERRUPTED = 130
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR)


class Reporting(click.Command):
    """A command whose `main` reports every error once and exits with its code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs the command; with `standalone_mode` it ends the process."""
        given = list(sys.argv[1:] if args is None else args)
        run = partial(super().main, given, prog_name, complete_var, False, **extra)
        if standalone_mode:
            _make_writable()
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                interrupts_raise(signal.SIGINT)
            _leave(_reported(run, "--json" in given))
        return run()


def _reported(run: Callable[[], Any], as_json: bool) -> int:
    try:
        code = run()
    except (SamzaDagsterError, OSError) as error:
        known = error if isinstance(error, SamzaDagsterError) else _missing_on_disk(error)
        if known is None:
            raise
        _report(known, as_json)
        code = known.exit_code
    except click.ClickException as error:
        if not (as_json and _printed(_usage(error))):
            error.show()
        code = error.exit_code
    except click.Abort:
        document = _document("Interrupted", "go on", "Ctrl-C", "", INTERRUPTED)
        if not (as_json and _printed(document)):
            click.echo("Interrupted.", err=True)
        code = INTERRUPTED
    return code if isinstance(code, int) else 0


def _make_writable() -> None:
    """Let every command write whatever it says, in any encoding. Ends the process without a stdout."""
    streams: tuple[Any, Any] = (sys.stdout, sys.stderr)  # Python has None for one that is closed
    if None in streams:
        # Else the next file or socket would get its number, and what a child process says.
        nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
        sys.stdout, sys.stderr = (stream or nowhere for stream in streams)
    if streams[0] is None:
        closed = InvalidInput("write to stdout", seen="it is closed", fix="open it: >/dev/null")
        click.echo(f"Error: {closed}", err=True)
        sys.exit(closed.exit_code)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _leave(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
    except OSError:  # its reader is gone, or its disk is full: Python tries once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _missing_on_disk(error: OSError) -> MissingPrerequisite | None:
    """Return the remedy for a disk's error; None for an error of another kind."""
    if error.errno in _NO_ROOM:
        fix = (
            "free some room there, or another directory: of a sandbox SAMZA_DAGSTER_HOME says which"
        )
    elif error.errno in _NOT_WRITABLE and error.filename is not None:
        fix = "a directory that this user may write to: of a sandbox SAMZA_DAGSTER_HOME says which"
    else:
        return None
    where = f": {error.filename}" if error.filename is not None else ""
    return MissingPrerequisite(
        "room for files that can be written", seen=f"{error.strerror}{where}", fix=fix
    )


def _report(error: SamzaDagsterError, as_json: bool) -> None:
    if as_json and _printed(error.to_json()):
        return
    click.echo(f"Error: {error.asked}", err=True)
    if error.seen:
        click.echo(f"  seen: {error.seen}", err=True)
    if error.fix:
        click.echo(f"  fix:  {error.fix}", err=True)


def _printed(document: object) -> bool:
    """Print to stdout and return whether that worked; otherwise report errors on stderr."""
    try:
        print_json(document)
    except OSError:
        return False
    return True


def _usage(error: click.ClickException) -> dict[str, str | int]:
    context = error.ctx if isinstance(error, click.UsageError) else None
    fix = f"{context.command_path} --help" if context is not None else ""
    return _document(type(error).__name__, error.format_message(), "", fix, error.exit_code)


def _document(error: str, asked: str, seen: str, fix: str, code: int) -> dict[str, str | int]:
    return {"error": error, "asked": asked, "seen": seen, "fix": fix, "exit_code": code}
