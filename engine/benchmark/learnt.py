"""What each fitted method of a benchmark learnt, in words."""

from __future__ import annotations

import pandas as pd

from engine.benchmark.run import BenchmarkResult
from engine.calibrators import CALIBRATORS
from engine.core.labels import counted


def learnt_table(result: BenchmarkResult) -> pd.DataFrame:
    """One row per method: method, label, learnt (a phrase), keeps_prediction, converged, note (or empty).

    A kernel method's phrase also tells how many of its targets on the evaluated half no temperature could reach.
    """
    clipping = {row["method"]: row for row in result.clipping.to_dict("records")}
    rows = []
    for method, fitted in result.fitted.items():
        learnt = fitted.summary
        if method in clipping:
            low, high, tied = (float(clipping[method][name]) for name in ("clipped_low", "clipped_high", "n_tied"))
            learnt += f"; targets clipped: {100 * low:.1f} % at the low end, {100 * high:.1f} % at the high end"
            learnt += f"; {counted(round(tied), 'sample')} with tied top logits left alone" if tied else ""
        kind = CALIBRATORS[method]
        rows.append((method, kind.label, learnt, kind.keeps_argmax, fitted.converged, fitted.note))
    return pd.DataFrame(rows, columns=["method", "label", "learnt", "keeps_prediction", "converged", "note"])
