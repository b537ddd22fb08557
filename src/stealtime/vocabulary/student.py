"""Quantiles of Student's t for whole degrees of freedom; pure.

scipy gives them too, with 26 MB of memory, which an exporter on every host is not to take, and after 0.2 s of loading,
which a command would make its user wait. A test holds these against scipy's. Source: M. Abramowitz, I. Stegun,
Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
"""

import math
from functools import cache

_HALVINGS = 200
"""More than a double can be halved."""


@cache
def student_quantile(degrees: int, probability: float) -> float:
    """Give where the distribution function is `probability`.

    Args:
        degrees: Of freedom, 1 or more.
        probability: From 0.5 to less than 1.
    """
    low, high = 0.0, 1.0
    while _distribution(degrees, high) < probability:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _distribution(degrees, middle) < probability else (low, middle)
    return (low + high) / 2


def _distribution(degrees: int, t: float) -> float:
    """Give the probability that t is not exceeded, for t of 0 or more."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine_2 = math.cos(angle) ** 2
    if degrees % 2:
        terms, factor = 0.0, math.cos(angle)
        for k in range(1, degrees - 1, 2):
            terms += factor
            factor *= cosine_2 * (k + 1) / (k + 2)
        both = (angle + math.sin(angle) * terms) * 2 / math.pi
    else:
        terms, factor = 0.0, 1.0
        for k in range(0, degrees - 1, 2):
            terms += factor
            factor *= cosine_2 * (k + 1) / (k + 2)
        both = math.sin(angle) * terms
    return 0.5 + both / 2
