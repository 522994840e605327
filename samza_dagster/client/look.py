"""The job with its lags and its hosts' last words, from one reading of its metadata."""

from __future__ import annotations

from dataclasses import replace

from samza_dagster.client.access import JobAccess
from samza_dagster.client.host_words import read_host_words
from samza_dagster.client.observations import read_input_lag, read_lag
from samza_dagster.client.views import JobView, Look
from samza_dagster.errors import Unreachable


def read_look(job: JobAccess, view: JobView) -> Look:
    """What is known of `view` beside it; see `PlacementClient.look`."""
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
