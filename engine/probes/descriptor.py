"""What the full probes are given beside confidence: the routing profile, or what stands in for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.core import validation
from engine.core.types import FloatArray, RunData
from engine.features import check_layers

Kind = Literal["routing", "stand_in", "nothing"]


@dataclass(frozen=True, eq=False)
class Descriptor:
    """(n, L) columns with their names and their numbers among all columns of the run, from 1.

    A `stand_in` is made of a run's extra columns, such as per-block norms.
    """

    kind: Kind
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    values: FloatArray

    @property
    def unit(self) -> str:
        """What a column is called."""
        return "extra columns" if self.kind == "stand_in" else "layers"

    def pick(self, layers: Sequence[int]) -> Descriptor:
        """Some of the columns of a whole descriptor by number, in depth order; none asked for means all."""
        if not layers or self.kind == "nothing":
            return self
        numbers = check_layers(layers, len(self.names))
        columns = [number - 1 for number in numbers]
        return Descriptor(self.kind, tuple(self.names[column] for column in columns), numbers, self.values[:, columns])


def descriptor(run: RunData, layer_names: Sequence[str] | None = None) -> Descriptor:
    """The profile H_1..H_L; without one, the run's extra columns (protocol, section 6); without those, no column."""
    if run.n_layers:
        numbered = [f"layer {layer}" for layer in range(1, run.n_layers + 1)]
        names = validation.names("layer_names", numbered if layer_names is None else layer_names, run.n_layers)
        return Descriptor("routing", names, tuple(range(1, run.n_layers + 1)), run.entropies)
    if run.extra:
        numbers = tuple(range(1, len(run.extra) + 1))
        return Descriptor("stand_in", tuple(run.extra), numbers, np.column_stack(list(run.extra.values())))
    return Descriptor("nothing", (), (), np.empty((run.n_samples, 0)))
