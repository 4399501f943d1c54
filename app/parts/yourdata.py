"""What each page can and cannot show of one run, from what the run holds. No Streamlit in here."""

from __future__ import annotations

import pandas as pd

from app.registry import PAGES
from engine.core.types import RunData

_WHY = {
    "feature": "it needs routing entropies, logits or a score of yours",
    "logits": "it needs logits or class probabilities",
    "predictions": "it needs the predicted classes",
    "profile": "it needs routing entropies by layer",
    "columns": "it needs routing entropies or a score of yours",
    "training": "it needs what was recorded during training",
    "runs": "it needs runs of other seeds",
}
_PARTS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "overview": (("both tests on this run", ("feature",)),),
    "reliability": (
        ("confidence against accuracy", ()),
        ("the same after calibration", ("logits",)),
        ("class by class", ("predictions",)),
    ),
    "mechanism": (
        ("a feature across samples", ()),
        ("routing across depth", ("profile",)),
        ("routing during training", ("training",)),
    ),
    "gap": (("accuracy by tertile at the same confidence", ("feature",)),),
    "null": (("the exact null of the gap", ("feature",)),),
    "sweep": (("this run's line", ("feature",)), ("stability across seeds", ("runs",))),
    "controls": (("power and false alarms for these samples", ("feature",)),),
    "bandwidth": (
        ("what the kernel smooths", ("feature",)),
        ("AR-CondCal at any bandwidth", ("logits", "feature")),
    ),
    "features": (("the paper's features side by side", ()), ("the search for a routing scalar", ("profile",))),
    "calibrators": (("the calibrators on two halves of this run", ("logits",)),),
    "probes": (("the probes on confidence", ()), ("the probes on more than that", ("columns",))),
    "paper": (("the published tables", ()),),
}


def coverage(run: RunData, *, has_logits: bool) -> pd.DataFrame:
    """One row per page: page, shows, lacks (what it cannot show, and what that would need)."""
    held = {
        "logits": has_logits,
        "predictions": run.predictions is not None,
        "profile": run.n_layers > 0,
        "columns": run.n_layers > 0 or bool(run.extra),
        "feature": run.n_layers > 0 or has_logits or bool(run.extra),
        "training": False,
        "runs": False,
    }
    rows = []
    for page in PAGES:
        parts = _PARTS.get(page.name, ())
        shows = [part for part, needs in parts if all(held[need] for need in needs)]
        lacks = [
            f"{part}: {' and '.join(_WHY[need] for need in needs if not held[need])}"
            for part, needs in parts
            if part not in shows
        ]
        if parts:
            rows.append({"page": page.title, "shows": "; ".join(shows), "lacks": "; ".join(lacks)})
    return pd.DataFrame(rows, columns=["page", "shows", "lacks"])
