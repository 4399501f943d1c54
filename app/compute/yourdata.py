"""What Your data shows beside the verdict."""

import pandas as pd

from app.compute.keep import keep
from app.state.view import View
from engine.verdict.features import judge_scores


@keep(max_entries=16, by=lambda view: view.selection.of_any_feature, spinner="Testing every score")
def scores(view: View) -> pd.DataFrame:
    """Both tests on every feature of the chosen samples, whatever feature is chosen."""
    return judge_scores(view.run_with_logits, settings=view.selection.protocol.test_settings)
