"""Post-hoc calibrators behind one interface.

`CALIBRATORS[name]().fit(logits, labels, feature=None)` returns a fitted object that predicts, by
`predict_proba(logits, feature=None)`, and carries what it learnt. Every module of this folder is imported, and every
class in it that has a `name` is registered: a new calibrator is one file.
"""

import importlib
import pkgutil

from engine.calibrators.base import REGISTERED, Calibrator, Fitted
from engine.calibrators.kernel_family import CV_NLL, Bandwidth, FittedKernel, KernelCalibrator, KernelPrediction
from engine.calibrators.samples import Samples

_ORDER = ("none", "ts", "ets", "vs", "cts", "pts", "hb", "bbq", "isotonic", "sbece", "lc", "rcmmc")
"""As in the paper's tables; others follow, and the kernel family comes last."""


def _place(calibrator: type[Calibrator]) -> tuple[bool, int]:
    known = calibrator.name in _ORDER
    return issubclass(calibrator, KernelCalibrator), _ORDER.index(calibrator.name) if known else len(_ORDER)


for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

CALIBRATORS: dict[str, type[Calibrator]] = {
    calibrator.name: calibrator for calibrator in sorted(REGISTERED, key=_place)
}
