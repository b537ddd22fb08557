"""Which cell of a run stands for a published figure, where several fit."""

from datetime import UTC, datetime

import pytest
from call_cells import call_cells
from telephony_cells import GUEST, MS, cell_of, registrations

from stealtime.report.claims.comparison import compare_with_published
from stealtime.report.claims.library import find_published
from stealtime.report.claims.run_view import RunView
from stealtime.report.summary import RunSummary
from stealtime.studies.telephony.figures import TelephonyFigures

PLAIN = {"mode": "net", "interval_ns": 100 * MS, "streams": 10}


@pytest.mark.parametrize("turned", [False, True])
def test_the_usual_cell_stands_for_a_figure_that_does_not_name_what_is_unusual(turned: bool) -> None:
    (failover,) = (cell for cell in call_cells() if cell.probe == "call-failover")
    cells: list[TelephonyFigures] = [
        failover.model_copy(update={"parameters": PLAIN}),
        failover.model_copy(update={"parameters": {**PLAIN, "transport": "tcp-one"}}),
    ]
    summary = RunSummary(
        run_id="r", created_at=datetime.now(UTC), campaign="mine", host={}, cells=cells[::-1] if turned else cells
    )
    view = RunView(summary, find_published("telephony2011"))
    found = view.cell("telephony", "calls-kept", "guest")
    assert found is not None
    assert found.parameters == PLAIN
    assert view.cell("telephony", "calls-kept-tcp", "guest") is None


@pytest.mark.parametrize(
    ("each_over_udp", "repetitions", "expected"),
    [(5.3, 4, "agrees"), (1.5, 4, "disagrees"), (12.0, 4, "disagrees"), (5.3, 3, "not judged")],
)
def test_a_ratio_from_one_parameter_to_another_is_judged(each_over_udp: float, repetitions: int, expected: str) -> None:
    def cost(transport: str, times: float) -> TelephonyFigures:
        plain = registrations()
        assert plain.host_cpu_ns is not None
        # Repetitions of real cells differ.
        own = [round(plain.host_cpu_ns * times * (1 + 0.01 * number)) for number in range(repetitions)]
        of = {"mode": "off", "interval_ns": None, "transport": transport, "share": 0.5}
        return cell_of(GUEST, "register", of, [registrations(host_cpu_ns=host_ns) for host_ns in own])

    cells = [cost("udp", 1.0), cost("tcp-one", 1.02), cost("tcp-each", each_over_udp)]
    summary = RunSummary(run_id="r", created_at=datetime.now(UTC), campaign="mine", host={}, cells=cells)
    compared = compare_with_published(summary, find_published("telephony2011"))
    [ratios] = [group for group in compared.groups if group.kind == "tests"]
    one, each = ratios.claims
    assert [each.base_test, each.test, each.judgement.verdict] == ["host-each-udp", "host-each-tcp-each", expected]
    assert each.judgement.ours == pytest.approx(each_over_udp, rel=1e-6)
    assert one.judgement.verdict == ("agrees" if repetitions == 4 else "not judged")
    others = {claim.test for group in compared.groups if group is not ratios for claim in group.claims}
    assert not others & {"host-each-udp", "host-each-tcp-one", "host-each-tcp-each"}, "of these only ratios are known"
    assert not {row.test for row in compared.rows} & {"host-each-udp", "host-each-tcp-each"}
