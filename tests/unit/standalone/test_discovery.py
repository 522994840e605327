"""Which groups are in a virtual ZooKeeper, for who looks on."""

from __future__ import annotations

import pytest

from samza_dagster.errors import InvalidInput
from samza_dagster.standalone.discovery import find_group, known_groups
from samza_dagster.standalone.layout import GroupPaths
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from tests.simulation.standalone_server import Server, Session

pytestmark = pytest.mark.unit

OWN = {"job.name": "orders-eu", "job.id": "7"}
BY_SHOP = OWN | {"app.name": "shop"}
BY_BANK = OWN | {"app.name": "bank"}
OTHER = {"job.name": "orders", "job.id": "7"}


def _session(*groups: dict[str, str]) -> Session:
    """These groups, and nodes of strangers beside them."""
    session = Session(Server(30_000, lambda: 0))
    for config in groups:
        made = ZooKeeperGroup(session, GroupPaths.of(config), lambda: None)  # pyright: ignore[reportArgumentType]
        made.prepare()
    for stranger in ("/zookeeper", "/app-empty", "/app-odd", "/app-odd/orders-eu-7-1.0", "/x"):
        session.create(stranger, None)
    session.create("/x/orders-eu-7-2.0-coordinationData", None)
    return session


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        ((OWN,), OWN),
        ((BY_SHOP, OTHER), BY_SHOP),
        ((BY_SHOP, OWN, BY_BANK), OWN),
    ],
    ids=["without an application", "by another application's name", "its own before others"],
)
def test_a_group_is_found_by_its_job(
    groups: tuple[dict[str, str], ...], found: dict[str, str]
) -> None:
    """Whatever its application is called: a request needn't name that."""
    session = _session(*groups)
    assert find_group(session, "orders-eu", "7").root == GroupPaths.of(found).root  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("groups", "seen"),
    [
        ((OTHER,), "no /app-…/orders-eu-7-2.0-coordinationData"),
        (
            (BY_SHOP, BY_BANK),
            f"{GroupPaths.of(BY_BANK).root}, {GroupPaths.of(BY_SHOP).root}",
        ),
    ],
    ids=["none", "two"],
)
def test_a_job_without_a_group_of_its_own_is_refused(
    groups: tuple[dict[str, str], ...], seen: str
) -> None:
    """None is guessed; those that there are, are named."""
    with pytest.raises(InvalidInput) as refused:
        find_group(_session(*groups), "orders-eu", "7")  # pyright: ignore[reportArgumentType]
    assert refused.value.seen.startswith(seen)


def test_the_jobs_that_have_a_group_are_known_once_each_by_name() -> None:
    """A job's name may have a `-`, its id none; what isn't a group is none."""
    session = _session(BY_SHOP, BY_BANK, OTHER)
    assert known_groups(session) == ["orders-eu/7", "orders/7"]  # pyright: ignore[reportArgumentType]
