"""`status --watch`: on a terminal one page that changes, into a pipe one view after the other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samza_dagster.cli import watching
from samza_dagster.errors import Unreachable
from samza_dagster.model import StatusCode

pytestmark = pytest.mark.unit


class Looks:
    """Ends a watch by Ctrl-C after so many looks; `between` is what happens before the next one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 3
        self.waited: list[float] = []
        self.between: Any = None
        monkeypatch.setattr(watching.time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        if self.between is not None:
            self.between()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


def test_into_a_pipe_each_look_is_a_view_of_its_own(commands: Any, looks: Looks) -> None:
    """And Ctrl-C ends it as it ends every command."""
    result = commands.run("status", "--watch", "--interval", "0.5")
    assert result.exit_code == 130
    assert result.stdout.count("Job j 1") == 3
    assert looks.waited == [0.5] * 3


def test_with_json_a_look_is_a_document(commands: Any, looks: Looks) -> None:
    decoder, text = json.JSONDecoder(), commands.run("status", "--watch", "--json").stdout
    for _ in range(3):
        document, end = decoder.raw_decode(text)
        assert document["job_name"] == "j"
        text = text[end:].lstrip()


def test_on_a_terminal_what_changes_takes_the_place_of_what_was(
    commands: Any, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notices are on the page, too: beside it they would break it."""
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    result = commands.run("status", "--watch")
    assert result.exit_code == 130
    assert "every 2 s; Ctrl-C ends it" in result.stdout
    assert "whether the job runs isn't known" in result.stdout
    assert "whether the job runs isn't known" not in result.stderr
    assert "\x1b[1A" in result.stdout, "the cursor goes up over the view before"


def test_a_request_is_watched_to_its_end(commands: Any, looks: Looks) -> None:
    commands.answers = [(StatusCode.SUCCEEDED, "done")]
    uuid = commands.json("place", "0", "--to", "host-2")["request"]["uuid"]
    result = commands.run("status", uuid, "--watch")
    assert (result.exit_code, looks.waited) == (0, [])
    assert "SUCCEEDED" in result.stdout


def test_a_broker_that_goes_away_doesnt_end_a_watch(
    commands: Any, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first look it does: an address may be wrong."""

    def away(*_: object) -> None:
        raise Unreachable("read the job", seen="no broker answers")

    def go_away() -> None:
        monkeypatch.setattr("samza_dagster.client.PlacementClient.known_view", away)

    looks.between = go_away
    result = commands.run("status", "--watch")
    assert result.exit_code == 130
    assert result.stderr.count("no broker answers") == 2
    assert commands.run("status", "--watch").exit_code == 4
