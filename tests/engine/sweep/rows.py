"""Rows as `engine.sweep.diagnose` makes them, for tests that need only a few of their columns."""

import pandas as pd

from engine.sweep import single_models

NONE = float("nan")


def table(*rows: dict[str, object]) -> pd.DataFrame:
    """One run per dictionary, with only what a test sets; corrected p-values come from `single_models`."""
    common = {
        "suite": "test", "backbone": "toy", "dataset": "dice", "variant": "full_ar", "block_size": NONE,
        "accuracy": 0.9, "raw_ece": 0.02, "max_gap": 0.1, "weighted_gap": 0.05, "primary_effect": 0.01,
        "primary_se": 0.02, "p_value": 0.5, "primary_p": 0.5, "shape_p": 0.5, "paper_p": 0.5, "images": None,
        "scores": None,
    }  # fmt: skip
    frame = pd.DataFrame([common | {"run_id": f"r{index}", "seed": index} | row for index, row in enumerate(rows)])
    return single_models(frame)
