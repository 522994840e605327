"""Runs the Ivy that pyspark carries: named jars into a directory, nothing transitive."""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from samza_dagster.errors import MissingPrerequisite, Unreachable
from samza_dagster.sandbox.java_check import find_java

_SETTINGS = """<ivysettings>
  <settings defaultResolver="public"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="30000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="public" m2compatible="true" usepoms="false" timeoutConstraint="patience"/>
  </resolvers>
</ivysettings>
"""
"""Without timeouts Ivy waits for ever for a server or proxy that stopped sending."""
_PATTERN = "[organisation]/[artifact]-[revision].[ext]"
_ARRIVED = "[SUCCESSFUL ]"
_FULL = "No space left on device"
_CAUSES = (_FULL, "Server access error", "Host ", "xception")
_SYMPTOMS = ("UNRESOLVED", "not found", "FAILED", "rror")
_TAKES_MB = 300
"""Room for all sets of jars and their downloads."""


def ivy_jar() -> Path:
    """Return the Ivy inside the installed pyspark.

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
    """Return the path of a retrieved jar below `directory`."""
    return directory / "out" / group / f"{name}-{version}.jar"


def retrieve(
    modules: Sequence[tuple[str, str, str]], directory: Path, arrived: Callable[[], None]
) -> None:
    """Download each (group, name, version) below `directory`, with the cache there too.

    Calls `arrived` after each successful download. Raises `MissingPrerequisite` without Ivy, Java
    or room on the disk, `Unreachable` with the resolver's last lines when a jar is missing. The
    caller verifies the files.
    """
    jar, java, proxy = ivy_jar(), find_java(), proxy_options(os.environ)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "ivysettings.xml").write_text(_SETTINGS)
    (directory / "ivy.xml").write_text(_module_file(modules))
    command = [
        str(java.program), "-Xmx128m", *proxy, f"-Divy.default.ivy.user.dir={directory / 'user'}", "-jar", str(jar),
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
    if process.returncode == 0:
        return
    if any(_FULL in line for line in last_words):
        raise MissingPrerequisite(
            f"room for {len(modules)} jars",
            seen=f"{_FULL}: {directory}",
            fix=f"free {_TAKES_MB} MB there, or point SAMZA_DAGSTER_HOME at another disk",
        )
    raise Unreachable(
        " ".join((f"resolve {len(modules)} jars", *(("through", *proxy) if proxy else ()))),
        seen=_reason(last_words),
        fix="check the network and the proxy (HTTPS_PROXY, or JAVA_TOOL_OPTIONS for what only Java "
        "needs), then run it again: what arrived and was verified stays",
    )


def proxy_options(environment: Mapping[str, str]) -> list[str]:
    """Return the JVM options for the proxy of HTTPS_PROXY, which a JVM doesn't read itself."""
    # None when JAVA_TOOL_OPTIONS name a proxy already.
    given = environment.get("https_proxy") or environment.get("HTTPS_PROXY") or ""
    if not given or "proxyHost" in environment.get("JAVA_TOOL_OPTIONS", ""):
        return []
    proxy = urlsplit(given if "//" in given else f"//{given}")
    options = [f"-Dhttps.proxyHost={proxy.hostname}"] if proxy.hostname else []
    return [*options, f"-Dhttps.proxyPort={proxy.port}"] if options and proxy.port else options


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
    """Return the lines that name a cause, else those that only report the failure."""
    for words in (_CAUSES, _SYMPTOMS):
        telling = [line for line in lines if any(word in line for word in words)]
        if telling:
            return " | ".join(list(dict.fromkeys(telling))[:2])[:800]
    return " | ".join(list(lines)[-5:])[:800]
