"""Lines as SVG: values lie where the axes say, intervals around them, and a missing point interrupts its line."""

import pytest

from stealtime.report.page.line_figure import HEIGHT, WIDTH, Axis, Line, LineFigure, Point, draw, round_values
from stealtime.report.palette import distinct_looks


def figure(*points: Point | None) -> LineFigure:
    x, y = Axis("n", 0.0, 10.0, ((0.0, "0"), (10.0, "10"))), Axis("us", 0.0, 4.0, ((0.0, "0"),))
    return LineFigure("a figure", x, y, (Line("<one>", distinct_looks(1)[0], points),))


def test_values_lie_where_the_axes_say() -> None:
    drawn = figure()
    assert drawn.place(Point(0, 0, "")) == (0.0, HEIGHT)
    assert drawn.place(Point(10, 4, "")) == (WIDTH, 0.0)
    assert drawn.place(Point(5, 1, "")) == (WIDTH / 2, HEIGHT * 3 / 4)


def test_a_missing_point_interrupts_the_line() -> None:
    drawn = figure(Point(0, 1, "a"), Point(1, 1, "b"), None, Point(3, 1, "c"))
    assert [[point.words for point in piece] for piece in drawn.lines[0].pieces] == [["a", "b"], ["c"]]
    assert draw(drawn).count("<polyline") == 2


def test_a_band_goes_up_one_way_and_down_the_other() -> None:
    drawn = figure(Point(0, 1, "", 0, 2), Point(10, 1, "", 1, 4))
    assert drawn.band(drawn.lines[0].pieces[0]) == f"0.00,160.00 {WIDTH:.2f},0.00 {WIDTH:.2f},240.00 0.00,{HEIGHT:.2f}"


def test_names_are_escaped() -> None:
    drawn = draw(figure(Point(0, 1, "a & b")))
    assert "&lt;one&gt;: a &amp; b" in drawn
    assert "<one>" not in drawn


@pytest.mark.parametrize(
    ("low", "high", "values"),
    [
        (0.0, 1.0, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        (1.0, 20.0, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0]),
        (0.0, 37_000.0, [0.0, 5000.0, 10_000.0, 15_000.0, 20_000.0, 25_000.0, 30_000.0, 35_000.0]),
    ],
)
def test_marks_are_at_round_values(low: float, high: float, values: list[float]) -> None:
    assert round_values(low, high, 10) == pytest.approx(values)


def test_looks_differ_until_all_are_used() -> None:
    looks = distinct_looks(12)
    assert len(set(looks[:10])) == 10
    assert looks[10:] == looks[:2]
