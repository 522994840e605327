"""Runs the Ivy that pyspark carries: named jars into a directory, nothing transitive."""

from __future__ import annotations

import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from samza_dagster.errors import MissingPrerequisite, Unreachable
from samza_dagster.sandbox.java_check import find_java

_SETTINGS = """<ivysettings>
  <settings defaultResolver="public"/>
  <resolvers><ibiblio name="public" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
_PATTERN = "[organisation]/[artifact]-[revision].[ext]"
_ARRIVED = "[SUCCESSFUL ]"


def ivy_jar() -> Path:
    """The Ivy inside the installed pyspark.

    Raises `MissingPrerequisite` that names the extras which bring pyspark.
    """
    spec = find_spec("pyspark")
    where = list(spec.submodule_search_locations or ()) if spec is not None else []
    found = [jar for base in where for jar in sorted(Path(base, "jars").glob("ivy-*.jar"))]
    if not found:
        raise MissingPrerequisite(
            "the Ivy that pyspark carries, to resolve jars",
            seen=f"pyspark at {where[0]} without jars/ivy-*.jar"
            if where
            else "pyspark isn't installed",
            fix="pip install 'samza_dagster[sandbox]' (or the extra 'spark')",
        )
    return found[-1]


def retrieved_path(directory: Path, group: str, name: str, version: str) -> Path:
    """Where `retrieve` leaves a jar below `directory`."""
    return directory / "out" / group / f"{name}-{version}.jar"


def retrieve(
    modules: Sequence[tuple[str, str, str]], directory: Path, arrived: Callable[[], None]
) -> None:
    """Brings each (group, name, version) below `directory`, with the cache there too.

    Calls `arrived` for each download that ended well. Raises
    `MissingPrerequisite` without Ivy or Java, `Unreachable` with the resolver's last
    words when one didn't arrive. The files aren't verified here.
    """
    jar, java = ivy_jar(), find_java()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "ivysettings.xml").write_text(_SETTINGS)
    (directory / "ivy.xml").write_text(_module_file(modules))
    command = [
        str(java.program), "-Xmx128m", f"-Divy.default.ivy.user.dir={directory / 'user'}", "-jar", str(jar),
        "-settings", str(directory / "ivysettings.xml"), "-ivy", str(directory / "ivy.xml"),
        "-cache", str(directory / "cache"), "-retrieve", str(directory / "out" / _PATTERN),
    ]  # fmt: skip
    last_words: deque[str] = deque(maxlen=400)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                last_words.append(line.strip())
                if _ARRIVED in line:
                    arrived()
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise Unreachable(
            f"resolve {len(modules)} jars",
            seen=_reason(last_words),
            fix="check the network (and the proxy that Java sees, JAVA_TOOL_OPTIONS), then run it again: "
            "what arrived and was verified stays",
        )


def _module_file(modules: Sequence[tuple[str, str, str]]) -> str:
    dependencies = "\n".join(
        f"    <dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)} "
        'transitive="false" conf="default->*"/>'
        for group, name, version in modules
    )
    return (
        '<ivy-module version="2.0">\n  <info organisation="samza-dagster" module="artifacts"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{dependencies}\n  </dependencies>\n</ivy-module>\n"
    )


def _reason(lines: Sequence[str]) -> str:
    telling = [
        line
        for line in lines
        if any(word in line for word in ("UNRESOLVED", "not found", "FAILED", "rror", "xception"))
    ]
    chosen = list(dict.fromkeys(telling))[:5] or list(lines)[-5:]
    return " | ".join(chosen)[:800]
