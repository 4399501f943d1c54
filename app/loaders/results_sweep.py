"""What the engine says about the whole cache, computed once for all viewers. Objects are shared: do not change them."""

from __future__ import annotations

from app.cache_summary import CacheSummary, summarise
from app.loaders import results
from app.loaders.keeping import keep
from app.view import View


@keep(max_entries=16)
def _summary(fingerprint: str, feature: str, min_support: int, _view: View) -> CacheSummary:  # noqa: ARG001
    return summarise(results.sweep(_view), _view.runs, _view.feature_label)


def summary(view: View) -> CacheSummary:
    """Everything that the Overview and Sweep pages show, for the chosen feature and minimum support."""
    selection = view.selection
    return _summary(selection.fingerprint, selection.feature, selection.protocol.min_support, view)
