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
MULTIPLICITY = {
    "name": "Test", "n_tested": "Runs tested", "expected_by_chance": "Rejections expected by chance",
    "nominal": "Rejections", "benjamini_hochberg": "after Benjamini-Hochberg", "holm": "after Holm",
    "bonferroni": "after Bonferroni", "smallest_p": "Smallest p",
}  # fmt: skip
MULTIPLICITY_FORMATS = {"expected_by_chance": "%.1f", "smallest_p": "%.3g"}
TRUST = {
    "label": "Test", "p": "p on this run", "false_alarm": "False alarms", "detectable": "Gap found 4 times in 5",
    "reading": "Reading",
}  # fmt: skip
TRUST_FORMATS = {"p": "%.4f", "false_alarm": "percent", "detectable": "%.2f"}
_WHOLE = {"bin", "predicted", "count"}


def decimals(names: Mapping[str, str]) -> dict[str, str]:
    """Three decimals for every column that is neither a name nor a count."""
    return dict.fromkeys(names.keys() - _WHOLE, "%.3f")
