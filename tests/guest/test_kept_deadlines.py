"""What the analysis calls schedulable keeps its deadlines on this machine, and more work than time does not.

The sets are at the edge of the verdict: under the worst overheads and the least supply that were measured just before,
with any larger costs the analysis would refuse them. Responses are held against their bounds, which says more than
deadlines do. This machine's own host takes its CPU now and then, for longer than in the short time before: what exceeds
a bound must be explained by what the kernel's trace shows of that very job (``kept_deadlines``), and the set has to run
again. `benchmarks/deadlines.py` is the long form.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from deadline_chain import Chain
from machines import needs_root

pytestmark = [pytest.mark.guest, needs_root]

SETS = 3
TRIES = 3
OBSERVE_S, RUN_S, OVER_S = 5, 3, 2


def test_sets_at_the_edge_keep_their_deadlines_and_one_of_more_than_the_cpu_does_not(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    chain = Chain(tmp_path)
    observed = chain.observe(OBSERVE_S)
    edges = chain.edge_sets(observed, SETS)
    tell(f"deadlines under {observed.text}")
    assert len(edges) == SETS, f"no set of a tenth of a CPU or more is schedulable under {observed.text}"
    for edge in edges:
        document = chain.verdict(observed, edge)
        assert document["verdict"] == "schedulable", document
    missed, released = chain.run_over(edges[0], OVER_S)
    tell(f"utilization 1.05: {missed} of {released} jobs missed")
    assert missed > 0
    for _ in range(TRIES):
        kept = chain.run_sets(observed, edges, RUN_S)
        for one in kept:
            tell(one.text)
            unexplained = [late.text for late in one.exceeded if late.unexplained_ns > 0]
            assert not unexplained, f"the analysis is too optimistic: {unexplained}"
        edges = [edge for edge, one in zip(edges, kept, strict=True) if one.exceeded or one.missed]
        if not edges:
            return
    raise AssertionError(f"{TRIES} times in a row this machine kept {[edge.name for edge in edges]} from their CPU")
