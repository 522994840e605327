"""Does what a command line of Kafka's tools does, by the admin API: no JVM is started.

Of the tools' options only those of the command lines that the product tells; any other one, or one that
lacks, fails as the tool would.
"""

from __future__ import annotations

import argparse
import json
import shlex

from tests.rig.broker_cluster import set_config
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
    set_config(given.bootstrap_server, given.entity_name, key, value)


def _parser(*names: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for name in names:
        parser.add_argument(f"--{name}", required=True)
    return parser


_TOOLS = {
    "kafka-reassign-partitions.sh": _reassign_partitions,
    "kafka-configs.sh": _configs,
}
