"""The demo job under Samza's own Application Master: its package, its submission, its end."""

from __future__ import annotations

import shlex
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from samza_dagster.errors import ActionFailed
from samza_dagster.sandbox import demo_job
from samza_dagster.sandbox.artifacts import jar_paths
from samza_dagster.sandbox.java_check import find_java
from samza_dagster.sandbox.launch import MAIN_CLASS
from samza_dagster.sandbox.yarn.cluster import JVM_OPTIONS, YarnCluster
from samza_dagster.sandbox.yarn.processes import NODE_DIRECTORY

_SUBMIT_S = 180.0
_HEAPS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_RUN_JC = "org.apache.samza.clustermanager.ClusterBasedJobCoordinatorRunner"
_LOGS = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
)
_APPLICATION_CLI = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
_SUBMIT = "org.apache.samza.runtime.ApplicationRunnerMain"


class YarnJob:
    """The demo job on `cluster`: `config` of `demo_job.job_config`, with `settings` above it."""

    def __init__(
        self, cluster: YarnCluster, config: Mapping[str, str], settings: Mapping[str, str]
    ) -> None:
        self._cluster = cluster
        self.directory = cluster.directory / "job"
        self.config = {**config, **self._own_settings(), **settings}

    def submit(self) -> str:
        """Submit the job as its user would, and return the application's id.

        Raises `ActionFailed` with the end of Samza's output.
        """
        package = self.directory / "package"
        self.write_scripts(package)
        with tarfile.open(self.directory / "package.tgz", "w:gz") as archive:
            archive.add(package, arcname=".")
        properties = self.directory / "job.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.config.items()))
        loader = "org.apache.samza.config.loaders.PropertiesConfigLoaderFactory"
        settings = {
            "job.config.loader.factory": loader,
            "job.config.loader.properties.path": str(properties),
            **{key: self.config[key] for key in ("job.factory.class", "yarn.package.path", "task.class", "job.name")},
        }  # fmt: skip
        command = [
            *(str(package / "bin" / "run-app.sh"), "--operation=run"),
            *(f"--config={key}={value}" for key, value in settings.items()),
        ]
        # For commands that are inside already, as by `sandbox exec`.
        self._cluster.program(
            "run-app.sh", (*self._java(f"-Xmx192m {_HEAPS}", _SUBMIT), *command[1:])
        )
        self._cluster.program("yarn", self._java(f"-Xmx96m {_HEAPS}", _APPLICATION_CLI))
        log = self.directory / "submission.log"
        with log.open("wb") as output:
            done = subprocess.run(
                command,
                stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                timeout=_SUBMIT_S, check=False,
            )  # fmt: skip
        application = self._cluster.state().application
        if done.returncode != 0 or application is None or application.has_ended:
            tail = log.read_text(errors="replace")[-1500:]
            raise ActionFailed(f"submit {demo_job.JOB_NAME} to YARN", seen=tail, fix=f"see {log}")
        return application.id

    def _own_settings(self) -> dict[str, str]:
        package = self.directory / "package.tgz"
        return {
            "job.factory.class": "org.apache.samza.job.yarn.YarnJobFactory",
            "yarn.package.path": f"file://{package}",
            "yarn.am.opts": f"-Xmx256m {_HEAPS}",
            "yarn.am.container.memory.mb": "384",
            "task.opts": f"-Xmx96m {_HEAPS}",
            "cluster-manager.container.retry.count": "8",
            "metrics.reporter.snapshot.interval": "60",
        }

    def _java(self, options: str, main_class: str) -> tuple[str, ...]:
        jars = (*jar_paths("samza"), *jar_paths("samza-yarn"))
        return (
            str(find_java().program), *options.split(), *JVM_OPTIONS, *_LOGS,
            f"-Djdk.net.hosts.file={self._cluster.hosts_file}",
            "-cp", ":".join((str(self._cluster.configuration), *map(str, jars))), main_class,
        )  # fmt: skip

    def write_scripts(self, package: Path) -> None:
        """Write the `bin` of an unpacked package; the jars stay where they are on this machine.

        `run-app.sh` submits from outside of the cluster's network namespace.
        """
        scripts = package / "bin"
        scripts.mkdir(parents=True, exist_ok=True)
        submit = shlex.join(
            self._cluster.namespace.command(self._java(f"-Xmx192m {_HEAPS}", _SUBMIT))
        )
        (scripts / "run-app.sh").write_text(f'#!/bin/sh\nexec {submit} "$@"\n')
        (scripts / "run-app.sh").chmod(0o755)
        run = " ".join(f"'{word}'" for word in self._java("OPTIONS", "")[:-1])
        java = run.replace("'OPTIONS'", "$JAVA_OPTS")
        for name, main_class in (
            ("run-class.sh", '"$@"'),
            ("run-jc.sh", f'{_RUN_JC} "$@"'),
            ("run-container.sh", f'{MAIN_CLASS} "$@"'),
        ):
            script = scripts / name
            script.write_text(
                "#!/bin/sh\n"
                f'export LOGGED_STORE_BASE_DIR="${NODE_DIRECTORY}/state"\n'
                'mkdir -p "$LOGGED_STORE_BASE_DIR"\n'
                f"exec {java} {main_class}\n"
            )
            script.chmod(0o755)
