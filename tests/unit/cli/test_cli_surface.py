"""The command line's surface: names, help, usage errors, which job, and what isn't imported."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from docs.site.documents import DOCUMENTS, json_fields
from docs.site.documents import kinds as documented_kinds
from samza_dagster.cli.main import load
from samza_dagster.cli.place_container import joined, place_container
from samza_dagster.errors import MissingPrerequisite
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE

pytestmark = pytest.mark.unit

DOCUMENTED = [
    *("--deployment-id", "run-1"),
    *("--app-name", "j"),
    *("--app.id", "=", "1"),
    *("--processor-id", "0"),
    *("--request-expiry", "10"),
    *("--destination-host", "abc.prod.com"),
]


def test_bad_usage_is_exit_2_and_json_when_asked_for(commands: Any) -> None:
    """One document on stdout, so that a script never has to read a message."""
    document = commands.json("place", "0", code=2)
    assert document["error"] == "MissingParameter"
    assert "--to" in document["asked"]
    assert commands.json("status", "--nonsense", code=2)["fix"] == "samza-dagster status --help"
    assert "Usage:" in commands.run("place").stderr


def test_help_and_client_commands_import_nothing_heavy() -> None:
    """Start latency: Dagster alone costs seconds."""
    program = (
        "import sys\n"
        "from samza_dagster.cli.main import cli\n"
        "for name in ['place', 'status', 'explain', 'locality', 'lag', 'verify']:\n"
        "    cli.get_command(None, name)\n"
        "import samza_dagster.client, samza_dagster.cli.place_container\n"
        "heavy = {'dagster', 'pyspark', 'pandas', 'psutil'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_missing_extra_is_named() -> None:
    """Not a traceback: what to install."""
    with pytest.raises(MissingPrerequisite, match=r"samza_dagster\[sandbox\]"):
        load("no_such_module_here:command", "sandbox")


def test_place_container_prints_the_documented_line(commands: Any) -> None:
    """With the flags of the design document, its `--app.id = 1` included, and nothing else."""
    end = commands.store.end_position()
    result = commands.run(*joined(DOCUMENTED), command=place_container)
    assert result.exit_code == 0, result.stderr
    (written,) = commands.store.all(PLACEMENT_NAMESPACE).values()
    request = json.loads(written)
    assert result.stdout == f"Request received query the status using: {request['uuid']}\n"
    assert (request["destinationHost"], request["requestExpiry"]) == ("abc.prod.com", 10_000)
    assert commands.store.end_position() == end + 1
    assert (commands.targets[0].job_name, commands.targets[0].job_id) == ("j", "1")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"--processor-id": "7"}, "processors 0, 0-0, 1, 1-0"),
        ({"--deployment-id": "old"}, "run-1"),
        ({"--destination-host": "host-3"}, "0-0 is on host-3"),
        ({"--request-expiry": "-1"}, "0.001"),
    ],
)
def test_place_container_refuses_before_it_writes(
    commands: Any, change: dict[str, str], told: str
) -> None:
    """An unknown processor id would stop a real AM's placement thread."""
    arguments = joined(DOCUMENTED)
    for option, value in change.items():
        arguments[arguments.index(option) + 1] = value
    end = commands.store.end_position()
    result = commands.run(*arguments, command=place_container)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
    assert commands.store.end_position() == end


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--app.id", "=", "1"], ["--app.id=1"]),
        (["--app.id", "=1"], ["--app.id=1"]),
        (["--app.id=", "1"], ["--app.id=1"]),
        (["--app.id=1", "--x", "y"], ["--app.id=1", "--x", "y"]),
        (["--x", "y", "=", "z"], ["--x", "y", "=", "z"]),
        ([], []),
    ],
)
def test_an_equals_sign_may_stand_alone(given: list[str], expected: list[str]) -> None:
    """A shell splits `--app.id = 1` into three arguments."""
    assert joined(given) == expected


@pytest.mark.parametrize(
    ("described", "arguments"),
    [
        (
            "place, fail-over, commit, release, cancel, control-standby",
            "place 0 --to host-2 --no-wait",
        ),
        ("the same with --dry-run, explain", "place 0 --to host-2 --dry-run"),
        ("the same with --dry-run, explain", "explain 0"),
        ("status", "status"),
        ("status PROCESSOR", "status 0"),
        ("locality", "locality"),
        ("lag", "lag"),
        ("config show", "config show"),
        ("anything that fails", "status 7"),
    ],
)
def test_a_document_has_the_fields_that_its_page_names(
    commands: Any, described: str, arguments: str
) -> None:
    """Each of them and no other: scripts read them."""
    kinds = {kind.__name__: list(json_fields(kind)) for kind in documented_kinds()}
    named = (field.partition(":")[0] for field in DOCUMENTS[described].split(", "))
    fields = [each for name in named for each in kinds.get(name, [name])]
    printed = json.loads(commands.run(*arguments.split(), "--json").stdout)
    assert sorted(printed) == sorted(fields)
