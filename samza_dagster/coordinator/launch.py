"""The template of a container's command, filled per incarnation.

The template is a JSON file: `{"command": [...], "environment": {...}}`. Its
placeholders `{agent_dir}`, `{state_dir}`, `{work_dir}` and `{host}` are filled by the
agent, since only the host knows its own paths.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from samza_dagster.cluster.interface import ContainerLaunch
from samza_dagster.coordinator.extra_standbys import with_extras
from samza_dagster.coordinator.fencing.principals import Principals
from samza_dagster.errors import InvalidInput
from samza_dagster.model import ContainerModel, JobModel, TaskMode
from samza_dagster.model.changelogs import store_changelogs
from samza_dagster.model.naming import store_directory

_SHELLS = frozenset({"sh", "ash", "bash", "dash", "ksh", "zsh"})
_EXEC = re.compile(r"(?:^|[\s;&|({])exec\s")


class LaunchTemplate(BaseModel):
    """Command and environment of every container of a job, as literal arguments.

    The command is the JVM, or becomes it by `exec`: the kernel ends a dead warden's child
    alone, and a JVM that is a shell's child would survive the deaths of warden and agent.
    A shell's `-c` without an `exec` is refused; the contents of a script file aren't checked.

    Standbys run at `standby_niceness`, by `nice`: on a busy host an active that starts or
    catches up has precedence.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: tuple[str, ...] = Field(min_length=1)
    environment: dict[str, str] = Field(default_factory=dict)
    stop_grace_s: float = Field(default=20.0, gt=0, le=3600)
    standby_niceness: int = Field(default=0, ge=0, le=19)

    @field_validator("command")
    @classmethod
    def _has_no_shell_above_it(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        script = _shell_script(command)
        if script is not None and _EXEC.search(script) is None:
            raise ValueError(
                f"{command[0]} would stay the JVM's parent, and the JVM live on when the shell is "
                "killed: write exec before the program in its script, or the program as command"
            )
        return command

    @classmethod
    def read(cls, path: Path) -> LaunchTemplate:
        """Read the file. Raises `InvalidInput` that names the file and the field."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise InvalidInput(f"read the launch template {path}", seen=str(error)) from error
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]) or "(whole document)"
            raise InvalidInput(
                f"read the launch template {path}", seen=f"field {field}: {first['msg']}"
            ) from error

    def write(self, path: Path) -> None:
        """Write the file that `read` reads."""
        path.write_text(self.model_dump_json(indent=1))


def _shell_script(command: tuple[str, ...]) -> str | None:
    """Return the script that a shell runs by `-c`; None for any other command."""
    if Path(command[0]).name not in _SHELLS:
        return None
    for at, argument in enumerate(command[1:-1], 1):
        if not argument.startswith("-"):
            return None  # a script file
        if not argument.startswith("--") and "c" in argument:
            return command[at + 1]
    return None


@dataclass(frozen=True)
class Launcher:
    """A deployment's template, filled for one incarnation of one processor.

    With `principals` each logs in at the brokers as itself. Without `parked_starts` no
    process is launched before its start.
    """

    template: LaunchTemplate
    job_name: str
    job_id: str
    job_model: JobModel
    principals: Principals | None = None
    parked_starts: bool = True

    def with_extras(self, extras: frozenset[str]) -> Launcher:
        """Return the deployment's launcher with these standbys beside the planned ones."""
        return replace(self, job_model=with_extras(self.job_model, extras))

    def ahead(self, processor_id: str, execution_id: str) -> ContainerLaunch | None:
        """Return what an agent may launch before the start: the same without the JobModel."""
        return self._launch(processor_id, execution_id, "") if self.parked_starts else None

    def launch(self, processor_id: str, execution_id: str) -> ContainerLaunch | None:
        """Return all that an agent needs; None for a processor that the JobModel lacks.

        Samza reads the three ids from the environment (`ShellCommandConfig.ENV_CONTAINER_ID`,
        `ENV_EXECUTION_ENV_CONTAINER_ID`).
        """
        return self._launch(processor_id, execution_id, self.job_model.to_json())

    def _command(self, container: ContainerModel) -> tuple[str, ...]:
        template = self.template
        if template.standby_niceness == 0 or container.mode is TaskMode.ACTIVE:
            return template.command
        return ("nice", "-n", str(template.standby_niceness), *template.command)

    def _launch(
        self, processor_id: str, execution_id: str, job_model_json: str
    ) -> ContainerLaunch | None:
        container = self.job_model.containers.get(processor_id)
        if container is None:
            return None
        environment = {
            **self.template.environment,
            "SAMZA_CONTAINER_ID": processor_id,
            "EXECUTION_ENV_CONTAINER_ID": execution_id,
        }
        directories = tuple(
            sorted(
                store_directory(self.job_name, self.job_id, changelog.store, task)
                for changelog in store_changelogs(self.job_model.config)
                for task in container.tasks
            )
        )
        login = () if self.principals is None else (self.principals.login_file(execution_id),)
        return ContainerLaunch(
            execution_id=execution_id,
            processor_id=processor_id,
            command=self._command(container),
            environment=tuple(sorted(environment.items())),
            job_model_json=job_model_json,
            store_directories=directories,
            stop_grace_s=self.template.stop_grace_s,
            files=login,
        )
