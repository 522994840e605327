"""Importing the room costs no Kafka client."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit


def test_the_kafka_client_is_not_imported_before_it_is_used() -> None:
    """Its load time would be start latency of every Dagster run."""
    code = (
        "import sys; import samza_dagster.metadata as m; [getattr(m, n) for n in m.__all__]; "
        "m.KafkaMetadataStore('h:1', 't'); m.StateWriter('h:1', 't', 'x'); "
        "print('confluent_kafka' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
