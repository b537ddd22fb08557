"""What the analysis calls schedulable keeps its deadlines on this machine, and more work than time does not.

The sets are at the edge of the verdict: under the worst overheads and the least supply that were measured just before,
with any larger costs the analysis would refuse them. Responses are held against their bounds, which says more than
deadlines do. A machine's own host may take its CPU for longer than in the short time before: what exceeds a bound must
be explained by what the kernel's trace shows of that very job (``kept_deadlines``), and is told.
`benchmarks/deadlines.py` is the long form.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from deadline_chain import Chain
from machines import needs_root

pytestmark = [pytest.mark.guest, pytest.mark.truth, needs_root]

SETS = 2
OBSERVE_S, RUN_S, OVER_S = 4, 3, 2


def test_sets_at_the_edge_keep_their_deadlines_and_one_of_more_than_the_cpu_does_not(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    chain = Chain(tmp_path)
    observed = chain.observe(OBSERVE_S)
    edges = chain.edge_sets(observed, SETS)
    tell(f"deadlines under {observed.text}")
    for edge in edges:
        document = chain.verdict(observed, edge)
        assert document["verdict"] == "schedulable", document
    ran = chain.run_sets(observed, edges, RUN_S, over_s=OVER_S)
    tell(f"utilization 1.05: {ran.over_missed} of {ran.over_released} jobs missed")
    assert ran.over_missed > 0
    for one in ran.kept:
        tell(one.text)
        unexplained = [late.text for late in one.exceeded if late.unexplained_ns > 0]
        assert not unexplained, f"the analysis is too optimistic: {unexplained}"
        # What exceeds its deadline exceeds its bound; a job that never began would have no row.
        assert one.missed <= len(one.exceeded), one
    assert not all(one.exceeded for one in ran.kept), "this machine kept no set from being disturbed: nothing was shown"
