"""Whether a replica has stopped applying although its process lives. Pure."""

from __future__ import annotations

from samza_dagster.lag.forecast import Applied


def stands_since(before: Applied | None, newest: Applied) -> Applied | None:
    """The first sample since which nothing was applied; None for one that has caught up.

    `before` is what this gave for the sample before.
    """
    if newest.behind == 0:
        return None
    if before is None or before.applied != newest.applied:
        return newest
    return before


def stalled_for_ms(since: Applied | None, newest: Applied) -> int:
    """How long it has applied nothing while its changelog grew; `since` of `stands_since`.

    A changelog that doesn't grow proves nothing: its last offsets may be transaction
    markers, which nobody ever applies.
    """
    if since is None or newest.end <= since.end:
        return 0
    return newest.at_ms - since.at_ms
