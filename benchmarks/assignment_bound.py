"""The best that any assignor could make of the actives, by a linear program that SciPy solves.

It is a min-cost flow: tasks that were on one processor, and may start on the same ones, flow from there
to processors, and each place more on a processor costs more. So its solution is in whole tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from scipy.optimize import linprog
from scipy.sparse import csr_array

PLACE = 1_000_000
"""What a place costs, in moves: evenness comes first."""


@dataclass
class _Flow:
    """Arcs between nodes; what flows into a node and isn't its supply flows out again."""

    supply: list[int] = field(default_factory=list[int])
    arcs: list[tuple[int, int, int, int | None]] = field(
        default_factory=list[tuple[int, int, int, int | None]]
    )

    def node(self, supply: int = 0) -> int:
        """A node, which adds so much."""
        self.supply.append(supply)
        return len(self.supply) - 1

    def arc(self, source: int, target: int, cost: int, most: int | None = None) -> None:
        """From node to node, `most` at most."""
        self.arcs.append((source, target, cost, most))

    def least_cost(self) -> int:
        """Of a flow that takes all of the supply to where it is negative."""
        sources, targets, costs, most = zip(*self.arcs, strict=True)
        columns = range(len(self.arcs))
        ends = csr_array(
            ([1] * len(costs) + [-1] * len(costs), ([*sources, *targets], [*columns, *columns])),
            shape=(len(self.supply), len(costs)),
        )
        bounds = [(0, each) for each in most]
        solved = linprog(costs, A_eq=ends, b_eq=self.supply, bounds=bounds, method="highs")
        assert solved.success, solved.message
        return round(solved.fun)


def best_actives(
    homes: Mapping[int, int | None],
    warm: Mapping[int, Collection[int]],
    processors: Sequence[int],
    most: int,
) -> tuple[int, int]:
    """The least sum of squared loads, and the fewest moves from home with which it can be had.

    `homes` is task → the processor that it was on, if that is there. A task in `warm` starts on one of
    those. No processor has more than `most`.
    """
    flow = _Flow()
    sink = flow.node(-len(homes))
    at = {each: flow.node() for each in processors}
    for node in at.values():
        for place in range(most):
            flow.arc(node, sink, PLACE * (2 * place + 1), 1)
    anywhere = flow.node()
    for node in at.values():
        flow.arc(anywhere, node, 0)
    alike = Counter(
        (home, frozenset(warm[task]) if task in warm else None) for task, home in homes.items()
    )
    for (home, only), count in alike.items():
        tasks = flow.node(count)
        moved = int(home is not None)
        if home is not None:
            flow.arc(tasks, at[home], 0)
        if only is None:
            flow.arc(tasks, anywhere, moved)
        for each in only or ():
            flow.arc(tasks, at[each], moved)
    return divmod(flow.least_cost(), PLACE)
