"""Who comes first and second in a column of a table, as it is printed."""

from __future__ import annotations

import math
from collections.abc import Sequence

FIRST, SECOND, UNPLACED = 1, 2, 0


def places(values: Sequence[float], digits: int, *, lower_is_better: bool = True) -> list[int]:
    """1 for the best value, 2 for the second-best, 0 for the others; values printed alike share their place.

    digits : after the point, as printed. Missing values (NaN) are not placed.
    """
    shown = [round(value, digits) if math.isfinite(value) else math.nan for value in values]
    competing = sorted({value for value in shown if math.isfinite(value)}, reverse=not lower_is_better)
    place = dict(zip(competing, (FIRST, SECOND), strict=False))
    return [place.get(value, UNPLACED) for value in shown]
