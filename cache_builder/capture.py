"""What a forward pass leaves behind, handed out one (batch, L) matrix per pass."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from engine.core.errors import InvalidInput


class Capture:
    """The values of the latest forward pass. `names` says what the L columns are, once a pass was taken."""

    def __init__(self, take: Callable[[], tuple[list[str], Tensor]]) -> None:
        self.names: list[str] = []
        self._take = take

    def take(self) -> Tensor:
        """(batch, L) values of the one forward pass since the last call."""
        names, values = self._take()
        if self.names and names != self.names:
            raise InvalidInput(
                "backbone", f"a model that runs the same {len(self.names)} blocks every time", f"{len(names)} of them"
            )
        self.names = names
        return values
