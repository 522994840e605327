"""What a container reads and writes at the brokers, as far as its job's config tells."""

from __future__ import annotations

import pytest

from samza_dagster.coordinator.fencing.container_topics import container_topics

pytestmark = pytest.mark.unit

READ, WRITE = frozenset({"READ"}), frozenset({"WRITE"})
BOTH = READ | WRITE
CONFIG = {"job.name": "j", "job.default.system": "kafka", "task.inputs": "kafka.in"}
ALWAYS = {"__samza_coordinator_j_1": BOTH, "in": READ}


def topics(systems: tuple[str, ...] = ("kafka",), **config: str) -> dict[str, frozenset[str]]:
    """Those of a job with these settings beside its least ones; `__` stands for a dot."""
    added = {key.replace("__", "."): value for key, value in config.items()}
    return container_topics({**CONFIG, **added}, systems)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, {}),
        ({"stores__s__changelog": "kafka.j-s"}, {"j-s": BOTH}),
        (
            {"task__checkpoint__factory": "x.KafkaCheckpointManagerFactory"},
            {"__samza_checkpoint_ver_1_for_j_1": BOTH},
        ),
        (
            {"metrics__reporters": "a, b", "metrics__reporter__a__stream": "kafka.m"},
            {"m": WRITE},
        ),
        ({"task__broadcast__inputs": "kafka.b#0, kafka.c#[0-3]"}, {"b": READ, "c": READ}),
        (
            {"stores__s__factory": "x", "stores__s__side__inputs": "kafka.d,e"},
            {"d": READ, "e": READ},
        ),
        (
            {"streams__o__samza__system": "kafka", "streams__o__samza__physical__name": "orders"},
            {"orders": WRITE},
        ),
        ({"streams__o__samza__key__serde": "json"}, {"o": WRITE}),
        ({"streams__o__samza__intermediate": "true"}, {"o": BOTH}),
        ({"streams__in__samza__bootstrap": "true"}, {}),
        (
            {"streams__f__samza__physical__name": "far", "stores__s__side__inputs": "f"},
            {"far": READ},
        ),
    ],
)
def test_every_topic_that_the_config_names_is_asked_for(
    config: dict[str, str], expected: dict[str, frozenset[str]]
) -> None:
    """A container that may not use one of them ends, or works without metrics."""
    assert topics(**config) == {**ALWAYS, **expected}


def test_what_is_at_other_brokers_is_left_to_them() -> None:
    """A fence's principals are unknown there."""
    elsewhere = {
        "metrics__reporters": "a",
        "metrics__reporter__a__stream": "far.m",
        "task__broadcast__inputs": "far.b#0",
        "stores__s__factory": "x",
        "stores__s__side__inputs": "far.d",
        "streams__o__samza__system": "far",
    }
    assert topics(**elsewhere) == ALWAYS
    assert set(topics(("far", "kafka"), **elsewhere)) == {*ALWAYS, "m", "b", "d", "o"}
