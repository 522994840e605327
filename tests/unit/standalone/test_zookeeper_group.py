"""A group as it lies in a virtual ZooKeeper, whose followers are behind and whose nodes somebody changes by hand."""

from __future__ import annotations

import pytest
from members import model

from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.metadata.zookeeper_store import segments_of
from samza_dagster.standalone.commands import EndBarrier, JoinBarrier, Publish
from samza_dagster.standalone.group import BarrierState, LocalStores
from samza_dagster.standalone.zookeeper_group import ZooKeeperGroup
from samza_dagster.standalone.zookeeper_placement import placement_store
from tests.simulation.standalone_process import PATHS
from tests.simulation.standalone_server import Server, Session

pytestmark = pytest.mark.unit


class _Behind:
    """A follower that hears of nothing by itself."""

    def before(self) -> None:
        """The call is carried out."""

    def after_write(self) -> None:
        """Its answer arrives."""

    def seen(self, seen: int, newest: int) -> int:
        """What it has shown before."""
        del newest
        return seen


def _group(server: Server) -> ZooKeeperGroup:
    session = Session(server, _Behind())
    made = ZooKeeperGroup(session, PATHS, lambda: None)  # pyright: ignore[reportArgumentType]
    made.prepare()
    return made


def _agreed(group: ZooKeeperGroup, version: int, **tasks: str) -> None:
    """That version, which a member of it publishes."""
    group.publish(Publish(version, model(**tasks), group.view(None).revision))
    for processor_id in tasks:
        group.join(JoinBarrier(version), processor_id)
    group.end_barrier(EndBarrier(version, BarrierState.DONE))


def test_a_reading_has_all_that_was_written_before_it() -> None:
    """Whatever the follower has shown before; so has the list of those whom the brokers let in."""
    server = Server(30_000, lambda: 0)
    first, second = _group(server), _group(server)
    sequence = first.register("a", "h0", LocalStores())
    assert [each.processor_id for each in first.view(sequence).members] == ["a"]
    second.register("b", "h1", LocalStores())
    assert len(first.registered()) == 2
    third = _group(server)
    third.register("c", "h2", LocalStores())
    assert [each.processor_id for each in first.view(sequence).members] == ["a", "b", "c"]


def test_a_registration_whose_answer_was_lost_is_taken_up() -> None:
    """It is found by its session, also by a follower that hasn't heard of it."""
    group = _group(Server(30_000, lambda: 0))
    sequence = group.register("a", "h0", LocalStores())
    assert group.register("a", "h0", LocalStores()) == sequence


def test_no_number_of_a_version_is_used_twice_though_its_nodes_are_gone() -> None:
    """Whoever has read the version of before would take the new one for it: the agreed version, or the version's own
    node, says which there was."""
    server = Server(30_000, lambda: 0)
    group = _group(server)
    sequence = group.register("a", "h0", LocalStores())
    _agreed(group, 1, a="1")
    _agreed(group, 2, a="1 2")
    for path in (f"{PATHS.models}/2", f"{PATHS.barriers}/barrier_2", PATHS.agreed_version):
        server.delete_all(path)
        seen = group.view(sequence)
        assert seen.highest == 2
    assert seen.version == 1


def test_who_leads_goes_by_the_newest_older_version_that_can_be_read() -> None:
    """Also where it has read others before, which somebody has overwritten since."""
    server = Server(30_000, lambda: 0)
    group = _group(server)
    sequence = group.register("a", "h0", LocalStores())
    for version in (1, 2, 3):
        _agreed(group, version, a=f"{version}")
    assert len(group.view(sequence).history) == 2
    _agreed(group, 4, a="4")
    server.delete_all(f"{PATHS.models}/4")
    seen = group.view(sequence)
    assert seen.before is not None
    assert list(seen.before.containers["a"].tasks) == ["3"]
    assert [list(each) for each in seen.history] == [["3"], ["2"], ["1"]]
    (garbage,) = segments_of(b"garbage")
    for version in (2, 3):
        server.set(f"{PATHS.models}/{version}/0", garbage, -1, 0)
    later = ZooKeeperGroup(Session(server), PATHS, lambda: None)  # pyright: ignore[reportArgumentType]
    for reader in (group, later):
        before = reader.view(sequence).before
        assert before is not None
        assert list(before.containers["a"].tasks) == ["1"]


def test_requests_are_read_in_the_order_in_which_they_were_made() -> None:
    """Whatever their ids are: of two for one task the later one is the last to be carried out."""
    server = Server(30_000, lambda: 0)
    group = _group(server)
    sequence = group.register("a", "h0", LocalStores())
    store = ContainerPlacementMetadataStore(placement_store(Session(server), PATHS))  # pyright: ignore[reportArgumentType]
    for at_ms, digit in enumerate("937"):
        uuid = f"00000000-0000-0000-0000-00000000000{digit}"
        store.write_request("standalone", "1", f"h{digit}", timestamp_ms=at_ms, uuid=uuid)
    assert [each.destination_host for each in group.view(sequence).requests] == ["h9", "h3", "h7"]
