"""Imports timm, also where torchvision's compiled operators do not load.

With a CPU build of torch the registry's torchvision cannot load its extension, and its import then stops at
"operator torchvision::nms does not exist". No backbone here uses these operators, so declaring them is enough.
"""

import importlib
import sys
from functools import cache
from types import ModuleType

import torch

_DECLARATIONS: list[torch.library.Library] = []  # a library is withdrawn when its object dies


def _declare_missing_operators() -> None:
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # type: ignore[no-untyped-call]
    _DECLARATIONS.append(library)


@cache
def load_timm() -> ModuleType:
    """The timm package; torchvision's two missing operators are declared only when its extension did not load."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        _declare_missing_operators()
        importlib.import_module("torchvision")
    return importlib.import_module("timm")
