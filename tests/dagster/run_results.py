"""What a run in process says of one of its ops."""

from __future__ import annotations

from typing import Any

import dagster as dg


def failure(result: dg.ExecuteInProcessResult, op: str) -> tuple[str, dict[str, Any]]:
    data = result.failure_data_for_node(op)
    assert data is not None
    assert data.user_failure_data is not None, data.error
    metadata = {k: v.value for k, v in data.user_failure_data.metadata.items()}
    return str(data.user_failure_data.description), metadata


def was_cancelled(result: dg.ExecuteInProcessResult, op: str) -> bool:
    """Whether what ended the op is the interruption itself."""
    data = result.failure_data_for_node(op)
    assert data is not None
    assert data.error is not None
    return data.error.cls_name == "DagsterExecutionInterruptedError"


def output_metadata(result: dg.ExecuteInProcessResult, op: str) -> dict[str, Any]:
    (event,) = [e for e in result.events_for_node(op) if e.is_successful_output]
    return {k: v.value for k, v in event.step_output_data.metadata.items()}


def asks(result: dg.ExecuteInProcessResult, *ops: str) -> list[str]:
    """How each op describes its part: it asks or it observes."""
    return [output_metadata(result, op)["role"].partition(" ")[0].rstrip(":") for op in ops]
