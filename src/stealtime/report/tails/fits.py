"""Fits of the two distributions of extremes, of many samples at a time; pure.

Excesses over a threshold: the generalized Pareto distribution, 1 - (1 - t x)^(1/k), k being minus the shape; fitted as
J. Zhang and M. A. Stephens do ("A New and Efficient Estimation Method for the Generalized Pareto Distribution",
Technometrics 51(3), 2009), which always gives a fit that every value is possible under. Maxima of blocks: the
generalized extreme value distribution, fitted by probability-weighted moments (Hosking, Wallis and Wood, Technometrics
27(3), 1985).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Array = NDArray[np.float64]

_CHUNK = 2_000_000
"""Numbers that are worked on at once."""
_STEPS, _APART = 141, 4.5
"""The likelihood is computed at so many shapes and scales, up to so many standard errors from the fit."""


@dataclass(frozen=True)
class Pareto:
    """Fits of excesses, one a sample.

    Attributes:
        theta: Shape (samples,); 1/theta is the upper end where it is positive.
        k: Shape (samples,); minus the shape of the tail.
    """

    theta: Array
    k: Array

    @property
    def scale(self) -> Array:
        """Shape (samples,)."""
        return self.k / self.theta

    def log_survival(self, excesses: Array) -> Array:
        """Give the logarithm of the probability of a larger excess; shapes (samples, values)."""
        inside = np.maximum(1.0 - self.theta[:, None] * excesses, 1e-300)
        return np.log(inside) / self.k[:, None]

    def draw(self, count: int, generator: np.random.Generator) -> Array:
        """Draw sorted samples of so many excesses, one a fit; shape (fits, count)."""
        exponential = generator.standard_exponential((len(self.k), count))
        exponential.sort(axis=1)
        return -np.expm1(-self.k[:, None] * exponential) / self.theta[:, None]

    def repeated(self, samples: int) -> "Pareto":
        return Pareto(np.repeat(self.theta, samples), np.repeat(self.k, samples))


def fit_pareto(excesses: Array, censored: int = 0) -> Pareto:
    """Fit excesses.

    Args:
        excesses: Shape (samples, values), each sorted and positive.
        censored: So many of the largest are only known to be no smaller than the one before them.
    """
    parts = []
    for part in _parts(excesses):
        theta, _, weight = _grid(part, censored)
        mean = np.sum(theta * weight, axis=1, keepdims=True)
        parts.append((mean[:, 0], _profile(part, mean, part.shape[1] - censored)[1][:, 0]))
    return Pareto(np.concatenate([theta for theta, _ in parts]), np.concatenate([k for _, k in parts]))


def largest_log_survival(excesses: Array, largest: int) -> Array:
    """Give the logarithm of the probability of a larger excess than each of the largest, told from the others alone.

    It is the mean over all parameters, weighted by how likely the others make them: a single fit that has an upper end
    would call impossible what is beyond it.

    Args:
        excesses: Shape (samples, values), each sorted.
        largest: So many are looked at, and count as censored in the fit.

    Returns:
        Shape (samples, largest + 1): also of the one before them.
    """
    found = []
    for part in _parts(excesses):
        theta, k, weight = _grid(part, largest)
        inside = np.maximum(1.0 - theta[:, :, None] * part[:, None, -largest - 1 :], 1e-300)
        terms = np.log(inside) / k[:, :, None] + np.log(np.maximum(weight, 1e-300))[:, :, None]
        found.append(special.logsumexp(terms, axis=1))
    return np.concatenate(found)


def _parts(excesses: Array) -> list[Array]:
    rows = max(1, _CHUNK // (excesses.shape[1] * _grid_size(excesses)))
    return [excesses[first : first + rows] for first in range(0, len(excesses), rows)]


def _grid_size(excesses: Array) -> int:
    return 20 + int(np.sqrt(excesses.shape[1]))


def _grid(excesses: Array, censored: int) -> tuple[Array, Array, Array]:
    """Give a grid of thetas for each sample, the k of each and its weight: shapes (samples, grid)."""
    values, grid = excesses.shape[1], _grid_size(excesses)
    known = values - censored
    last, quarter = excesses[:, known - 1], excesses[:, int(values / 4 + 0.5) - 1]
    steps = 1.0 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
    theta = 1.0 / last[:, None] + steps / (3.0 * quarter[:, None])
    # No step may fall on 0, where the distribution is exponential and k/theta has no value.
    theta = np.where(np.abs(theta * last[:, None]) < 1e-9, 1e-9 / last[:, None], theta)
    log_sum, k = _profile(excesses, theta, known)
    likelihood = known * np.log(theta / k) - log_sum
    weight = np.exp(likelihood - special.logsumexp(likelihood, axis=1, keepdims=True))
    return theta, k, weight


def _profile(excesses: Array, theta: Array, known: int) -> tuple[Array, Array]:
    """Give the sum of log(1 - theta x) of the known values, and the k that is most likely for each theta."""
    seen = excesses[:, :known]
    log_sum = np.sum(np.log1p(-theta[:, :, None] * seen[:, None, :]), axis=2)
    beyond = (excesses.shape[1] - known) * np.log1p(-theta * seen[:, -1:])
    return log_sum, -(log_sum + beyond) / known


def pareto_level(fit: Pareto, exceeded: float) -> Array:
    """Give the excess that is exceeded with a conditional probability; shape (samples,)."""
    return np.asarray(-np.expm1(fit.k * np.log(exceeded)) / fit.theta)


@dataclass(frozen=True)
class Region:
    """Where the likelihood of shape and scale is not much below its maximum.

    Attributes:
        shapes: Shape (shapes,).
        low: The least scale that is likely with each of them, same shape.
        high: The largest one.
        is_bounded: Whether larger shapes than these are not likely.
    """

    shapes: Array
    low: Array
    high: Array
    is_bounded: bool

    def interval(self, exceeded: float) -> tuple[float, float | None]:
        """Give the interval of the excess that is exceeded with a conditional probability.

        It is that of the profile likelihood: the ends are the least and the largest value that likely shapes and scales
        give. An upper end is None where the shape is not bounded by the values.
        """
        factor = special.boxcox(1.0 / exceeded, self.shapes)
        largest = float((factor * self.high).max()) if self.is_bounded else None
        return float((factor * self.low).min()), largest


def pareto_region(excesses: Array, confidence: float) -> Region:
    """Find the shapes and scales that one sample of excesses, shape (values,), makes likely."""
    mean = float(excesses.mean())
    scaled = excesses / mean
    fit = fit_pareto(np.sort(scaled)[None, :])
    # Asymptotic standard errors (R. L. Smith, Biometrika 72(1), 1985), wide enough for any.
    centre = -float(fit.k[0])
    spread = np.linspace(-_APART, _APART, _STEPS)
    shapes = centre + spread * max(1.0 + centre, 0.3) / np.sqrt(len(scaled))
    scales = float(fit.scale[0]) * np.exp(spread * np.sqrt(2.0 * max(1.0 + centre, 0.3) / len(scaled)))
    sums = np.empty((_STEPS, _STEPS))
    for row, shape in enumerate(shapes):
        if abs(shape) < 1e-9:
            sums[row] = scaled.sum() / scales
        else:
            terms = 1.0 + shape * scaled[None, :] / scales[:, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log(terms).sum(axis=1) * (1.0 + 1.0 / shape)
            sums[row] = np.where(terms.min(axis=1) > 0.0, logs, np.inf)
    likelihood = -len(scaled) * np.log(scales) - sums
    is_likely = likelihood >= likelihood.max() - float(stats.chi2.ppf(confidence, 1)) / 2.0
    rows = is_likely.any(axis=1)
    first = is_likely[rows].argmax(axis=1)
    last = _STEPS - 1 - is_likely[rows][:, ::-1].argmax(axis=1)
    return Region(shapes[rows], scales[first] * mean, scales[last] * mean, is_bounded=not rows[-1])


@dataclass(frozen=True)
class Extreme:
    """Fits of maxima of blocks, one a sample; each attribute has the shape (samples,)."""

    location: Array
    scale: Array
    shape: Array

    def survival(self, maxima: Array) -> Array:
        """Give the probability of a larger maximum; shapes (samples, values)."""
        reduced = np.maximum(
            1.0 + self.shape[:, None] * (maxima - self.location[:, None]) / self.scale[:, None], 1e-300
        )
        with np.errstate(over="ignore"):
            return np.asarray(-np.expm1(-np.exp(-np.log(reduced) / self.shape[:, None])))

    def level(self, expected: float) -> Array:
        """Give the value whose distribution function is exp(-expected); shape (samples,)."""
        return np.asarray(self.location + self.scale * np.expm1(-self.shape * np.log(expected)) / self.shape)

    def draw(self, samples: int, count: int, generator: np.random.Generator) -> Array:
        """Draw so many sorted samples of the single fit; shape (samples, count)."""
        exponential = generator.standard_exponential((samples, count))
        drawn = self.location + self.scale * np.expm1(-self.shape * np.log(exponential)) / self.shape
        drawn.sort(axis=1)
        return np.asarray(drawn)


def fit_extreme(maxima: Array) -> Extreme:
    """Fit maxima of blocks: shape (samples, values), each sorted."""
    count = maxima.shape[1]
    rank = np.arange(count)
    b0 = maxima.mean(axis=1)
    b1 = (maxima * rank / (count - 1)).mean(axis=1)
    b2 = (maxima * rank * (rank - 1) / ((count - 1) * (count - 2))).mean(axis=1)
    c = (2 * b1 - b0) / (3 * b2 - b0) - np.log(2) / np.log(3)
    k = 7.8590 * c + 2.9554 * c**2
    k = np.where(np.abs(k) < 1e-9, 1e-9, k)
    gamma = special.gamma(1 + k)
    scale = (2 * b1 - b0) * k / (gamma * (1 - 2**-k))
    return Extreme(location=b0 + scale * (gamma - 1) / k, scale=scale, shape=-k)
