"""Chosen cells of a figure: ranges of confidence and feature, and predicted classes, as they stand in an address.

One cell is `c=0.8:0.9,f=-inf:0.31,k=7`, cells that belong together are joined by `;`, and choices out of an earlier
choice by `&`. Edges are written with all their digits, so that the samples are those that the figure counted.
"""

import math
from dataclasses import dataclass

import numpy as np

from engine.core.errors import InvalidInput
from engine.core.types import BoolArray, FloatArray, RunData

_MOST = 5000
"""Characters of a choice: every cell of the finest figure, and no more."""
Range = tuple[float, float]


@dataclass(frozen=True)
class Cell:
    """confidence : [low, high), with 1 in the last bin; feature : (low, high], as tertiles are cut."""

    confidence: Range | None = None
    feature: Range | None = None
    predicted: int | None = None

    @property
    def code(self) -> str:
        parts = [f"{name}={low!r}:{high!r}" for name, (low, high) in self._ranges.items()]
        return ",".join([*parts, *([] if self.predicted is None else [f"k={self.predicted}"])])

    @property
    def _ranges(self) -> dict[str, Range]:
        return {name: each for name, each in (("c", self.confidence), ("f", self.feature)) if each is not None}

    def describe(self) -> str:
        """The cell in words."""
        parts = [] if self.confidence is None else ["confidence {:.2f} to {:.2f}".format(*self.confidence)]
        if self.feature is not None:
            low, high = self.feature
            below, above = f"feature to {high:.3g}", f"feature above {low:.3g}"
            parts.append(
                below if low == -math.inf else above if high == math.inf else f"feature {low:.3g} to {high:.3g}"
            )
        return ", ".join([*parts, *([] if self.predicted is None else [f"predicted class {self.predicted}"])])

    def rows(self, run: RunData, rho: FloatArray | None) -> BoolArray:
        """(n,) which samples are in it; a part that the run lacks leaves none out."""
        kept = np.ones(run.n_samples, dtype=bool)
        if self.confidence is not None:
            low, high = (np.asarray(edge, run.confidence.dtype) for edge in self.confidence)
            kept &= (run.confidence >= low) & ((run.confidence < high) | (high >= 1))
        if self.feature is not None and rho is not None:
            kept &= (rho > np.float64(self.feature[0])) & (rho <= np.float64(self.feature[1]))
        if self.predicted is not None and run.predictions is not None:
            kept &= run.predictions == self.predicted
        return kept


def bin_cell(number: int, n_bins: int) -> Cell:
    """An equal-width bin of confidence."""
    return Cell((number / n_bins, (number + 1) / n_bins))


def tertile_range(position: int, cuts: tuple[float, float]) -> Range:
    """The low (0), middle or high (2) third of the feature."""
    edges = (-math.inf, *map(float, cuts), math.inf)
    return edges[position], edges[position + 1]


def parse(code: str) -> list[list[Cell]]:
    """The choices of an address, each a list of cells; nothing for an empty one."""
    if len(code) > _MOST:
        raise InvalidInput("cells", f"at most {_MOST} characters", f"{len(code)}")
    return [[_cell(each) for each in choice.split(";")] for choice in code.split("&")] if code else []


def cell_rows(code: str, run: RunData, rho: FloatArray | None) -> BoolArray:
    """(n,) which samples lie in a cell of every choice."""
    kept = np.ones(run.n_samples, dtype=bool)
    for choice in parse(code):
        kept &= np.logical_or.reduce([cell.rows(run, rho) for cell in choice])
    return kept


def _cell(code: str) -> Cell:
    found: dict[str, Range | int] = {}
    for part in code.split(","):
        name, _, value = part.partition("=")
        try:
            if name == "k":
                found["predicted"] = int(value)
            else:
                low, high = map(float, value.split(":"))
                if not low <= high:  # NaN too
                    raise ValueError
                found[{"c": "confidence", "f": "feature"}[name]] = low, high
        except (ValueError, KeyError):
            raise InvalidInput("cells", "cells such as c=0.8:0.9,f=0.2:0.31,k=7", repr(part[:40])) from None
    return Cell(**found)
