"""A Ctrl-C that comes as a Kafka client begins or ends: confluent_kafka loses it there."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.rig.pace import PACE

pytestmark = pytest.mark.integration

# A process of its own: in the main thread alone signals become exceptions.
CHILD = """
import collections, contextlib, json, os, random, signal, sys, threading, time
from samza_dagster.interrupts import interrupts_raise
from samza_dagster.metadata.authorizer import Authorizer
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.sandbox import kafka_client
from samza_dagster.sandbox.load import Sender
from samza_dagster.sandbox.load_plan import LoadPlan

NOBODY = "127.0.0.1:9"
ROUNDS = 60
ENDS_WITHIN_S = 0.02

def authorizer():
    made = Authorizer(KafkaCluster(NOBODY))
    with made._kept.use():
        pass
    return contextlib.closing(made)

PLAN = LoadPlan.for_state(0.5, actives=1)
MADE = {
    "admin": lambda: kafka_client.admin(NOBODY),
    "consumer": lambda: kafka_client.consumer(NOBODY),
    "sender": lambda: contextlib.closing(Sender(NOBODY, PLAN)),
    "authorizer": authorizer,
}[sys.argv[1]]

chance = random.Random(7)
ending = threading.Event()

def interrupt(after_s):
    ending.wait()
    time.sleep(after_s)
    os.kill(os.getpid(), signal.SIGINT)

interrupts_raise(signal.SIGINT)
came = collections.Counter()
for _ in range(ROUNDS):
    ending.clear()
    other = threading.Thread(target=interrupt, args=(chance.random() * ENDS_WITHIN_S,))
    other.start()
    try:
        with MADE():
            ending.set()
        time.sleep(30)
        came["nothing"] += 1
    except BaseException as error:
        came[type(error).__name__] += 1
    other.join()
print(json.dumps(came))
"""


@pytest.mark.parametrize("client", ["admin", "consumer", "sender", "authorizer"])
def test_ctrl_c_as_a_client_ends_is_neither_lost_nor_a_system_error(client: str) -> None:
    """`sandbox up` went on after a Ctrl-C, or ended as if it had failed."""
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, client],
        capture_output=True,
        text=True,
        timeout=60 * PACE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {"KeyboardInterrupt": 60}


BEGUN = """
import json, signal, sys
from samza_dagster.interrupts import interrupts_raise
from samza_dagster.metadata.kafka_client import KafkaCluster
from samza_dagster.sandbox import kafka_client

class Name(str):
    def __str__(self):
        signal.raise_signal(signal.SIGINT)
        return "client"

NOBODY = "127.0.0.1:9"
OWN = {"client.id": Name()}
MAKE = {
    "sandbox's admin": lambda: kafka_client.admin(NOBODY, **OWN),
    "sandbox's consumer": lambda: kafka_client.consumer(NOBODY, OWN),
    "sandbox's producer": lambda: kafka_client.producer(NOBODY, OWN),
    "admin": lambda: KafkaCluster(NOBODY, OWN).admin(),
    "reader": lambda: KafkaCluster(NOBODY, OWN).reader(committed_only=True),
    "producer": lambda: KafkaCluster(NOBODY, OWN).producer(),
}
interrupts_raise(signal.SIGINT)
ended = {}
for name, make in MAKE.items():
    try:
        make()
        ended[name] = "nothing"
    except BaseException as error:
        ended[name] = type(error).__name__
print(json.dumps(ended))
"""


def test_ctrl_c_as_a_client_is_made_is_not_taken_for_a_wrong_setting() -> None:
    """`sandbox up` ended with 1 and a `TypeError`: a constructor that reads a setting's text."""
    ran = subprocess.run(
        [sys.executable, "-c", BEGUN],
        capture_output=True,
        text=True,
        timeout=60 * PACE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    ended = json.loads(ran.stdout)
    assert set(ended.values()) == {"KeyboardInterrupt"}, ended
