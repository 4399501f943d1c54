"""One interface for all post-hoc calibrators: `fit` returns a fitted object that predicts and tells what was learnt."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from engine.calibrators.samples import Samples
from engine.core.errors import InvalidInput
from engine.core.threads import keep_blas_to_one_thread
from engine.core.types import FloatArray

LOGITS, FEATURE = "logits", "feature"


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted(ABC):
    """A calibrator after fitting.

    Attributes
    ----------
    name : key in `CALIBRATORS`.
    n_samples, n_classes : size of the calibration set.
    needs_feature : whether predicting needs rho.
    converged : whether the fit reached its optimum; always true for methods without an optimiser.
    note : what a reader should know about this fit (a fallback taken, a solver's own words), or empty.
    """

    name: str
    n_samples: int
    n_classes: int
    needs_feature: bool = False
    converged: bool = True
    note: str = ""

    def predict_proba(self, logits: ArrayLike, feature: ArrayLike | None = None) -> FloatArray:
        """(n, K) calibrated probabilities; a feature given to a method without use for one is ignored."""
        keep_blas_to_one_thread()
        samples = Samples.checked(logits, feature=feature if self.needs_feature else None)
        if samples.n_classes != self.n_classes:
            raise InvalidInput("logits", f"{self.n_classes} classes, as in the fit", f"{samples.n_classes}")
        if self.needs_feature and samples.feature is None:
            raise InvalidInput("feature", f"one value per sample, which {self.name} needs", "None")
        return self.transform(samples)

    @abstractmethod
    def transform(self, samples: Samples) -> FloatArray:
        """`predict_proba` on samples that are already checked."""

    @property
    def learned(self) -> Mapping[str, object]:
        """What the fit found: what the method's own fields hold, by name."""
        return {own.name: getattr(self, own.name) for own in fields(self)[len(fields(Fitted)) :]}

    @property
    @abstractmethod
    def summary(self) -> str:
        """What the fit found in one short phrase, such as `temperature 0.823: sharper than the softmax`."""


class Calibrator(ABC):
    """A method before fitting.

    Class attributes
    ----------------
    name : key in `CALIBRATORS`. label : how it is shown. reference : who proposed it.
    keeps_argmax : whether the predicted class never changes.
    needs : what `fit` must be given, of "logits" and "feature".
    """

    name: ClassVar[str]
    label: ClassVar[str]
    reference: ClassVar[str]
    keeps_argmax: ClassVar[bool]
    needs: ClassVar[tuple[str, ...]] = (LOGITS,)

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):  # a shared base class has none
            REGISTERED.append(cls)

    def fit(self, logits: ArrayLike, labels: ArrayLike, feature: ArrayLike | None = None) -> Fitted:
        """Learn from (n, K) logits, (n,) labels and, where `needs` says so, (n,) feature values."""
        keep_blas_to_one_thread()
        needs_feature = FEATURE in self.needs
        samples = Samples.checked(logits, labels, feature if needs_feature else None)
        if needs_feature and samples.feature is None:
            raise InvalidInput("feature", f"one value per sample, which {self.name} needs", "None")
        return self.fit_samples(samples)

    def about(self, samples: Samples) -> dict[str, Any]:
        """What every `Fitted` is made with: the method, and the size of the set it was fitted on."""
        return {"name": self.name, "n_samples": samples.n_samples, "n_classes": samples.n_classes}

    @abstractmethod
    def fit_samples(self, samples: Samples) -> Fitted:
        """`fit` on samples that are already checked and carry labels."""


REGISTERED: list[type[Calibrator]] = []
"""Every calibrator whose module was imported."""


def span(values: ArrayLike) -> str:
    """`0.74 to 0.91`, or `0.74` where nothing varies at that precision."""
    numbers = np.asarray(values, dtype=np.float64)
    low, high = (f"{value + 0.0:.2f}".replace("-0.00", "0.00") for value in (numbers.min(), numbers.max()))
    return low if low == high else f"{low} to {high}"
