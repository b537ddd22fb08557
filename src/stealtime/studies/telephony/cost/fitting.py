"""A linear model without negative coefficients, and how far it is off on what it was not fitted to. Pure.

CPU seconds are a sum over quantities of work, each with what one of it costs (Lawson and Hanson's non-negative least
squares). Errors are weighed relative to what was measured, as they are judged so. A quantity that is, within 3 %, a sum
of those before it cannot be told apart from them and is left out: its cost is in theirs.

Held out is a group of rows, all repetitions of a cell: the model is fitted to all others and asked for this one. Where
those do not determine the answer it is not judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Floats = NDArray[np.float64]

_ALIKE_SHARE = 0.03
"""Of the length of a column, what is left of it besides those before it: less is noise of the counts."""
_UNSEEN_SHARE = 0.01
"""Of the widest spread of the fitted rows, that in a direction of which they say nothing."""
_UNKNOWN_SHARE_MAX = 0.05
"""Of the length of a row, what of it lies where the fitted rows say nothing."""
_LEAST_SHARE = 0.02
"""Of the largest measured time: what is smaller is weighed as if it were that."""
SPARE_GROUPS = 2
"""Groups beyond the coefficients: with fewer any model fits."""


@dataclass(frozen=True)
class Fit:
    """A fitted model.

    Attributes:
        coefficients: Of each column, not negative; 0 where it is left out.
        kept: Whether each column can be told apart from those before it.
    """

    coefficients: Floats
    kept: NDArray[np.bool_]
    _known: Floats
    """Directions of scaled rows that the fitted ones span."""
    _scale: Floats

    def predicted(self, rows: Floats) -> Floats:
        """Give the sum for each row of a matrix with the same columns."""
        result: Floats = rows @ self.coefficients
        return result

    def determines(self, row: Floats) -> bool:
        """Tell whether the rows that it was fitted to say what this one costs."""
        scaled = row / self._scale
        unknown = scaled - self._known.T @ (self._known @ scaled)
        return bool(np.linalg.norm(unknown) <= _UNKNOWN_SHARE_MAX * np.linalg.norm(scaled))


@dataclass(frozen=True)
class HeldOut:
    """What a group was predicted by all others."""

    group: str
    measured_s: float
    """The mean of its rows."""
    predicted_s: float
    elapsed_s: float

    @property
    def measured_percent(self) -> float:
        """Of one CPU."""
        return 100.0 * self.measured_s / self.elapsed_s

    @property
    def predicted_percent(self) -> float:
        return 100.0 * self.predicted_s / self.elapsed_s

    @property
    def error_percent(self) -> float:
        """Of what was measured; positive where too much was predicted."""
        return 100.0 * (self.predicted_s - self.measured_s) / self.measured_s


@dataclass(frozen=True)
class Accuracy:
    """How far predictions were off."""

    cells: int
    mae_percent: float
    """The mean of the errors' sizes, in per cent of one CPU."""
    mape_percent: float
    """The same, of what was measured."""
    worst_percent: float
    """The largest of these."""

    @classmethod
    def of(cls, held_out: Sequence[HeldOut]) -> "Accuracy":
        """Judge some predictions, at least one."""
        sizes = [abs(one.error_percent) for one in held_out]
        apart = [abs(one.predicted_percent - one.measured_percent) for one in held_out]
        return cls(len(held_out), float(np.mean(apart)), float(np.mean(sizes)), max(sizes))


@dataclass(frozen=True)
class Table:
    """What is fitted.

    Attributes:
        groups: Of each row.
        rows: Amounts of work, a column for each quantity.
        measured_s: CPU seconds of each row, positive.
        elapsed_s: In which time.
    """

    groups: Sequence[str]
    rows: Floats
    measured_s: Floats
    elapsed_s: Floats

    def only(self, chosen: NDArray[np.bool_]) -> "Table":
        groups = [group for group, is_it in zip(self.groups, chosen, strict=True) if is_it]
        return Table(groups, self.rows[chosen], self.measured_s[chosen], self.elapsed_s[chosen])

    def of_group(self, group: str) -> NDArray[np.bool_]:
        return np.array([one == group for one in self.groups], dtype=np.bool_)


def fit(table: Table) -> Fit:
    """Fit a model to all rows of a table."""
    weights = 1.0 / np.maximum(table.measured_s, _LEAST_SHARE * table.measured_s.max())
    weighed = table.rows * weights[:, None]
    norms = np.linalg.norm(weighed, axis=0)
    scale = np.where(norms > 0, norms, 1.0)
    scaled = weighed / scale
    kept = _told_apart(scaled, norms > 0)
    coefficients = np.zeros(table.rows.shape[1])
    if kept.any():
        found, _ = nnls(scaled[:, kept], table.measured_s * weights)
        coefficients[kept] = found / scale[kept]
    # Of rows as they are, so that a row to come can be asked for; columns are brought to one size.
    sizes = np.where(table.rows.max(axis=0) > 0, table.rows.max(axis=0), 1.0)
    _, strengths, directions = np.linalg.svd(table.rows / sizes, full_matrices=False)
    known = directions[strengths > _UNSEEN_SHARE * strengths.max()] if strengths.max() > 0 else directions[:0]
    return Fit(coefficients, kept, known, sizes)


def held_out(table: Table) -> tuple[list[HeldOut], list[str]]:
    """Predict each group by all others.

    Returns:
        The groups that the others determine, and the names of those that they do not.
    """
    judged, unjudged = [], []
    for group in dict.fromkeys(table.groups):
        own = table.of_group(group)
        row = table.rows[own].mean(axis=0)
        others = fit(table.only(~own)) if not own.all() else None
        if others is None or not others.determines(row):
            unjudged.append(group)
            continue
        judged.append(
            HeldOut(
                group=group,
                measured_s=float(table.measured_s[own].mean()),
                predicted_s=float(others.predicted(row[None, :])[0]),
                elapsed_s=float(table.elapsed_s[own].mean()),
            )
        )
    return judged, unjudged


def ranges(table: Table) -> tuple[Floats, Floats]:
    """Give the smallest and the largest of each coefficient over all fits that leave a group out."""
    fits = [fit(table.only(~table.of_group(group))).coefficients for group in dict.fromkeys(table.groups)]
    every = np.array(fits)
    return every.min(axis=0), every.max(axis=0)


def _told_apart(scaled: Floats, present: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell of each column, of length 1 if it is there at all, whether those before it do not make it up."""
    kept = np.zeros(scaled.shape[1], dtype=np.bool_)
    for number in range(scaled.shape[1]):
        if not present[number]:
            continue
        column, before = scaled[:, number], scaled[:, kept]
        if before.shape[1]:
            made_up, *_ = np.linalg.lstsq(before, column, rcond=None)
            column = column - before @ made_up
        kept[number] = np.linalg.norm(column) > _ALIKE_SHARE
    return kept
