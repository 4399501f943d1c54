"""What the columns of the engine's tables are called on screen, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Mapping

BINS = {
    "bin": "Bin", "lower": "From", "upper": "To", "count": "Samples", "mean_confidence": "Mean confidence",
    "accuracy": "Accuracy", "accuracy_low": "95 % low", "accuracy_high": "95 % high", "gap": "Difference",
}  # fmt: skip
CLASSES = {
    "predicted": "Predicted class", "count": "Samples", "accuracy": "Accuracy", "mean_confidence": "Confidence",
    "gap": "Difference", "gap_low": "95 % low", "gap_high": "95 % high", "ece": "ECE",
}  # fmt: skip
_WHOLE = {"bin", "predicted", "count"}


def decimals(names: Mapping[str, str]) -> dict[str, str]:
    """Three decimals for every column that is neither a name nor a count."""
    return dict.fromkeys(names.keys() - _WHOLE, "%.3f")
