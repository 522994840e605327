"""Pages of `docs/howto/` as one script: their commands, and their files where the page shows them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOW_TOS = ROOT / "docs" / "howto"
_BLOCK = re.compile(r"```(sh|yaml|python|properties)\n(.*?)```", re.DOTALL)


def script(page: str, instead: Mapping[str, str]) -> str:
    """All commands of the page in one shell, which ends at the first that fails.

    A file's first line is its name. `instead` puts this job's values in the place of the page's.
    """
    for text, ours in instead.items():
        assert text in page, f"the page has no {text!r} any more"
        page = page.replace(text, ours)
    lines = ["set -eux"]
    for kind, block in _BLOCK.findall(page):
        if kind == "sh":
            lines.append(block)
        else:
            name = block.partition("\n")[0].removeprefix("# ")
            lines.append(f"cat > {name} <<'END-OF-FILE'\n{block}END-OF-FILE")
    return "\n".join(lines)


def follow(commands: str, directory: Path, path: str, within_s: float, **environment: str) -> str:
    """Runs a script in a directory; what it leaves running in its session is ended. Returns what it said."""
    shell = subprocess.Popen(
        ["bash", "-c", commands],
        cwd=directory,
        env={**os.environ, **environment, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = shell.communicate(timeout=within_s)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, said[-5000:]
    return said


def with_one_deployment(heading: str) -> str:
    """`your-first-job.md` up to where it parts, and the section of one deployment."""
    text = (HOW_TOS / "your-first-job.md").read_text(encoding="utf-8")
    common, *sections = re.split(r"^(?=## [A-Z])", text, flags=re.MULTILINE)
    (one,) = [section for section in sections if section.startswith(f"## {heading}\n")]
    return common + one
