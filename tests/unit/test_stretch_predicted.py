"""Predictions of stretch, from cells whose right answers are known."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stretch_cells import BUSY, cell, related

from stealtime.studies.stretch import wording
from stealtime.studies.stretch.analysis import prediction
from stealtime.studies.stretch.analysis.accuracy import accuracies, interval_factor
from stealtime.studies.stretch.analysis.model import Guest, Predicted, StretchCell
from stealtime.studies.stretch.analysis.relate import relate
from stealtime.studies.stretch.page.figures import predicted_against_native
from stealtime.studies.stretch.rows import works_of


def test_cpus_are_shared_out_by_weight_up_to_each_ones_limit() -> None:
    quota = Guest(vcpus=1, quota_percent=25)
    assert prediction.entitled_cpus([BUSY, BUSY], 2) == [1.0, 1.0]
    assert prediction.entitled_cpus([BUSY] * 4, 2) == pytest.approx([0.5] * 4)
    heavy, light = Guest(vcpus=1, weight=300), Guest(vcpus=1, weight=100)
    assert prediction.entitled_cpus([heavy, light], 1) == pytest.approx([0.75, 0.25])
    # One CPU is all that a vCPU can use: the rest goes to the others.
    assert prediction.entitled_cpus([heavy, light, light, light], 2) == pytest.approx([1.0, 1 / 3, 1 / 3, 1 / 3])
    assert prediction.entitled_cpus([BUSY, quota, quota], 1) == pytest.approx([0.5, 0.25, 0.25])
    assert prediction.entitled_cpus([Guest(vcpus=2), BUSY, BUSY], 2) == pytest.approx([1.0, 0.5, 0.5])


@given(
    st.lists(
        st.builds(
            Guest,
            vcpus=st.integers(1, 8),
            weight=st.none() | st.integers(1, 10_000),
            quota_percent=st.none() | st.floats(1.0, 800.0),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 16),
)
def test_no_more_is_shared_out_than_there_is_and_nothing_is_left_that_somebody_wants(
    guests: list[Guest], cpus: int
) -> None:
    given_cpus = prediction.entitled_cpus(guests, cpus)
    caps = [min(one.vcpus, math.inf if one.quota_percent is None else one.quota_percent / 100) for one in guests]
    assert all(got <= cap + 1e-9 for got, cap in zip(given_cpus, caps, strict=True))
    assert sum(given_cpus) == pytest.approx(min(sum(caps), cpus), rel=1e-6)


def test_models_agree_with_their_textbooks() -> None:
    # The source's own example: four CPUs, each busy 25 % of the time.
    assert prediction.all_busy(0.25, 4) == pytest.approx(0.0039, abs=1e-4)
    assert prediction.open_queue_stretch(0.5, 1) == pytest.approx(2.0)
    # M/M/1: 1 / (1 - rho); M/M/2: 1 / (1 - rho^2).
    assert prediction.erlang_c_stretch(0.8, 1) == pytest.approx(5.0)
    assert prediction.erlang_c_stretch(0.8, 2) == pytest.approx(1 / (1 - 0.64))
    # Erlang's C for 10 servers and 8 Erlang is 0.4092 (tables).
    assert prediction.erlang_c_stretch(0.8, 10) == pytest.approx(1 + 0.4092 / 2, abs=1e-4)
    assert (prediction.open_queue_stretch(1.0, 2), prediction.erlang_c_stretch(1.2, 2)) == (None, None)
    assert prediction.closed_stretch(BUSY, [BUSY] * 3, 2) == 2.0
    assert prediction.closed_stretch(BUSY, [], 2) == 1.0


def test_a_guest_that_is_often_idle_loses_less_than_one_that_never_is() -> None:
    busy = prediction.entitled_stretch(1.0, 1.0, BUSY, [BUSY] * 3, 2)
    idle = prediction.entitled_stretch(1.0, 0.6, BUSY, [BUSY] * 3, 2)
    assert busy == pytest.approx(2.0)
    assert idle == pytest.approx(1.2)
    assert prediction.entitled_stretch(1.0, 0.3, BUSY, [BUSY] * 3, 2) == 1.0


def test_the_prediction_stands_beside_the_measured_with_its_residual_and_one_guest_more() -> None:
    predicted = related()[2].predicted
    assert predicted is not None
    assert predicted.entitled == pytest.approx(2.0)
    assert predicted.residual == pytest.approx(0.05, abs=0.001)
    assert predicted.utilization == pytest.approx(2.0)
    assert (predicted.all_busy, predicted.erlang_c) == (1.0, None)
    # 5 busy on 2 CPUs, against a native half a second.
    assert predicted.one_more is not None
    assert predicted.one_more == pytest.approx(2.5 * 1.0 / 0.504, rel=0.01)
    assert predicted.one_more_low is not None
    assert predicted.one_more_high is not None
    assert predicted.one_more_low < predicted.one_more / 1.05 < 1.05 * predicted.one_more < predicted.one_more_high
    assert "one more such neighbour" in wording.one_more_sentences(related())[1]


def test_the_interval_is_at_least_as_wide_as_the_error_on_mixes_that_were_held_out() -> None:
    predicted = related()[2].predicted
    assert predicted is not None
    assert predicted.one_more is not None
    assert predicted.one_more_low is not None
    assert predicted.one_more_high is not None
    factor = interval_factor("uml")
    assert factor > 1.05, "the residual of the run is 5 %"
    # The guest alone was measured with an interval of its own.
    assert predicted.one_more_low < predicted.one_more / factor
    assert predicted.one_more_high > predicted.one_more * factor
    assert interval_factor("ssh:board") == max(one.factor for one in accuracies().values())


def test_work_that_sleeps_is_predicted_to_wait_less() -> None:
    def predicted(**alone: Any) -> float:
        native = cell("native", "whole", [0.5] * 4, vcpus=2)
        beside = cell("uml", "filled", [4.0] * 4, beside=[BUSY] * 3)
        one = relate([native, cell("uml", "half", [2.0] * 4, **alone), beside])[2].predicted
        assert one is not None
        return one.shared

    assert predicted(cpu_s=2.0) == pytest.approx(2.0)
    # Eight tasks, each of which sleeps for 1.8 s.
    assert predicted(cpu_s=0.2, io_asked_s=14.4) < 1.2
    # What it cost the host counts, not what the guest knows of it.
    assert predicted(cpu_s=0.2, io_asked_s=5.0, host_run_s=1.9) > 1.8


def test_neighbours_that_do_the_same_work_rest_when_the_machine_would() -> None:
    def predicted(neighbour: Guest) -> float:
        native = cell("native", "whole", [0.5] * 4, vcpus=2)
        # Eight tasks that each compute for 0.1 s and sleep for 1.8 s.
        alone = cell("uml", "half", [2.0] * 4, cpu_s=0.8, io_asked_s=14.4)
        one = relate([native, alone, cell("uml", "filled", [4.0] * 4, beside=[neighbour] * 3)])[2].predicted
        assert one is not None
        return one.shared

    alike, busy = predicted(Guest(vcpus=1, is_alike=True)), predicted(Guest(vcpus=1))
    assert 1.0 < alike < 1.1 < busy


def test_nothing_is_predicted_on_a_host_that_has_other_work() -> None:
    busy = cell("native", "whole", [1.0] * 4, cpu_s=0.8, wait_s=5.0)
    alone, beside = cell("uml", "half", [2.0] * 4), cell("uml", "filled", [4.0] * 4, beside=[BUSY] * 3)
    found = relate([busy, alone, beside])
    for one in found[1:]:
        assert one.predicted is not None
        assert (one.predicted.residual, one.predicted.one_more) == (None, None)
        assert predicted_against_native(one, found) is None
    assert wording.one_more_sentences(found) == []
    (sentence,) = wording.not_judged_sentences(found)
    assert "native whole waited 20% of its time" in sentence


def test_open_queues_are_left_out_where_they_do_not_hold() -> None:
    (work,) = works_of(related())
    busy = [one.predicted.utilization for one in related() if one.predicted and one.against_alone]
    assert busy == [pytest.approx(2.0)], "more than both CPUs are asked for"
    assert "1/(1-rho^m)" not in work.predictions.table.heads
    assert any("do not hold above a utilization of 90 %" in one for one in work.predictions.sentences)
    roomy = [one.model_copy(update={"predicted": with_utilization(one, 0.5)}) for one in related()]
    (work,) = works_of(roomy)
    assert work.predictions.table.heads[-2:] == ("1/(1-rho^m)", "M/M/m")
    assert not any("do not hold" in one for one in work.predictions.sentences)


def with_utilization(cell: StretchCell, rho: float) -> Predicted | None:
    return None if cell.predicted is None else cell.predicted.model_copy(update={"utilization": rho})
