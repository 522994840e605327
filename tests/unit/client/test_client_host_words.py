"""The leader's page `/hosts`, and whatever else may answer in its place."""

from __future__ import annotations

import http.client
import io

import pytest

from samza_dagster.client.look import read_host_words
from samza_dagster.client.views import LeaderView

pytestmark = pytest.mark.unit
LEADER = LeaderView(1, "host-1", "http://host-1:8080/", 0, 0, ended=False)


class _CutOff(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise http.client.IncompleteRead(b"{")


def _raised(error: Exception) -> io.BytesIO:
    raise error


@pytest.mark.parametrize(
    "error",
    [
        http.client.BadStatusLine("SSH-2.0"),
        http.client.InvalidURL("nonnumeric port"),
        http.client.IncompleteRead(b""),
        ConnectionRefusedError(),
    ],
)
def test_a_foreign_process_on_the_leaders_port_is_a_page_that_cant_be_had(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """What speaks no HTTP there ends no look."""
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: _raised(error))  # pyright: ignore[reportUnknownLambdaType]
    assert read_host_words(LEADER) == {}


@pytest.mark.parametrize(
    "page", [b"[" * 50_000, b'{"hosts":{"h":{"silent_ms":1%s}}}' % (b"0" * 400)]
)
def test_a_page_that_nobody_can_compute_with_tells_nothing(
    monkeypatch: pytest.MonkeyPatch, page: bytes
) -> None:
    """Deeper than any stack, or a number that no float holds."""
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: io.BytesIO(page))  # pyright: ignore[reportUnknownLambdaType]
    assert read_host_words(LEADER) == {}


def test_a_page_that_is_cut_off_is_one_that_cant_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its head was well."""
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: _CutOff())  # pyright: ignore[reportUnknownLambdaType]
    assert read_host_words(LEADER) == {}
