"""Does a probe's prediction of the error come true?"""

from __future__ import annotations

import pandas as pd

from engine.core import validation
from engine.core.grouping import quantile_groups
from engine.probes.result import ProbeResult

N_GROUPS = 20


def predicted_against_actual(result: ProbeResult, probe: str, *, n_groups: int = N_GROUPS) -> pd.DataFrame:
    """Mean of |c - t| against its prediction, in quantile groups of the prediction over the held-out half.

    Columns: predicted (mean of the group), actual, low, high (95 % t interval over the group's samples; missing in a
    group of one), count. The first initialisation speaks, not the mean of several: averaged networks are another,
    better probe. Equal predictions stay in one group, so there may be fewer groups than asked for.
    """
    validation.choice("probe", probe, result.predictions)
    validation.bins(n_groups, "n_groups")
    predicted = result.predictions[probe][0]
    groups = quantile_groups(predicted, n_groups)
    low, high = groups.interval(result.target)
    return pd.DataFrame(
        {
            "predicted": groups.mean(predicted),
            "actual": groups.mean(result.target),
            "low": low,
            "high": high,
            "count": groups.counts,
        }
    )
