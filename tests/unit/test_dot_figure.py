"""Dots with intervals: where they stand, and which round values mark their axes."""

import math

import pytest

from stealtime.report.page.dot_figure import (
    DotFigure,
    Group,
    Row,
    draw_dots,
    log_duration_axis,
    logarithm,
    ratio_axis,
    time_axis,
)
from stealtime.report.page.line_figure import spread


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ([0.97, 1.21], ["1\N{MULTIPLICATION SIGN}", "1.1\N{MULTIPLICATION SIGN}", "1.2\N{MULTIPLICATION SIGN}"]),
        ([1.3, 8.4], ["1\N{MULTIPLICATION SIGN}", "2\N{MULTIPLICATION SIGN}", "5\N{MULTIPLICATION SIGN}"]),
        ([0.5, 9_000.0], [f"{10**power:g}\N{MULTIPLICATION SIGN}" for power in range(5)]),
    ],
)
def test_an_axis_of_ratios_holds_one_and_is_marked_at_round_values(ratios: list[float], words: list[str]) -> None:
    axis = ratio_axis("times native", ratios)
    assert [told for _, told in axis.ticks] == words
    for value in [1.0, *ratios]:
        assert 0.0 < axis.share(logarithm(value)) < 1.0


def test_an_axis_of_durations_is_no_longer_than_it_must_be() -> None:
    axis = log_duration_axis("round trip", [500_000.0, 112_000_000.0])
    assert [told for _, told in axis.ticks] == ["1 ms", "10 ms", "100 ms"]
    assert axis.low == pytest.approx(math.log10(500_000), abs=0.2)
    assert axis.high == pytest.approx(math.log10(112_000_000), abs=0.2)


def test_equal_ratios_are_steps_of_equal_length() -> None:
    axis = ratio_axis("", [1.0, 100.0])
    one, ten, hundred = (axis.share(logarithm(value)) for value in (1.0, 10.0, 100.0))
    assert ten - one == pytest.approx(hundred - ten)


def test_a_row_stands_where_its_value_is_and_says_it() -> None:
    axis = time_axis("since the fault", [0.0, 100.0], lambda value: f"{value:g}")
    rows = (Row("silent", "205 ms <all>", low=0.0, high=50.0), Row("runs", "+100", at=100.0))
    figure = DotFigure("A failover", axis, (Group("killed", rows),), level=0.0)
    drawn = draw_dots(figure)
    assert "205 ms &lt;all&gt;" in drawn
    left, width = figure.percent(0.0), round(figure.percent(50.0) - figure.percent(0.0), 2)
    assert f'style="left: {left}%; width: {width}%' in drawn
    assert drawn.count('class="dot"') == 1
    assert f'viewBox="-7 -7 14 14" style="left: {figure.percent(100.0)}%"' in drawn
    assert drawn.count('class="level"') == len(rows)


def test_labels_that_would_meet_are_set_apart_in_their_order() -> None:
    assert spread([10.0, 11.0, 60.0], 15.0, 0.0, 320.0) == [10.0, 25.0, 60.0]
    assert spread([318.0, 320.0, 319.0], 15.0, 0.0, 320.0) == [290.0, 320.0, 305.0]
