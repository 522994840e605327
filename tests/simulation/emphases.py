"""What histories are rich in: faults, requests, deployments. A seed's emphasis is its turn in line."""

from __future__ import annotations

from samza_dagster.model import naming
from samza_dagster.model.own_requests import RequestKind
from tests.simulation.coverage import ROWS

DESTINATIONS = (
    naming.ANY_HOST,
    naming.ANY_HOST,
    naming.LAST_SEEN,
    naming.FORCE_RESTART_LAST_SEEN,
    naming.STANDBY,
    naming.STANDBY,
)
KINDS = (
    *((RequestKind.PLACE,) * 10),
    *((RequestKind.FAIL_OVER,) * 2),
    *((RequestKind.START_STANDBY,) * 2),
    *((RequestKind.STOP_STANDBY,) * 2),
    *((RequestKind.COMMIT,) * 3),
    RequestKind.RELEASE,
    *((RequestKind.CANCEL,) * 2),
)
SWAPS = (
    RequestKind.PLACE,
    RequestKind.FAIL_OVER,
    RequestKind.START_STANDBY,
    RequestKind.STOP_STANDBY,
)
EMPHASES: dict[str, tuple[str, ...]] = {
    "plain": (),
    "plain too": (),
    "crashes": ("crash", "zombie", "metastore away"),
    "deaths": ("death", "failing start"),
    "silences": ("lost host", "partition"),
    "stubborn": ("stop fails", "slow stop", "no check-in"),
    "deploys": (),
    "holds": ("expired reservation", "lost host", "agent restart", "crash"),
    "standbys": ("death", "stop fails", "lost host"),
    "moves": ("crash", "agent restart", "lost host", "expired reservation", "death"),
    "stops": ("stop fails", "crash", "failing start", "lost host"),
}
"""What a history is rich in, with the faults that half of its faults are."""

EAGER = {"deploys": 2.0, "moves": 2.0, "stops": 2.0}
"""How much likelier a client event is while none is unread; faults wait until one is acted on."""

DEPLOYS = {"deploys": 0.4, "moves": 0.132, "stops": 0.132}
"""Below which of the lots for a client event it is a deployment."""

RESTARTS = 0.02
"""How much of the lots for a client event it is a restart with other settings of the coordinator's own."""
OTHERS = 0.25
"""How many of those that take over were started with other settings of their own."""

CUTS = (0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 8, 11, 15, 20)
"""After how many effects a crash or a pause comes: small steps are many, large ones a host's loss or a take-over."""

SCARCE_ROW, SCARCE_COLUMNS = "action reserving-standby", ("late grant", "duplicate", "delay")
SCARCE = 0.06
"""How many of the faults that meet this row are of these columns, which seldom can meet it."""

GROUPINGS = ("", "", "", "", "other tasks in each group", "yet other tasks in each group")
"""Which tasks the groups of a deployment have, as a lot: mostly the same ones."""

ACTS = frozenset(row for row in ROWS if row.startswith("action") and "fallback" not in row)

KINDS_OF = {
    "standbys": SWAPS,
    "holds": (*((RequestKind.PLACE,) * 6), RequestKind.COMMIT, RequestKind.CANCEL),
    "deploys": (*KINDS, *((RequestKind.START_STANDBY,) * 8)),
    "moves": (
        *((RequestKind.PLACE,) * 6),
        *((RequestKind.START_STANDBY,) * 3),
        RequestKind.STOP_STANDBY,
    ),
    "silences": (
        *((RequestKind.FAIL_OVER,) * 6),
        *((RequestKind.PLACE,) * 4),
        *SWAPS,
        RequestKind.CANCEL,
    ),
    "stops": (*SWAPS, RequestKind.STOP_STANDBY, RequestKind.START_STANDBY),
}
AN_HOUR_MS = 3_600_000
EXPIRIES = (*((None, None, None, None, None, AN_HOUR_MS, 20_000, AN_HOUR_MS, 1, 1) * 4), 2**63 - 1)
HOLDS = (60_000, AN_HOUR_MS, None, None)
"""How long requests give their reservation; holds are rich in those that last."""
REFUSALS = 0.06
"""How many of the requests come in a form that their reader refuses, at first or ever."""
AGAIN = 0.5
"""How many requests have the uuid of such a one, while one is there that hasn't come again."""
ABOUT = (RequestKind.COMMIT, RequestKind.RELEASE, RequestKind.CANCEL)
