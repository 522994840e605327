"""The hosts file that gives a JVM its simulated host's name."""

from __future__ import annotations

import pytest

from samza_dagster.agent.hosts_file import lines, own_addresses

pytestmark = pytest.mark.unit

FIB = """Local:
  +-- 0.0.0.0/0 3 0 5
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 127.255.255.255
        /32 link BROADCAST
     |-- 10.1.2.3
        /32 host LOCAL
     |-- 169.254.7.7
        /32 host LOCAL
Main:
     |-- 10.1.2.3
        /32 host LOCAL
     |-- 10.1.2.0
        /24 link UNICAST
"""
INET6 = """00000000000000000000000000000001 01 80 10 80       lo
fe800000000000000000000000000001 02 40 20 80     eth0
fd000000000000000000000000000002 02 40 00 80     eth0
"""


def test_the_addresses_are_those_that_samza_may_take() -> None:
    """Neither loopback nor link-local, each once."""
    assert own_addresses(FIB, INET6) == ["10.1.2.3", "fd00::2"]
    assert own_addresses("", "") == []


def test_the_machine_is_loopback_and_every_other_address_the_reported_host() -> None:
    """The first line sends Samza's look-up on to the second."""
    assert lines("host-1", "box", ["10.1.2.3", "fd00::2"]) == [
        "127.0.0.1 localhost box",
        "10.1.2.3 host-1",
        "fd00::2 host-1",
    ]


def test_an_agent_that_has_the_machines_own_name_keeps_it_off_loopback() -> None:
    """Otherwise the name would have two addresses."""
    assert lines("box", "box", ["10.1.2.3"]) == ["127.0.0.1 localhost", "10.1.2.3 box"]
