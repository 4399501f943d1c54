"""Dense relative localisation (Liu et al. 2021), the paper's representation control.

For random pairs of output tokens a small network predicts how far apart they lie on the grid,
(|row_1 - row_2| / rows, |column_1 - column_2| / columns), and the L1 error is added to the training loss.
"""

import torch
from torch import Tensor, nn


class RelativeLocalisation(nn.Module):
    """The auxiliary head: concatenated pair (2D) -> hidden -> hidden -> 2 offsets in [0, 1].

    At the paper's scale it has the 512 hidden units and 64 pairs per image of Liu et al.; a micro model gets a head
    and a number of pairs in proportion to its width and its grid, or the head would cost more than the model.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        hidden = min(512, 2 * dim)
        self.predictor = nn.Sequential(
            nn.Linear(2 * dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2)
        )

    def forward(self, grid: Tensor) -> Tensor:
        """Mean L1 error over random pairs of each image; grid is (batch, rows, columns, D)."""
        batch, rows, columns, _ = grid.shape
        tokens = grid.flatten(1, 2)
        n_pairs = min(64, 2 * rows * columns)
        pairs = torch.randint(rows * columns, (2, batch, n_pairs), device=grid.device)
        images = torch.arange(batch, device=grid.device).unsqueeze(1)
        predicted = self.predictor(torch.cat([tokens[images, pairs[0]], tokens[images, pairs[1]]], dim=-1))
        row_offset = (pairs[0] // columns - pairs[1] // columns).abs() / rows
        column_offset = (pairs[0] % columns - pairs[1] % columns).abs() / columns
        return (predicted - torch.stack([row_offset, column_offset], dim=-1)).abs().mean()
