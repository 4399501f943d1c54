"""What each page can and cannot show of one run, from what the run holds. No Streamlit in here."""

import pandas as pd

from app.registry import PAGES
from engine.core.types import RunData

NEEDS = {
    "feature": "it needs routing entropies, logits or a score of yours",
    "logits": "it needs logits or class probabilities",
    "predictions": "it needs the predicted classes",
    "profile": "it needs routing entropies by layer",
    "columns": "it needs routing entropies or a score of yours",
    "training": "it needs entropies recorded during training",
    "runs": "it needs runs of other seeds",
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
        shows = [part for part, needs in page.shows if all(held[need] for need in needs)]
        lacks = [
            f"{part}: {' and '.join(NEEDS[need] for need in needs if not held[need])}"
            for part, needs in page.shows
            if part not in shows
        ]
        if page.shows:
            rows.append({"page": page.title, "shows": "; ".join(shows), "lacks": "; ".join(lacks)})
    return pd.DataFrame(rows, columns=["page", "shows", "lacks"])
