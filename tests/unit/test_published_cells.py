"""Which cell of a run stands for a published figure, where several fit."""

from datetime import UTC, datetime

import pytest
from call_cells import call_cells
from telephony_cells import MS

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
