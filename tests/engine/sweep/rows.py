"""Rows as `engine.sweep.diagnose` makes them, for tests that need only a few of their columns."""

import pandas as pd

from engine.sweep import single_models

NONE = float("nan")


def table(*rows: dict[str, object]) -> pd.DataFrame:
    """One run per dictionary, with only what a test sets; corrected p-values come from `single_models`."""
    common = {
        "suite": "test", "backbone": "toy", "dataset": "dice", "variant": "full_ar", "block_size": NONE,
        "max_gap": 0.1, "primary_z": 1.0, "primary_effect": 0.01, "paper_p": 0.5, "primary_p": 0.5,
    }  # fmt: skip
    frame = pd.DataFrame([common | {"run_id": f"r{index}", "seed": index} | row for index, row in enumerate(rows)])
    return single_models(frame)
