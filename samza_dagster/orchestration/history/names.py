"""Names of what is recorded of a job's placement."""

from __future__ import annotations

import dagster as dg

HISTORY = "placement_history"
KEY = dg.AssetKey(HISTORY)
BOUNCES = "bounce_history"
GROUP = "samza"
"""Of assets."""
