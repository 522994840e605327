"""What the component's YAML says of snapshots: when they are taken, where they are kept, by which Spark."""

# No `from __future__ import annotations`: Dagster reads these annotations as types.

from typing import Annotated, Any

import dagster as dg
from pydantic import Field

from samza_dagster.orchestration.bounds import Within

EVERY_5_MIN = "*/5 * * * *"
TIDY_CRON = "17 3 * * *"


class Snapshots(dg.Model, dg.Resolvable):
    """The component's `snapshots`: PySpark's look at all of its Samza jobs."""

    cron: str = Field(default=EVERY_5_MIN, description="When one is taken: a cron expression, UTC.")
    running: bool = Field(
        default=False,
        description="Whether the schedules are on when they are first deployed. A snapshot that has"
        " work for several workers is a Spark of its own on the machine of the code server, unless"
        " `master` is a cluster.",
    )
    keep_days: Annotated[float, Within(0.01, 3_650)] = Field(
        default=30, description="Days that snapshots stay in the tables."
    )
    fresh_within_min: Annotated[int, Within(1, 100_000)] = Field(
        default=20,
        description="Minutes after which an asset without a new snapshot is no longer fresh;"
        " where the schedule is on.",
    )
    uri: str = Field(
        default="",
        description="Where the Delta tables are: a directory, or an address that deltalake"
        " knows (file:, s3:, s3a:, hdfs:, abfs:, gs:). Empty: snapshots/ below DAGSTER_HOME.",
    )
    storage_options_env: dict[str, str] = Field(
        default={},
        description="deltalake's option for that place → environment variable that holds its value.",
    )
    master: str = Field(default="local[2]", description="Spark's master URL.")
    spark_config: dict[str, Any] = Field(
        default={}, description="Spark's own settings; they win over ours."
    )
