"""A JVM with Hadoop's own client libraries, driven over py4j.

It ends with this process, and its secret protects it. Hadoop's configuration directory
brings addresses and security, as for every client of the cluster.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from samza_dagster.errors import ActionFailed, MissingPrerequisite

_OPTIONS = (
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.net.preferIPv4Stack=true",
)
_PYSPARK_JARS = ("hadoop-client-*", "slf4j-api-*", "jcl-over-slf4j-*", "log4j-*")
_CLASS_PATH_S = 60.0
# py4j logs each Java object that it can't give back once the JVM has ended.
logging.getLogger("py4j").setLevel(logging.CRITICAL)
_WAIT_MS = {
    # Hadoop's clients try a node that is gone for three minutes, the ResourceManager for fifteen.
    "yarn.client.nodemanager-connect.max-wait-ms": 3000,
    "yarn.client.nodemanager-connect.retry-interval-ms": 500,
    "yarn.resourcemanager.connect.max-wait.ms": 1000,
    "yarn.resourcemanager.connect.retry-interval.ms": 500,
    # Below these, each attempt is made eleven times, a second apart.
    "ipc.client.connect.max.retries": 0,
    "ipc.client.connect.max.retries.on.timeouts": 0,
    "ipc.client.connect.timeout": 3000,
}


def class_path(configuration: Path) -> str:
    """Return the configuration directory and the jars of `hadoop classpath`, else of pyspark.

    Raises `MissingPrerequisite` where there is neither.
    """
    hadoop = shutil.which("hadoop")
    if hadoop is not None:
        asked = subprocess.run(
            [hadoop, "classpath"],
            capture_output=True, text=True, timeout=_CLASS_PATH_S, check=False,
        )  # fmt: skip
        if asked.returncode == 0 and asked.stdout.strip():
            return f"{configuration}:{asked.stdout.strip()}"
    spec = find_spec("pyspark")
    jars = None if spec is None or spec.origin is None else Path(spec.origin).parent / "jars"
    found = [] if jars is None else [j for p in _PYSPARK_JARS for j in sorted(jars.glob(p))]
    if not found:
        raise MissingPrerequisite(
            "Hadoop's client libraries, to speak with YARN",
            seen="no program `hadoop` on PATH, and no pyspark",
            fix="put Hadoop's bin directory on PATH, or pip install 'samza_dagster[yarn]'",
        )
    return ":".join(map(str, (configuration, *found)))


class HadoopGateway:
    """A JVM with Hadoop's client.

    `jvm` is py4j's view of its classes, `configuration` a `YarnConfiguration`.
    """

    def __init__(self, configuration: Path) -> None:
        """Start the JVM, which takes about half a second.

        Raises `MissingPrerequisite` without Java, py4j or the jars, `ActionFailed` when the JVM
        ends at once.
        """
        try:
            py4j: Any = import_module("py4j.java_gateway")
        except ImportError as error:
            raise MissingPrerequisite(
                "py4j, to speak with YARN", seen=str(error), fix="pip install 'samza_dagster[yarn]'"
            ) from error
        try:
            port, secret, self.process = py4j.launch_gateway(
                classpath=class_path(configuration),
                javaopts=list(_OPTIONS),
                java_path=None,
                die_on_exit=True,
                enable_auth=True,
                return_proc=True,
                # py4j closes the first when the JVM ends, so it gets a copy.
                redirect_stdout=os.fdopen(os.dup(2), "w"),
                redirect_stderr=2,
            )
        except FileNotFoundError as error:
            raise MissingPrerequisite(
                "Java, to speak with YARN", seen=str(error), fix="install a JDK 11 or later, or set JAVA_HOME"
            ) from error  # fmt: skip
        except ValueError as error:  # it printed no port
            raise ActionFailed(
                "start a JVM with Hadoop's client", seen="it ended at once", fix="see its words above"
            ) from error  # fmt: skip
        parameters = py4j.GatewayParameters(port=port, auth_token=secret, auto_convert=True)
        self.java: Any = py4j.JavaGateway(gateway_parameters=parameters)
        self.jvm: Any = self.java.jvm
        self.configuration: Any = self.jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
        for key, milliseconds in _WAIT_MS.items():
            self.configuration.setLong(key, milliseconds)

    @property
    def is_alive(self) -> bool:
        """Return whether the JVM runs."""
        return self.process.poll() is None

    def array(self, of: Any, *values: Any) -> Any:
        """Return a Java array."""
        array = self.java.new_array(of, len(values))
        for at, value in enumerate(values):
            array[at] = value
        return array

    def close(self) -> None:
        """Kill the JVM: its open calls fail at once."""
        with contextlib.suppress(Exception):  # py4j gives back no more of its objects after this
            self.java.shutdown()
        self.process.kill()
        self.process.wait()


def java_words(error: BaseException) -> str:
    """Return class and message of a Java exception, without its trace."""
    thrown = getattr(error, "java_exception", None)
    if thrown is None:
        return f"{type(error).__name__}: {error}"
    try:
        text = str(thrown.toString())
    except Exception:
        return type(error).__name__
    return text.splitlines()[0][:500] if text else type(error).__name__
