"""Whether values may be treated as independent, alike, and of one distribution; pure. Each check gives a p-value.

Values are replaced by normal scores of their ranks before autocorrelations are taken: what the checks ask is then the
same for every distribution, also for tails without a variance.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from stealtime.report.tails.fits import Array, Extreme, Pareto, fit_extreme, fit_pareto, largest_log_survival

_LAGS = 10
NEAR_EVENTS = 20
"""Exceedances no further apart than this are near each other."""
_TOP_SHARE = 10
"""One in so many of the excesses is held against the others' fit."""


def ljung_box(values: Array) -> float:
    """Test autocorrelations up to lag 10 (G. M. Ljung and G. E. P. Box, Biometrika 65(2), 1978)."""
    scores = _normal_scores(values)
    count = len(scores)
    power = float(scores @ scores)
    correlations = np.array([float(scores[lag:] @ scores[:-lag]) / power for lag in range(1, _LAGS + 1)])
    statistic = count * (count + 2) * float(np.sum(correlations**2 / (count - np.arange(1, _LAGS + 1))))
    return float(stats.chi2.sf(statistic, _LAGS))


def kpss(values: Array) -> float:
    """Test for a level that stays (Kwiatkowski, Phillips, Schmidt and Shin, Journal of Econometrics 54, 1992).

    No lags are taken, as independence is tested as well; the limit is then that of Cramer and von Mises (their section
    3), whose distribution function is the series of S. Csoergo and J. J. Faraway (J. R. Statist. Soc. B 58(1), 1996).
    """
    scores = _normal_scores(values)
    sums = np.cumsum(scores - scores.mean())
    statistic = float(np.sum(sums**2)) / (len(scores) ** 2 * float(scores.var()))
    k = np.arange(20)
    argument = (4 * k + 1) ** 2 / (16 * statistic)
    # exp(-a) K(a), as the scaled function gives exp(a) K(a).
    terms = (-1.0) ** k * special.binom(-0.5, k) * np.sqrt(4 * k + 1) * special.kve(0.25, argument)
    below = float(np.sum(terms * np.exp(-2 * argument))) / (np.pi * np.sqrt(statistic))
    return float(np.clip(1.0 - below, 0.0, 1.0))


def runs(values: Array) -> float:
    """Count runs above and below the median (A. Wald and J. Wolfowitz, Annals of Mathematical Statistics 11, 1940)."""
    above = values > np.median(values)
    high, low = int(above.sum()), int((~above).sum())
    count = high + low
    if min(high, low) == 0:
        return 1.0
    seen = 1 + int(np.count_nonzero(above[1:] != above[:-1]))
    mean = 1 + 2 * high * low / count
    variance = (mean - 1) * (mean - 2) / (count - 1)
    return float(2 * stats.norm.sf(abs(seen - mean) / np.sqrt(variance)))


def clustering(places: NDArray[np.int64], events: int, generator: np.random.Generator, draws: int) -> float:
    """Count the pairs of exceedances that are near each other, against as many at random places.

    Args:
        places: Of the exceedances among all values, in order.
        events: All values.
        generator: Of random places.
        draws: How often they are drawn.
    """

    def near(sorted_places: NDArray[np.int64]) -> NDArray[np.int64]:
        pairs = np.zeros(sorted_places.shape[0], np.int64)
        for apart in range(1, NEAR_EVENTS + 1):
            if apart >= sorted_places.shape[1]:
                break
            distance = sorted_places[:, apart:] - sorted_places[:, :-apart]
            pairs += np.count_nonzero(distance <= NEAR_EVENTS, axis=1)
        return pairs

    seen = int(near(places[None, :])[0])
    # Drawn with replacement: two at one place are rare, and make the check weaker only.
    drawn = np.sort(generator.integers(0, events, (draws, len(places))), axis=1)
    return _share_as_large(near(drawn).astype(float), float(seen))


def pareto_fits(excesses: Array, generator: np.random.Generator, draws: int) -> tuple[Pareto, float]:
    """Fit sorted excesses, shape (values,), and test the fit's upper tail by samples of the fit, fitted as well."""
    fit = fit_pareto(excesses[None, :])
    drawn = fit.repeated(draws).draw(len(excesses), generator)
    seen = _upper_tail(fit.log_survival(excesses[None, :]))
    return fit, _share_as_large(_upper_tail(fit_pareto(drawn).log_survival(drawn)), float(seen[0]))


def extreme_fits(maxima: Array, generator: np.random.Generator, draws: int) -> tuple[Extreme, Extreme, float]:
    """Fit sorted maxima of blocks, shape (values,), and test the fit in the same way.

    Returns:
        The fit, those of the samples drawn from it, and the p-value.
    """
    fit = fit_extreme(maxima[None, :])
    drawn = fit.draw(draws, len(maxima), generator)
    fits = fit_extreme(drawn)
    seen = _upper_tail(_log(fit.survival(maxima[None, :])))
    return fit, fits, _share_as_large(_upper_tail(_log(fits.survival(drawn))), float(seen[0]))


def rare_mixture(excesses: Array, generator: np.random.Generator, draws: int) -> float:
    """Test whether the largest excesses belong to the distribution of the others.

    The question of TailID (Manau, Vilardell, Serra, Mezzetti, Abella and Cazorla, ECRTS 2025): a component so rare that
    it lies in the tail alone escapes tests of stationarity. They look at how the fitted shape moves when one more
    large value is taken in; here the fit is of all but the largest tenth, which count as censored, and it is told how
    improbable the sum of the largest 1, 2, 4 ... spacings is under it. The least of these probabilities is held against
    those of samples of the same fit, fitted in the same way, so that the share of good series that are rejected is what
    was asked for.

    Args:
        excesses: Sorted, shape (values,).
        generator: Of the samples.
        draws: How many.
    """
    top = -(-len(excesses) // _TOP_SHARE)
    fit = fit_pareto(excesses[None, :], censored=top)
    drawn = fit.repeated(draws).draw(len(excesses), generator)
    seen = _least_probable(largest_log_survival(excesses[None, :], top))
    return _share_as_large(_least_probable(largest_log_survival(drawn, top)), float(seen[0]))


def hit_more_often(hit: NDArray[np.bool_], places: NDArray[np.int64]) -> float:
    """Test whether values that the host interfered with are more frequent among the exceedances than among all."""
    among = int(hit[places].sum())
    return float(stats.hypergeom.sf(among - 1, len(hit), int(hit.sum()), len(places)))


def _least_probable(log_survival: Array) -> Array:
    """Give minus the logarithm of the least probability of the sum of the largest 1, 2, 4 ... spacings."""
    exponential, top = -log_survival, log_survival.shape[1] - 1
    counts = [1 << power for power in range(top.bit_length()) if 1 << power <= top]
    found = []
    for count in counts:
        sums = np.sum(exponential[:, -count:] - exponential[:, -count - 1 : -count], axis=1)
        # The logarithm: far out the probability itself is 0.
        found.append(-np.log(np.maximum(special.gammaincc(count, sums), 1e-300)) + np.maximum(sums - 600.0, 0.0))
    return np.asarray(np.max(found, axis=0))


def _upper_tail(log_survival: Array) -> Array:
    """Give the statistic of Anderson and Darling for the upper tail (Sinclair, Spurr and Ahmad, Communications in
    Statistics 19(10), 1990); shape (samples,)."""
    count = log_survival.shape[1]
    weight = 2.0 - (2.0 * np.arange(1, count + 1) - 1.0) / count
    below = -np.expm1(log_survival)
    return np.asarray(count / 2 - 2 * below.sum(axis=1) - (weight * log_survival).sum(axis=1))


def _log(survival: Array) -> Array:
    return np.asarray(np.log(np.maximum(survival, 1e-300)))


def _share_as_large(drawn: Array, seen: float) -> float:
    return (1 + int(np.count_nonzero(drawn >= seen))) / (len(drawn) + 1)


def _normal_scores(values: Array) -> Array:
    ranks = stats.rankdata(values)
    return np.asarray(special.ndtri(ranks / (len(values) + 1)))
