"""Arithmetic on printed numbers: each stands for all the numbers that round to it.

A printed 0.193 means [0.1925, 0.1935]. What is computed from printed numbers is an interval too; two numbers contradict
each other only when their intervals have nothing in common.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

TOLERANCE = 1e-9
"""Widens comparisons, so that a number exactly half-way between two printed ones fits both."""


@dataclass(frozen=True)
class Rounded:
    """A number known up to rounding: `value` as computed from the printed numbers, and the interval it may lie in."""

    value: float
    low: float
    high: float

    def __add__(self, other: Rounded | float) -> Rounded:
        right = exactly(other)
        return Rounded(self.value + right.value, self.low + right.low, self.high + right.high)

    def __neg__(self) -> Rounded:
        return Rounded(-self.value, -self.high, -self.low)

    def __sub__(self, other: Rounded | float) -> Rounded:
        return self + (-exactly(other))

    def __mul__(self, other: Rounded | float) -> Rounded:
        right = exactly(other)
        corners = [left * factor for left in (self.low, self.high) for factor in (right.low, right.high)]
        return Rounded(self.value * right.value, min(corners), max(corners))

    def __truediv__(self, other: Rounded | float) -> Rounded:
        right = exactly(other)
        if right.low <= 0 <= right.high:
            # Nothing can be said about a ratio whose denominator may be zero.
            return Rounded(self.value / right.value if right.value else math.nan, -math.inf, math.inf)
        corners = [left / divisor for left in (self.low, self.high) for divisor in (right.low, right.high)]
        return Rounded(self.value / right.value, min(corners), max(corners))

    def __abs__(self) -> Rounded:
        low = 0.0 if self.low <= 0 <= self.high else min(abs(self.low), abs(self.high))
        return Rounded(abs(self.value), low, max(abs(self.low), abs(self.high)))

    def may_equal(self, other: Rounded | float) -> bool:
        """Whether some number fits both."""
        right = exactly(other)
        return self.low <= right.high + TOLERANCE and right.low <= self.high + TOLERANCE

    def fits_within(self, bound: Rounded | float) -> bool:
        """Whether a derived quantity may be no larger than a bound; a common end is enough."""
        return self.low <= exactly(bound).high + TOLERANCE

    def surely_below(self, other: Rounded | float) -> bool:
        """Whether self < other whatever the digits that were not printed.

        Intervals that only touch are in order too: their common end rounds to one of the two printed numbers, not both.
        """
        return self.high <= exactly(other).low + TOLERANCE

    def may_be_at_most(self, other: Rounded | float) -> bool:
        """Whether self <= other is possible."""
        return not exactly(other).surely_below(self)


def exactly(value: Rounded | float) -> Rounded:
    """A number without rounding (a count, a constant)."""
    return value if isinstance(value, Rounded) else Rounded(float(value), float(value), float(value))


def decimals(printed: str) -> int:
    """The number of digits after the point of a printed number."""
    return len(printed.partition(".")[2])


def rounded(value: float, printed: str) -> Rounded:
    """`value`, up to half a unit of the last decimal in `printed`."""
    half = 0.5 * 10.0 ** -decimals(printed)
    return Rounded(value, value - half, value + half)


def ordered(values: Iterable[Rounded]) -> list[Rounded]:
    """From the smallest to the largest."""
    return sorted(values, key=lambda number: number.value)


def total(values: Sequence[Rounded]) -> Rounded:
    return sum(values, exactly(0.0))


def mean(values: Sequence[Rounded]) -> Rounded:
    return total(values) / len(values)


def _std(values: Sequence[float], ddof: int) -> float:
    centre = sum(values) / len(values)
    return math.sqrt(sum((value - centre) ** 2 for value in values) / (len(values) - ddof))


def _smallest_std(values: Sequence[Rounded], ddof: int) -> float:
    """Smallest standard deviation over the box of the intervals.

    The sum of squares about the mean is min_m sum (x - m)^2, so its smallest value over the box is
    min_m sum dist(m, [low, high])^2: convex and quadratic between consecutive interval ends.
    """

    def cost(centre: float) -> float:
        return sum(max(value.low - centre, 0.0, centre - value.high) ** 2 for value in values)

    ends = sorted({end for value in values for end in (value.low, value.high)})
    best = min(cost(end) for end in ends)
    for left, right in pairwise(ends):
        middle = (left + right) / 2
        pulls = [value.low for value in values if value.low > middle]
        pulls += [value.high for value in values if value.high < middle]
        if pulls and left <= (vertex := sum(pulls) / len(pulls)) <= right:
            best = min(best, cost(vertex))
    return math.sqrt(best / (len(values) - ddof))


def std(values: Sequence[Rounded], ddof: int) -> Rounded:
    """Standard deviation; over the box of the intervals it is convex, so its largest value is at a corner."""
    corners = product(*((value.low, value.high) for value in values))
    return Rounded(
        _std([value.value for value in values], ddof),
        _smallest_std(values, ddof),
        max(_std(corner, ddof) for corner in corners),
    )


def farthest(std_of_all: Rounded, n: int) -> Rounded:
    """How far one of n numbers may lie from their mean when their standard deviation is s.

    sqrt(n - 1) s if s divides by n, (n - 1) / sqrt(n) s if it divides by n - 1; the first is larger and is taken,
    because the paper does not say which it uses.
    """
    return std_of_all * math.sqrt(n - 1)
