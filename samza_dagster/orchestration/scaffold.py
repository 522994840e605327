"""The files that `dg scaffold defs samza_dagster.SamzaJobComponent` writes."""

# No `from __future__ import annotations`: Dagster reads the parameters' annotations as types.

import json
import re

import dagster as dg
from pydantic import BaseModel, Field

from samza_dagster.errors import InvalidInput

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+")
_TEMPLATE = """\
type: {type}

attributes:
  # From the environment, so that the same file serves every cluster.
  bootstrap_servers: {servers}
  app_name: {name}
  app_id: {id}
  # Goes before the names of jobs, sensors and schedules, and is the first part of asset keys.
  prefix: {prefix}
  # librdkafka settings; for each secret the environment variable that holds it:
  client_config: {{}}  # {{security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512, sasl.username: dagster}}
  client_config_env: {{}}  # {{sasl.password: KAFKA_PASSWORD}}
  # The only hosts that a job sends a standby to; any without it:
  # hosts: [host-1, host-2]
  # Under Samza's own Application Master, where YARN is:
  # yarn_resource_manager: http://resource-manager:8088
  # shadow records, advise says what to run, act asks itself; without it shadow under Samza's own
  # AM, else advise:
  # auto_failover: {{mode: advise}}
  lag_slo:
    objectives:
      - {{records: 10000, seconds: 60}}
  # Rolling bounces by the clock:
  # bounces:
  #   - {{name: sunday, cron: "0 4 * * 0", timezone: Europe/Berlin, running: false}}
"""


class JobParams(BaseModel):
    """The Samza job's name and cluster, by its own configuration."""

    app_name: str = Field(description="app.name (job.name) of the Samza job", min_length=1)
    app_id: str = Field(default="1", description="app.id (job.id)", min_length=1)
    bootstrap_servers: str = Field(
        default="{{ env('SAMZA_DAGSTER_BOOTSTRAP_SERVERS') }}",
        description="the cluster of the job's coordinator stream, host:port",
    )
    prefix: str | None = Field(
        default=None, description="of its Dagster names; the folder's name without one"
    )


class SamzaJobScaffolder(dg.Scaffolder[JobParams]):
    """Writes a `defs.yaml` that loads as it is, with the usual choices beside it as comments."""

    @classmethod
    def get_scaffold_params(cls) -> type[JobParams]:
        """The options of the command."""
        return JobParams

    def scaffold(self, request: dg.ScaffoldRequest[JobParams]) -> None:
        """Raises `InvalidInput` for Python instead of YAML: the jobs are in what YAML resolves to."""
        if request.scaffold_format != "yaml":
            raise InvalidInput(
                "scaffold a Samza job",
                seen=f"format {request.scaffold_format}",
                fix="--format yaml",
            )
        params = request.params
        folder = request.target_path.parent if request.append else request.target_path
        prefix = params.prefix if params.prefix is not None else _as_prefix(folder.name)
        text = _TEMPLATE.format(
            type=request.type_name,
            servers=json.dumps(params.bootstrap_servers),
            name=json.dumps(params.app_name),
            id=json.dumps(params.app_id),
            prefix=json.dumps(prefix),
        )
        if request.append:
            with request.target_path.open("a", encoding="utf-8") as file:
                file.write(f"---\n{text}")
        else:
            (request.target_path / "defs.yaml").write_text(text, encoding="utf-8")


def _as_prefix(folder: str) -> str:
    """A folder's name as far as Dagster's names can have it."""
    name = _NOT_IN_NAMES.sub("_", folder).strip("_")[:40]
    return name if name[:1].isalpha() else ""
