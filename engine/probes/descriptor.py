"""What the full probes are given beside confidence: the routing profile, or what stands in for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.errors import InvalidInput
from engine.features import check_layers
from engine.types import FloatArray, RunData

Kind = Literal["routing", "stand_in", "nothing"]


@dataclass(frozen=True, eq=False)
class Descriptor:
    """(n, L) columns with their names. A `stand_in` is made of a run's extra columns, such as per-block norms."""

    kind: Kind
    names: tuple[str, ...]
    values: FloatArray

    def pick(self, layers: Sequence[int]) -> Descriptor:
        """Some of the columns, numbered from 1, in their own order; none asked for means all."""
        if not layers or self.kind == "nothing":
            return self
        columns = [layer - 1 for layer in check_layers(layers, len(self.names))]
        return Descriptor(self.kind, tuple(self.names[column] for column in columns), self.values[:, columns])


def descriptor(run: RunData, layer_names: Sequence[str] | None = None) -> Descriptor:
    """The profile H_1..H_L; without one, the run's extra columns (protocol, section 6); without those, no column."""
    if run.n_layers:
        names = tuple(layer_names or (f"layer {layer}" for layer in range(1, run.n_layers + 1)))
        if len(names) != run.n_layers:
            raise InvalidInput("layer_names", f"{run.n_layers} names, one per layer", f"{len(names)}")
        return Descriptor("routing", names, run.entropies)
    if run.extra:
        return Descriptor("stand_in", tuple(run.extra), np.column_stack(list(run.extra.values())))
    return Descriptor("nothing", (), np.empty((run.n_samples, 0)))
