"""Runs a real coordinator under the names that the release before gave: `<name>-<id>`, joined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samza_dagster.coordinator import leadership
from samza_dagster.coordinator.command import run_command
from samza_dagster.metadata import state_writer
from samza_dagster.metadata.connection import Connection
from samza_dagster.model.naming import former_transactional_id

real_encode = state_writer.encode_record


def encode_record(key: str, value: Mapping[str, Any] | None) -> tuple[bytes, bytes | None]:
    """A mark doesn't say by which id it was made."""
    told = {k: v for k, v in (value or {}).items() if k != state_writer.TRANSACTIONAL_ID}
    return real_encode(key, None if value is None else told)


def former_id(*_: object, **__: object) -> None:
    """It knows one id alone."""


def own_name(connection: Connection) -> str:
    return f"{connection.job_name}-{connection.job_id}"


leadership.transactional_id = former_transactional_id
leadership.former_id = former_id
state_writer.encode_record = encode_record
Connection.own_name = property(own_name)  # type: ignore[method-assign,assignment]

if __name__ == "__main__":
    run_command()
