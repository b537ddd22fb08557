"""Lines as SVG: values lie where the axes say, intervals around them, and a missing point interrupts its line."""

import pytest

from stealtime.report.page.line_figure import Axis, Line, LineFigure, Point, draw, round_values
from stealtime.report.page.plane import HEIGHT, WIDTH, ticks_of
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
    assert drawn.band(drawn.lines[0].pieces[0]) == f"0,50 {WIDTH:g},0 {WIDTH:g},75 0,{HEIGHT:g}"


def test_words_that_would_meet_on_a_narrow_screen_are_left_out_there_and_the_last_stays() -> None:
    marks = ticks_of([(10.0 * number, f"{10 * number} %") for number in range(11)], beside=12.0)
    assert [one.words for one in marks if "no-narrow" not in one.left_out] == ["10 %", "40 %", "70 %", "100 %"]
    assert [one.words for one in marks if "no-middle" not in one.left_out] == [
        f"{20 * number} %" for number in range(6)
    ]
    assert all(not one.left_out for one in ticks_of([(0.0, "0"), (50.0, "1"), (100.0, "2")], beside=7.0))


def test_long_names_are_numbers_on_a_narrow_screen_and_take_less_room() -> None:
    x, y = Axis("n", 0.0, 10.0, ((0.0, "0"),)), Axis("us", 0.0, 4.0, ((0.0, "0"),))

    def named(name: str) -> LineFigure:
        return LineFigure("a figure", x, y, (Line(name, distinct_looks(1)[0], (Point(5, 1, ""),)),))

    short, long, longer = (named("n" * length) for length in (6, 17, 40))
    assert (short.is_numbered_when_narrow, short.right_narrow) == (False, short.right)
    assert (long.is_numbered, long.is_numbered_when_narrow) == (False, True)
    assert long.right_narrow < long.right
    assert longer.right == longer.right_narrow == long.right_narrow


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
