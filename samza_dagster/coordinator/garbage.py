"""Garbage collection of a coordinator's process: rarely of what lives as long as the job."""

from __future__ import annotations

import gc

# Young objects, young collections before a middle one, middle ones before a full one.
THRESHOLDS = 10_000, 20, 100


def spare_what_lasts() -> None:
    """Exclude a term's loaded state from garbage collection.

    A job's state is some hundred thousand small immutable objects without a cycle among
    them; a reference count frees what a step replaces at once. With Python's own
    thresholds (700, 10, 10) a tenth of the reducer's time went into walking over them to find
    nothing. What an earlier term left in cycles is collected first.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
