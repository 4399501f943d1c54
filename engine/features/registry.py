"""Per-sample scalars rho(x) made of the routing profile, the confidence and the logits. All are label-free."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from engine.core import validation
from engine.core.errors import MissingData, UnknownName
from engine.core.types import FloatArray, RunData
from engine.features.custom import CustomFeature, custom, layer_mean, layer_std

_COLUMNS: dict[str, frozenset[str]] = {
    "profile": frozenset({"entropies"}),
    "logits": frozenset({"logits"}),
    "confidence": frozenset(),
}
"""Columns of a run by what a feature needs; confidence and correct are always read."""


@dataclass(frozen=True)
class Feature:
    """A named scalar: how it is shown, what it needs and how it is computed."""

    name: str
    label: str
    formula: str
    needs: str
    compute: Callable[[RunData], FloatArray]

    def available(self, run: RunData) -> bool:
        """Whether the run holds what this feature needs."""
        if self.needs == "logits":
            return run.logits is not None and run.logits.shape[1] > 1
        return self.needs == "confidence" or run.n_layers > 0


def _profile(run: RunData) -> FloatArray:
    if run.n_layers == 0:
        raise MissingData(
            "routing profile",
            "this feature",
            "choose a feature made of confidence, logits or an extra column",
        )
    return validation.matrix("entropies", run.entropies)


def predictive_entropy(run: RunData) -> FloatArray:
    """(n,) -sum_k p_k log p_k / log K."""
    probabilities = run.probs
    n_classes = probabilities.shape[1]
    if n_classes < 2:
        raise MissingData("second class", "a predictive entropy", "choose another feature")
    entropy: FloatArray = -xlogy(probabilities, probabilities).sum(axis=1) / np.log(n_classes)
    return entropy


FEATURES: dict[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature("r_agg", "mean routing entropy", "mean_l H_l", "profile", lambda run: layer_mean(_profile(run))),
        Feature("r_std", "spread of routing entropy over depth", "std_l H_l", "profile",
                lambda run: layer_std(_profile(run))),
        Feature("last", "routing entropy of the last layer", "H_L", "profile", lambda run: _profile(run)[:, -1]),
        Feature("concentration", "routing concentration", "1 - mean_l H_l", "profile",
                lambda run: 1 - layer_mean(_profile(run))),
        Feature("r_agg_x_conf", "routing entropy times confidence", "mean_l H_l * c", "profile",
                lambda run: layer_mean(_profile(run)) * validation.confidence(run.confidence)),
        Feature("pred_entropy", "predictive entropy", "-sum_k p_k log p_k / log K", "logits", predictive_entropy),
        Feature("confidence", "confidence itself", "c", "confidence", lambda run: run.confidence),
    )
}  # fmt: skip


def feature(run: RunData, name: str | CustomFeature) -> FloatArray:
    """(n,) values of a named feature, a custom one, or one of the run's own extra columns."""
    if isinstance(name, CustomFeature):
        return custom(run, name.layers, name.summary, name.times_confidence)
    if isinstance(name, str) and name in FEATURES:
        return validation.vector(f"feature[{name!r}]", FEATURES[name].compute(run))
    if isinstance(name, str) and name in run.extra:
        return validation.vector(f"extra[{name!r}]", run.extra[name])
    raise UnknownName("feature", name if isinstance(name, str) else validation.shown(name), (*FEATURES, *run.extra))


def columns_of(name: str | CustomFeature) -> frozenset[str]:
    """The columns of a run that a feature is made of; a name that is no feature of ours may be an extra column."""
    if isinstance(name, CustomFeature):
        return _COLUMNS["profile"]
    known = isinstance(name, str) and name in FEATURES
    return _COLUMNS[FEATURES[name].needs] if known else frozenset({"extra"})


def available_features(run: RunData) -> list[str]:
    """Names of the features that can be computed for this run, extra columns last."""
    return [name for name, entry in FEATURES.items() if entry.available(run)] + list(run.extra)
