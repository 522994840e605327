"""The job with its lags and its hosts' last words, from one reading of its metadata."""

from __future__ import annotations

import http.client
import json
import urllib.request
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

from samza_dagster.client.access import JobAccess
from samza_dagster.client.observations import read_input_lag, read_lag
from samza_dagster.client.views import JobView, LeaderView, Look
from samza_dagster.errors import Unreachable
from samza_dagster.model.numbers import long_or_none

PAGE = "/hosts"
_MOST_BYTES = 1_000_000


def read_look(job: JobAccess, view: JobView) -> Look:
    """Read lags and agents' last contact for this view; see `PlacementClient.look`."""
    look = Look(view, host_words=read_host_words(view.leader))
    if job.topics is None:
        return look
    unread: list[str] = []
    try:
        lags, _ = read_lag(view, job.reader(), job.topics)
        look = replace(look, lags=job.seen.bounded(lags))
    except Unreachable as error:
        unread.append(error.seen)
    try:
        look = replace(look, input_lags=read_input_lag(view, job.topics))
    except Unreachable as error:
        unread.append(error.seen)
    return replace(look, unread="; ".join(dict.fromkeys(unread)) or None)


def read_host_words(leader: LeaderView | None, *, timeout_s: float = 1.0) -> dict[str, int]:
    """Host → ms since its agent's last word; empty when the leader's page can't be had.

    Nothing is decided by its absence: a coordinator may listen where this isn't.
    """
    if leader is None or leader.ended or urlsplit(leader.url).scheme not in ("http", "https"):
        return {}
    try:
        opened = urllib.request.urlopen(f"{leader.url.rstrip('/')}{PAGE}", timeout=timeout_s)  # noqa: S310 - the scheme was looked at
        with opened as answer:
            return host_words(json.loads(answer.read(_MOST_BYTES)))
    # A foreign process may answer there.
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        return {}


def host_words(document: object) -> dict[str, int]:
    """Parse the page's content; absent or odd values are left out."""
    hosts: object = (
        cast("dict[str, Any]", document).get("hosts") if isinstance(document, dict) else None
    )
    if not isinstance(hosts, dict):
        return {}
    found: dict[str, int] = {}
    for host, of_host in cast("dict[str, Any]", hosts).items():
        silent: object = (
            cast("dict[str, Any]", of_host).get("silent_ms") if isinstance(of_host, dict) else None
        )
        silent_ms = long_or_none(silent)
        if silent_ms is not None:
            found[host] = silent_ms
    return found
