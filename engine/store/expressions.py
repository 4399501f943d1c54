"""Features as SQL that arrives at the same doubles as `engine.features`.

Sums run in depth order in double precision, written out with explicit parentheses, and every step is its own
sub-select, so DuckDB performs the same IEEE operations in the same order as the numpy code does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.core.errors import UnknownName
from engine.features import CustomFeature, check_layers, layer_depths
from engine.store.connection import ALIAS

_SAMPLE = "sample_id, confidence, correct"


def _double(value: float) -> str:
    """A literal that DuckDB reads as this very double (a bare 0.1 would be a DECIMAL)."""
    return f"'{float(value)!r}'::DOUBLE"


def _sum(terms: Sequence[str]) -> str:
    total = terms[0]
    for term in terms[1:]:
        total = f"({total} + {term})"
    return total


def _mean(source: str, names: Sequence[str]) -> str:
    return f"SELECT {_SAMPLE}, {_sum(names)} / {_double(len(names))} AS rho FROM ({source})"


def _std(source: str, names: Sequence[str]) -> str:
    centred = f"SELECT *, {_sum(names)} / {_double(len(names))} AS centre FROM ({source})"
    deviations = ", ".join(f"{name} - centre AS {name}" for name in names)
    squares = _sum([f"{name} * {name}" for name in names])
    return (
        f"SELECT {_SAMPLE}, sqrt({squares} / {_double(len(names))}) AS rho "
        f"FROM (SELECT {_SAMPLE}, {deviations} FROM ({centred}))"
    )


def _slope(source: str, names: Sequence[str]) -> str:
    depth = layer_depths([int(name.removeprefix("h")) for name in names])  # columns are called after their layers
    total = _sum([f"{_double(weight)} * {name}" for weight, name in zip(depth, names, strict=True)])
    return f"SELECT {_SAMPLE}, {total} / {_double(float(depth @ depth))} AS rho FROM ({source})"


def _plain(template: str) -> Callable[[str, Sequence[str]], str]:
    def build(source: str, names: Sequence[str]) -> str:
        value = template.format(all=", ".join(names), first=names[0], last=names[-1])
        return f"SELECT {_SAMPLE}, {value} AS rho FROM ({source})"

    return build


SUMMARY_SQL: dict[str, Callable[[str, Sequence[str]], str]] = {
    "mean": _mean,
    "std": _std,
    "max": _plain("greatest({all})"),
    "min": _plain("least({all})"),
    "range": _plain("greatest({all}) - least({all})"),
    "first": _plain("{first}"),
    "last": _plain("{last}"),
    "slope": _slope,
}
"""Every summary of `engine.features.SUMMARIES`."""

_PROFILE_FEATURES = {"r_agg": "mean", "concentration": "mean", "r_agg_x_conf": "mean", "r_std": "std", "last": "last"}
_OF_SUMMARY = {"concentration": "1 - rho", "r_agg_x_conf": "rho * confidence"}


def _profile(layers: Sequence[int], summary: str, value: str) -> str:
    names = [f"h{layer}" for layer in layers]
    chosen = ", ".join(f"entropies[{layer}]::DOUBLE AS h{layer}" for layer in layers)
    source = f"SELECT {_SAMPLE}, {chosen} FROM {ALIAS}.samples WHERE run_id = $run_id"
    return f"SELECT {_SAMPLE}, {value} AS rho FROM ({SUMMARY_SQL[summary](source, names)})"


def feature_select(feature: str | CustomFeature, n_layers: int, extra_names: Sequence[str]) -> str:
    """A query for (sample_id, confidence, correct, rho) of run `$run_id`; the feature is known to be available."""
    if isinstance(feature, CustomFeature):
        value = "rho * confidence" if feature.times_confidence else "rho"
        return _profile(check_layers(feature.layers, n_layers), feature.summary, value)
    if feature in _PROFILE_FEATURES:
        value = _OF_SUMMARY.get(feature, "rho")
        return _profile(range(1, n_layers + 1), _PROFILE_FEATURES[feature], value)
    if feature == "confidence":
        return f"SELECT {_SAMPLE}, confidence AS rho FROM {ALIAS}.samples WHERE run_id = $run_id"
    if feature == "pred_entropy":
        # Both tables hold a run's rows in the order of sample_id, so they line up without a join's hash table; rows
        # that do not are dropped here and missed when the counts are added up.
        return f"""
            SELECT {_SAMPLE}, pred_entropy(logits) AS rho
            FROM (SELECT {_SAMPLE} FROM {ALIAS}.samples WHERE run_id = $run_id)
            POSITIONAL JOIN (SELECT sample_id AS same_id, logits FROM {ALIAS}.logits WHERE run_id = $run_id)
            WHERE sample_id = same_id"""
    if feature in extra_names:
        position = list(extra_names).index(feature) + 1
        return f"SELECT {_SAMPLE}, extra[{position}]::DOUBLE AS rho FROM {ALIAS}.samples WHERE run_id = $run_id"
    raise UnknownName("feature", feature, extra_names)
