"""Does what a command line of Kafka's tools does, by the admin API: no JVM is started.

Of the tools' options only those of the command lines that the product tells; any other one, or one that
lacks, fails as the tool would.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path

from confluent_kafka.admin import NewPartitions, NewTopic

from samza_dagster.metadata.kafka_client import KafkaCluster, end_producer
from tests.rig.broker_cluster import set_config
from tests.rig.reassignment import reassign

ROOT = Path(__file__).parents[2]


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
    set_config(given.bootstrap_server, given.entity_name, key, value)


def _topics(options: list[str], files: dict[str, str]) -> None:
    parser = _parser("bootstrap-server", "topic", "partitions")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--create", action="store_true")
    what.add_argument("--alter", action="store_true")
    parser.add_argument("--replication-factor", type=int, default=1)
    parser.add_argument("--config", action="append", default=[])
    given = parser.parse_args(options)
    assert files == {}
    with KafkaCluster(given.bootstrap_server).admin() as admin:
        if given.create:
            config = dict(each.split("=", 1) for each in given.config)
            new = NewTopic(
                given.topic, int(given.partitions), given.replication_factor, config=config
            )
            futures = admin.create_topics([new])
        else:
            futures = admin.create_partitions([NewPartitions(given.topic, int(given.partitions))])
        for future in futures.values():
            future.result(30)


def _console_producer(options: list[str], files: dict[str, str]) -> None:
    given = _parser("bootstrap-server", "topic").parse_args(options)
    assert files == {}
    producer = KafkaCluster(given.bootstrap_server).producer()
    for line in sys.stdin:
        producer.produce(given.topic, line.rstrip("\n"))
    assert producer.flush(30) == 0
    end_producer(producer)


def put_on_path(directory: Path) -> str:
    """Puts these tools into a directory for a shell; returns its `PATH` with them in front."""
    directory.mkdir(parents=True)
    for name in _TOOLS:
        script = directory / name
        script.write_text(
            f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m tests.rig.kafka_tools "$0" "$@"\n'
        )
        script.chmod(0o755)
    return f"{directory}:{Path(sys.executable).parent}:{os.environ['PATH']}"


def _parser(*names: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for name in names:
        parser.add_argument(f"--{name}", required=True)
    return parser


_TOOLS = {
    "kafka-reassign-partitions.sh": _reassign_partitions,
    "kafka-configs.sh": _configs,
    "kafka-topics.sh": _topics,
    "kafka-console-producer.sh": _console_producer,
}

if __name__ == "__main__":
    _TOOLS[Path(sys.argv[1]).name](sys.argv[2:], {})
