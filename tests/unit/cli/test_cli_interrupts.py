"""What Ctrl-C is to a command: an exception that no client of Kafka loses."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import click
import pytest
from click.testing import CliRunner

from samza_dagster.cli.reporting import INTERRUPTED, Reporting

pytestmark = pytest.mark.unit

seen: list[Any] = []


@click.command(cls=Reporting)
def interrupted() -> None:
    seen.append(signal.getsignal(signal.SIGINT))
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def handler() -> Iterator[Callable[[Any], Any]]:
    before = signal.getsignal(signal.SIGINT)
    seen.clear()
    yield lambda value: signal.signal(signal.SIGINT, value)
    signal.signal(signal.SIGINT, before)


def test_pythons_own_handler_isnt_the_one_that_raises(handler: Callable[[Any], Any]) -> None:
    """Its exception has no value yet, and a callback of confluent_kafka loses such a one."""
    handler(signal.default_int_handler)
    assert CliRunner().invoke(interrupted).exit_code == INTERRUPTED
    assert seen != [signal.default_int_handler]


def test_what_a_shell_ignores_for_a_command_in_the_background_stays_ignored(
    handler: Callable[[Any], Any],
) -> None:
    handler(signal.SIG_IGN)
    assert CliRunner().invoke(interrupted).exit_code == 0
    assert seen == [signal.SIG_IGN]


def test_the_handler_of_whoever_calls_stays(handler: Callable[[Any], Any]) -> None:
    came: list[int] = []

    def own(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    handler(own)
    assert CliRunner().invoke(interrupted).exit_code == 0
    assert came == [signal.SIGINT]
