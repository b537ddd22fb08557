"""What takes several cells of a run: stretch against two bases, lost seconds, and predictions beside it."""

from collections.abc import Sequence
from statistics import fmean

from stealtime.report.interval import Interval
from stealtime.studies.stretch.analysis import guests, prediction
from stealtime.studies.stretch.analysis.accuracy import interval_factor
from stealtime.studies.stretch.analysis.lost import lost_seconds, waited_share
from stealtime.studies.stretch.analysis.model import Guest, Predicted, StretchCell
from stealtime.studies.stretch.analysis.sharing import Work, always_busy, solve_together
from stealtime.studies.stretch.probes import ContendParameters

QUIET_SHARE = 0.1
"""A host that natively loses more of its time to others has work of which the models do not know."""


def relate(cells: Sequence[StretchCell]) -> list[StretchCell]:
    stretched = [_with_stretch(cell, cells) for cell in cells]
    predicted = [_with_prediction(cell, stretched) for cell in stretched]
    worst = max((abs(cell.predicted.residual or 0.0) for cell in predicted if cell.predicted is not None), default=0.0)
    return [_with_one_more(cell, predicted, worst) for cell in predicted]


def native_base(cell: StretchCell, cells: Sequence[StretchCell]) -> StretchCell | None:
    """Give the native machine alone that did the same work on the most CPUs; None where it was not measured."""
    same = [one for one in cells if one.is_native and one.is_alone and one.repetitions and guests.same_work(one, cell)]
    return max(same, key=lambda one: one.vcpus, default=None)


def alone_base(cell: StretchCell, cells: Sequence[StretchCell]) -> StretchCell | None:
    """Give the same machine alone; None where it was not measured."""
    for one in cells:
        is_same = one.platform == cell.platform and guests.same_place(one, cell)
        if is_same and one.is_alone and one.repetitions and guests.same_work(one, cell):
            return one
    return None


def _with_stretch(cell: StretchCell, cells: Sequence[StretchCell]) -> StretchCell:
    native, alone = native_base(cell, cells), alone_base(cell, cells)
    return cell.model_copy(
        update={
            "is_base": native is cell,
            "native_floor_s": _native_floor_s(cell, native),
            "against_native": None if native is None or native is cell else guests.stretch(cell, native),
            "against_alone": None if alone is None or alone is cell else guests.stretch(cell, alone),
            "company": cell.not_alone or _company_of_base(native),
            "alike": guests.each_guest(cell, native, alone),
            "priority": guests.priority(cell, cells),
            "lost": None if native is None or native is cell else lost_seconds(cell, native),
        }
    )


def _company_of_base(native: StretchCell | None) -> str | None:
    return None if native is None or native.not_alone is None else f"{native.title} was {native.not_alone}"


def _native_floor_s(cell: StretchCell, native: StretchCell | None) -> float | None:
    """Give the shortest repetition of the base, if it did what the cell did."""
    if native is None or native is cell:
        return None
    checksums = {one.checksum for one in (*cell.repetitions, *native.repetitions)}
    return min(native.elapsed_s) if len(checksums) == 1 else None


def _with_prediction(cell: StretchCell, cells: Sequence[StretchCell]) -> StretchCell:
    base = alone_base(cell, cells)
    if base is None or not cell.repetitions:
        return cell
    alone_s, cpu_s, cpus = fmean(base.elapsed_s), base.cpu_s, cell.host_cpus
    rho = prediction.utilization(alone_s, cpu_s, cell.beside, cpus)
    entitled = prediction.entitled_stretch(alone_s, cpu_s, cell.itself, cell.beside, cpus)
    shared = _shared_stretch(base, cell, cell.beside)
    measured = None if cell.against_alone is None else cell.against_alone.ratio
    native, because = native_base(cell, cells), None
    if native is not None and (waited := waited_share(native)) > QUIET_SHARE:
        because = (
            f"{native.title} waited {waited:.0%} of its time for a CPU although nothing of ours was beside it: "
            "something else uses this host"
        )
    predicted = Predicted(
        utilization=rho,
        all_busy=prediction.all_busy(rho, cpus),
        open_queue=prediction.open_queue_stretch(rho, cpus),
        erlang_c=prediction.erlang_c_stretch(rho, cpus),
        closed=prediction.closed_stretch(cell.itself, cell.beside, cpus),
        entitled=entitled,
        shared=shared,
        residual=None if measured is None or because else measured / shared - 1.0,
        one_more=None,
        one_more_low=None,
        one_more_high=None,
        because=because,
    )
    return cell.model_copy(update={"predicted": predicted})


def _shared_stretch(base: StretchCell, cell: StretchCell, beside: Sequence[Guest]) -> float:
    """Predict what a guest's neighbours and its share make of what it did alone.

    Neighbours that do the same work do as it does; others are always busy.
    """
    work = Work(
        tasks=ContendParameters.of(cell).tasks,
        elapsed_s=fmean(base.elapsed_s),
        cpu_s=base.cost_s,
        io_s=fmean(one.io_asked_s for one in base.repetitions),
    )
    works = [work, *(work if one.is_alike else always_busy(one) for one in beside)]
    return solve_together(works, [cell.itself, *beside], cell.host_cpus)[0]


def _with_one_more(cell: StretchCell, cells: Sequence[StretchCell], worst: float) -> StretchCell:
    """Predict the stretch against native beside one more guest.

    Args:
        cell: Where the prediction begins.
        cells: All of the run.
        worst: The largest residual of the run: so wrong the model was here.
    """
    base, native = alone_base(cell, cells), native_base(cell, cells)
    if cell.predicted is None or cell.predicted.because or base is None or native is None or cell.is_native:
        return cell
    more = cell.beside[-1] if cell.beside else Guest(vcpus=cell.vcpus)
    beside = [*cell.beside, more]
    factor = _shared_stretch(base, cell, beside)
    alone = _alone_interval(base)
    if alone is None:
        return cell
    # What mixes that the model had not seen were off by, or more where this run was.
    wrong_by = max(1.0 + worst, interval_factor(cell.platform))
    predicted = cell.predicted.model_copy(
        update={
            "one_more": alone.value * factor,
            "one_more_low": alone.low * factor / wrong_by,
            "one_more_high": alone.high * factor * wrong_by,
        }
    )
    return cell.model_copy(update={"predicted": predicted})


def _alone_interval(base: StretchCell) -> Interval | None:
    """Give the stretch of the guest alone against native; None where it was not judged."""
    one = base.against_native
    if one is None or one.ratio is None or one.low is None or one.high is None:
        return None
    return Interval(one.ratio, one.low, one.high)
