"""Stores of a job's metadata: Samza's coordinator stream, our state topic, ZooKeeper."""

from samza_dagster.metadata.connection import Connection
from samza_dagster.metadata.coordinator_stream import Author, StreamRecord
from samza_dagster.metadata.interface import Change, MetadataStore, Watch
from samza_dagster.metadata.job_metadata import JobMetadata, job_model_records
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.metadata.kafka_store import KafkaMetadataStore
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.metadata.state_topic import Snapshot, StateReader, StateRecord
from samza_dagster.metadata.state_writer import StateWriter
from samza_dagster.metadata.topics import COMPACTED, ensure_topic, retained

__all__ = [
    "COMPACTED",
    "Author",
    "Change",
    "Connection",
    "ContainerPlacementMetadataStore",
    "JobMetadata",
    "KafkaCluster",
    "KafkaMetadataStore",
    "MetadataStore",
    "Snapshot",
    "StateReader",
    "StateRecord",
    "StateWriter",
    "StreamRecord",
    "Watch",
    "ensure_topic",
    "job_model_records",
    "retained",
]
