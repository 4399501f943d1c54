"""Peers that need a hand to be imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any

from tests.bench.runner import installed


def probmetrics_calibrators() -> ModuleType | None:
    """`probmetrics.calibrators`, or None if the package is missing.

    The package asks for numba on import, for solvers that the methods compared here do not use. Without numba a
    stand-in serves for the length of the import, whose compiler leaves functions as they are.
    """
    if not installed("probmetrics"):
        return None
    stand_in = None if installed("numba") else ModuleType("numba")
    if stand_in is not None:
        stand_in.njit = _leave_alone
        sys.modules["numba"] = stand_in
    try:
        from probmetrics import calibrators
    finally:
        if stand_in is not None:
            del sys.modules["numba"]
    module: ModuleType = calibrators
    return module


def _leave_alone(**_settings: bool) -> Callable[[Any], Any]:
    return lambda function: function


@lru_cache
def declare_torchvision_operators() -> object:
    """Let torchmetrics import beside a CPU-only torch, whose torchvision lacks its compiled operators.

    The declarations last as long as the object returned, which the cache of this function keeps.
    """
    import torch

    if hasattr(torch.ops.torchvision, "nms"):
        return None
    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library
