"""Stretch and what is shown of it, from cells whose right answers are known."""

from dataclasses import replace

import pytest
from stretch_cells import BUSY, cell, recording, recordings, related, together
from synthetic_use import guest, use

from stealtime.capacity.recording import RecordedUse, unreadable
from stealtime.report.notation import ABSENT
from stealtime.studies.stretch import wording
from stealtime.studies.stretch.analysis.compare import compare_cells
from stealtime.studies.stretch.analysis.guests import is_favoured
from stealtime.studies.stretch.analysis.lost import PARTS
from stealtime.studies.stretch.analysis.model import Guest
from stealtime.studies.stretch.analysis.provisioning import judged
from stealtime.studies.stretch.analysis.recorded import Moment, moment_of
from stealtime.studies.stretch.analysis.relate import relate
from stealtime.studies.stretch.page.figures import lost_axis, lost_bars, place, predicted_against_native, stretch_axis
from stealtime.studies.stretch.page.over_time import charts
from stealtime.studies.stretch.page.section import section
from stealtime.studies.stretch.study import STUDY
from stealtime.vocabulary.readings import Absent

NATIVE = [1.00, 1.02, 0.99, 1.01]
TWICE = [2.01, 2.03, 1.98, 2.02]


def test_stretch_is_told_against_native_and_against_the_guest_alone() -> None:
    native, alone, beside = relate(
        [
            cell("native", "whole", NATIVE, vcpus=2),
            cell("uml", "half", TWICE),
            cell("uml", "filled", [4.0, 4.1, 3.9, 4.0], beside=[BUSY] * 3),
        ]
    )
    assert (native.against_native, native.against_alone) == (None, None)
    assert alone.against_native is not None
    assert alone.against_native.base == "native whole"
    assert alone.against_native.ratio == pytest.approx(2.0, abs=0.01)
    assert alone.against_native.low is not None
    assert 1.9 < alone.against_native.low < 2.0
    assert alone.against_alone is None
    assert beside.against_native is not None
    assert beside.against_alone is not None
    assert beside.against_alone.base == "uml half"
    assert beside.against_alone.ratio == pytest.approx(2.0, abs=0.02)
    assert beside.against_native.ratio == pytest.approx(4.0, abs=0.05)


def test_native_against_itself_is_one_within_its_interval() -> None:
    _, twin = relate([cell("native", "whole", NATIVE), cell("native", "again", [1.01, 0.99, 1.0, 1.02])])
    one = twin.against_native
    assert one is not None
    assert one.low is not None
    assert one.high is not None
    assert one.low < 1.0 < one.high < 1.05


def test_each_guest_that_did_the_same_is_told_with_the_fastest_and_the_slowest() -> None:
    native = cell("native", "whole", NATIVE, vcpus=2)
    alone = cell("uml", "half", TWICE)
    beside = together("overcommitted", [4.0, 4.1, 3.9, 4.0], [4.2, 4.3, 4.1, 4.2], [4.4, 4.5, 4.3, 4.4])
    found = relate([native, alone, beside])[2]
    assert [one.name for one in found.alike] == ["neighbour 1", "neighbour 2"]
    against_native = [found.against_native, *(one.against_native for one in found.alike)]
    ratios = [one.ratio for one in against_native if one is not None]
    assert ratios == pytest.approx([3.98, 4.18, 4.38], abs=0.01)
    assert [one.against_alone is not None for one in found.alike] == [True] * 2
    lost = [one for one in (found.lost, *(guest.lost for guest in found.alike)) if one is not None]
    assert [one.lost_s for one in lost] == pytest.approx([2.995, 3.195, 3.395])
    assert all(one.lost_s == pytest.approx(sum(one.parts_s.values()) + one.unexplained_s) for one in lost)
    assert wording.spread_words(found) == "3 guests: 3.98x to 4.38x".replace("x", "\N{MULTIPLICATION SIGN}")
    assert wording.beside_words(found) == "2 like it"
    assert found.columns["fastest_guest_median_s"] == pytest.approx(4.0)
    assert found.columns["slowest_guest_median_s"] == pytest.approx(4.4)
    # Of what is published only the fastest is known.
    assert STUDY.measurement(found, "elapsed").value == pytest.approx(4.0e9, rel=0.01)
    assert relate([native, alone])[1].alike == []


def test_a_guest_that_found_something_else_has_no_stretch() -> None:
    beside = together("overcommitted", [4.0] * 4, [4.2] * 4, checksum=8)
    found = relate([cell("native", "whole", NATIVE, vcpus=2), beside])[1]
    neighbour = found.alike[0].against_native
    assert found.against_native is not None
    assert found.against_native.ratio is not None
    assert neighbour is not None
    assert (neighbour.ratio, neighbour.because) == (None, "the checksums differ: it was not the same work")


FAVOURED, OTHER = Guest(vcpus=1, weight=300, is_alike=True), Guest(vcpus=1, weight=100, is_alike=True)


@pytest.mark.parametrize(
    ("favoured_s", "verdict"),
    [(2.0, "the priority protects"), (4.0, "no protection shown"), (8.0, "the priority harms")],
)
def test_a_priority_is_judged_by_what_the_favoured_guests_took_without_it(favoured_s: float, verdict: str) -> None:
    free = together("overcommitted", *([[4.0, 4.1, 3.9, 4.0]] * 4))
    own = [favoured_s * factor for factor in (1.01, 0.99, 1.0, 1.0)]
    weighted = together("weights", own, own, [5.0] * 4, [5.2] * 4, guests=[FAVOURED, FAVOURED, OTHER, OTHER])
    found = relate([cell("native", "whole", NATIVE, vcpus=2), free, weighted])
    assert found[1].priority is None
    one = found[2].priority
    assert one is not None
    assert (one.favoured_guests, one.other_guests) == (2, 2)
    assert one.favoured.ratio == pytest.approx(favoured_s / 4, rel=0.01)
    assert one.others.ratio == pytest.approx(5.1 / 4, rel=0.01)
    (sentence,) = wording.priority_sentences(found)
    assert sentence.startswith(f"uml weights: {verdict}: the 2 favoured guests took ")


def test_a_priority_is_not_judged_without_repetitions_and_not_seen_without_the_same_guests_free() -> None:
    weighted = together("weights", [2.0] * 3, [5.0] * 3, guests=[FAVOURED, OTHER])
    free = together("overcommitted", [4.0] * 3, [4.0] * 3)
    found = relate([free, weighted])[1]
    assert wording.priority_sentences([found])[0].startswith(
        "uml weights: not judged whether the priority protects, because one side has 3 valid repetitions"
    )
    three = together("overcommitted", [4.0] * 3, [4.0] * 3, [4.0] * 3)
    assert relate([three, weighted])[1].priority is None
    # A quota bounds whatever the weight is.
    held = Guest(vcpus=1, quota_percent=33.3, is_alike=True)
    assert is_favoured(Guest(vcpus=1), [Guest(vcpus=1), held])
    assert not is_favoured(held, [Guest(vcpus=1), held])
    assert not is_favoured(OTHER, [OTHER, OTHER])


def test_the_work_is_named_with_units() -> None:
    given = {"tasks": 1, "iterations": 60, "io_mean_ns": 0, "lock_percent": 50, "collection_bytes": 1 << 21, "seed": 3}
    one = cell("native", "whole", NATIVE).model_copy(update={"parameters": given})
    assert wording.work_words(one) == ("contend, 1 task of 60 iterations, collection 2 MiB, no io, lock 50 %, seed 3")
    slow = one.model_copy(update={"parameters": {"tasks": 8, "iterations": 60, "io_mean_ns": 5_000_000}})
    assert wording.work_words(slow) == "contend, 8 tasks of 60 iterations, io mean 5ms"


def test_too_few_repetitions_and_other_work_are_not_judged() -> None:
    _, few, other = relate(
        [cell("native", "whole", NATIVE), cell("uml", "half", TWICE[:3]), cell("uml", "half", TWICE, checksum=8)]
    )
    assert few.against_native is not None
    assert few.against_native.low is None
    assert few.against_native.because == "one side has 3 valid repetitions, 4 are needed"
    assert wording.against_words(few.against_native) == "2.00\N{MULTIPLICATION SIGN}"
    assert wording.not_judged_sentences([few]) == [
        "Not judged, and without an interval: one side has 3 valid repetitions, 4 are needed."
    ]
    assert other.against_native is not None
    assert other.against_native.ratio is None
    assert "checksums differ" in (other.against_native.because or "")
    assert wording.against_words(other.against_native) == ABSENT


def test_a_cell_that_failed_everywhere_has_no_stretch_and_no_base() -> None:
    failed, left = relate([cell("native", "whole", []), cell("uml", "half", TWICE)])
    assert (failed.is_measured, left.against_native, left.lost) == (False, None, None)
    assert failed.columns.keys() == left.columns.keys()
    assert "no stretch against native" in wording.bases_sentence([left])


def test_figures_lie_on_their_axes() -> None:
    cells = related()
    axis = stretch_axis(cells)
    assert predicted_against_native(cells[2], cells) == pytest.approx(2 * 1.0 / 0.504, rel=0.01)
    assert place(axis, axis.low) == 0.0
    assert 3 <= len(axis.ticks) <= 8
    bars = lost_bars(cells, lost_axis(cells))
    assert [bar.title for bar in bars] == ["uml half", "uml overcommitted"]
    for bar in bars:
        assert len(bar.parts) == len(PARTS) + 1
    lacking = cells[1].model_copy(update={"lost": cells[1].lost and cells[1].lost.model_copy(update={"parts_s": {}})})
    (empty,) = lost_bars([lacking], lost_axis([lacking]))
    assert [part.name for part in empty.parts] == ["unexplained"]
    for bar in bars:
        assert all(part.left >= 0.0 and part.width >= 0.0 for part in bar.parts)


def test_the_page_says_what_was_found_and_escapes_names() -> None:
    cells = related()
    odd = cells[1].model_copy(update={"platform": "ssh:<b>", "valid": False, "reasons": ["it <died>"]})
    page = str(section([*cells, odd], [None] * 4).body)
    assert "native whole" in page
    assert "one more such neighbour" in page
    assert "&lt;died&gt;" in page
    assert "<b>@" not in page
    assert "ssh:<b>" not in page
    assert str(section([], []).body).count("<section") == 4


def test_two_runs_are_compared_by_their_elapsed_time() -> None:
    first, second = cell("uml", "half", NATIVE), cell("uml", "half", [2 * one for one in TWICE])
    (elapsed,) = compare_cells(first, second).statistics
    assert (elapsed.verdict, elapsed.words[0]) == ("higher", "elapsed")
    (same,) = compare_cells(first, first).statistics
    assert same.verdict == "no difference shown"
    (few,) = compare_cells(first, cell("uml", "half", TWICE[:2])).statistics
    assert (few.verdict, few.because) == ("not judged", "one run has 2 valid repetitions: measure with --repetitions 4")
    (other,) = compare_cells(first, cell("uml", "half", TWICE, checksum=1)).statistics
    assert other.because == "the checksums differ: it was not the same work"


def test_counters_over_time_are_means_over_virtual_cpus_and_over_dispatches() -> None:
    machine = guest("machine", run=[60.0, 20.0], wait=[30.0, 10.0], wait_per_dispatch_ns=3e6, throttled=5.0)
    slow = machine.vcpus[1]._replace(dispatches_per_s=300.0, wait_per_dispatch_ns=1e6)
    machine = machine._replace(vcpus={0: machine.vcpus[0], 1: slow})
    found = moment_of(RecordedUse(3.0, use([guest("neighbour 1", run=[99.0]), machine], busy=(90.0, 70.0))))
    # A quota that held both back for 5 % of the time has 10 of the 40 % that they waited together.
    assert found == Moment(3.0, busy_percent=80.0, run_percent=40.0, wait_percent=15.0, wait_per_dispatch_ns=1.5e6)
    absent = Absent(absent="withheld")
    unknown = use([guest("machine", unreadable=absent)], busy=(absent, 70.0))
    assert moment_of(RecordedUse(1.0, unknown)) == Moment(1.0, None, None, None, None)
    assert moment_of(RecordedUse(1.0, use())) == Moment(1.0, 20.0, None, None, None)


def test_too_few_seconds_and_a_host_that_could_not_be_read_are_not_judged() -> None:
    few = judged([recording(4), recording(5)], is_guest=True)
    assert [(one.subject, one.verdict, one.samples) for one in few] == [
        ("host", "not judged", 9), ("machine", "not judged", 9),
    ]  # fmt: skip
    assert all("only 9 of the 10 samples that are needed" in (one.because or "") for one in few)
    (host,) = judged([[unreadable(0, OSError("gone"))]], is_guest=False)
    assert (host.verdict, host.because) == ("not judged", "the counters cannot be read: gone")
    host, machine = judged([recording(12)], is_guest=True)
    assert (host.verdict, machine.verdict, machine.rule) == ("over-committed host", "over-committed host", "vcpu-wait")
    alien = [row._replace(subject="other") if row.subject == "machine" else row for row in recording(12)]
    assert judged([alien], is_guest=True)[1].because == "the machine was not found among the guests of the host"


@pytest.mark.parametrize(("factor", "unit", "longest"), [(1.0, "ms", 3.0), (1e-3, "us", 3.0), (1e4, "s", 30.0)])
def test_the_axis_of_waits_has_round_marks_of_a_fitting_unit(factor: float, unit: str, longest: float) -> None:
    def scaled(one: Moment) -> Moment:
        wait_ns = one.wait_per_dispatch_ns
        return replace(one, wait_per_dispatch_ns=None if wait_ns is None else factor * wait_ns)

    drawn = [None if one is None else replace(one, moments=tuple(map(scaled, one.moments))) for one in recordings()]
    found = charts(related(), drawn)
    assert found.waits[0][1] == f"0 {unit}"
    assert found.waits[-1][1] == f"{longest:g} {unit}"
    # The longest wait is 3.2 of that unit: just above the last mark.
    top = min(
        point.y for line in found.charts[2].lines if line.kind == "dispatch" for piece in line.pieces for point in piece
    )
    assert 0.0 < top < found.waits[-1][0]
    assert charts(related(), [None] * 3).waits == ()
