"""A client that is kept between calls: when it is made, given up and ended."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from samza_dagster.metadata.kept_client import KeptClient

pytestmark = pytest.mark.unit


@dataclass
class Clients:
    """Numbers for clients; `made` and `ended` tell which, in order."""

    made: list[int] = field(default_factory=list[int])
    ended: list[int] = field(default_factory=list[int])
    broken: bool = False

    def make(self) -> int:
        if self.broken:
            raise ValueError("no client")
        self.made.append(len(self.made))
        return self.made[-1]

    def kept(self) -> KeptClient[int]:
        return KeptClient(self.make, self.ended.append)


def used(kept: KeptClient[int]) -> int:
    with kept.use() as client:
        return client


def fail(kept: KeptClient[int], error: type[BaseException] = LookupError) -> None:
    with pytest.raises(error), kept.use():
        raise error


def test_one_that_is_given_up_lives_until_its_last_user_has_left() -> None:
    """Others may wait for its answer; who comes meanwhile gets the new one."""
    clients = Clients()
    kept = clients.kept()
    with kept.use() as mine:
        fail(kept)
        assert clients.ended == []
        assert (mine, used(kept)) == (0, 1)
        assert clients.ended == []
    assert clients.ended == [0]
    assert used(kept) == 1


def test_one_that_fails_two_users_is_ended_once() -> None:
    """The second failure doesn't take the new client with it."""
    clients = Clients()
    kept = clients.kept()

    def failed_twice() -> None:
        with kept.use():
            fail(kept)
            assert used(kept) == 1
            raise LookupError

    with pytest.raises(LookupError):
        failed_twice()
    assert clients.ended == [0]
    assert used(kept) == 1


def test_a_close_while_it_is_used_ends_it_when_its_user_has_left() -> None:
    """Once, however it leaves."""
    clients = Clients()
    kept = clients.kept()

    def closed_and_failed() -> None:
        with kept.use():
            kept.close()
            assert clients.ended == []
            raise LookupError

    with pytest.raises(LookupError):
        closed_and_failed()
    assert clients.ended == [0]
    kept.close()
    assert clients.ended == [0]


def test_a_client_that_cannot_be_made_leaves_nothing() -> None:
    """Nothing to end, and nothing that the next use would get."""
    clients = Clients(broken=True)
    kept = clients.kept()
    with pytest.raises(ValueError, match="no client"):
        used(kept)
    kept.close()
    assert clients.ended == []
    clients.broken = False
    assert used(kept) == 0
