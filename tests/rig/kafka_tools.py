"""Does what a command line of Kafka's tools does, by the admin API: no JVM is started.

Of the tools' options only those of the command lines that the product tells; any other one, or one that
lacks, fails as the tool would.
"""

from __future__ import annotations

import argparse
import json
import shlex
from typing import Any

from confluent_kafka.admin import (  # noqa: TID253 - the outside judge
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from samza_dagster.metadata.kafka_client import KafkaCluster
from tests.rig.reassignment import reassign


def run(command: str) -> None:
    """A command line as a shell would run it; returns when its effect is there."""
    words = shlex.split(command)
    files: dict[str, str] = {}
    if words[0] == "echo":
        _, text, into, file, and_then, *words = words
        assert (into, and_then) == (">", "&&")
        files[file] = text
    tool, *options = words
    _TOOLS[tool](options, files)


def _reassign_partitions(options: list[str], files: dict[str, str]) -> None:
    parser = _parser("bootstrap-server", "reassignment-json-file")
    parser.add_argument("--execute", action="store_true", required=True)
    given = parser.parse_args(options)
    plan = json.loads(files[given.reassignment_json_file])
    assert plan["version"] == 1
    wanted: dict[str, dict[int, list[int]]] = {}
    for each in plan["partitions"]:
        wanted.setdefault(each["topic"], {})[each["partition"]] = each["replicas"]
    for topic, partitions in wanted.items():
        reassign(given.bootstrap_server, topic, partitions)


def _configs(options: list[str], files: dict[str, str]) -> None:
    parser = _parser("bootstrap-server", "entity-type", "entity-name", "add-config")
    parser.add_argument("--alter", action="store_true", required=True)
    given = parser.parse_args(options)
    assert (given.entity_type, files) == ("topics", {})
    key, _, value = given.add_config.partition("=")
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, given.entity_name, incremental_configs=[entry])
    with KafkaCluster(given.bootstrap_server).admin() as admin:
        untyped: Any = admin
        for future in untyped.incremental_alter_configs([resource]).values():
            future.result(timeout=30)


def _parser(*names: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for name in names:
        parser.add_argument(f"--{name}", required=True)
    return parser


_TOOLS = {
    "kafka-reassign-partitions.sh": _reassign_partitions,
    "kafka-configs.sh": _configs,
}
