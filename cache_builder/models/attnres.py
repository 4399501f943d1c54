"""Attention Residuals as published (arXiv 2603.15031): the mixture takes the place of the residual connection.

A block is b successive sub-layers (attention and MLP count as one each). Its output is the sum of theirs, and nothing
is added across blocks. A sub-layer, and at the end the output, reads h = sum_t alpha_t V_t over

    V = [the input (a ViT's embedding), the outputs of the earlier blocks, the partial sum of the current one],

with alpha as in `routed`, per token; then partial <- partial + f(norm(h)). The sub-layer after i others has
T = 1 + ceil(i / b) sources, so b = 1 is the publication's Full AttnRes, where each sub-layer's output is a source.
"""

import itertools

from torch import Tensor

from cache_builder.models.routed import RoutedBlocks, Source, at_least_single, scores


class AttentionResidualBlocks(RoutedBlocks):
    """A stage whose sub-layers read mixtures of what came before, and whose output is one, with a query of its own."""

    mixes_output = True

    def n_sources(self, row: int) -> int:
        return 1 + -(-row // self.chunk)

    def forward(self, state: Tensor) -> Tensor:
        queries = self.scaled_queries()
        sources = [Source(state, scores(state, queries[1:]), 1)]
        partial: Tensor | None = None  # of the current block, before its first sub-layer
        steps = itertools.product(self.children(), self.sublayers.values())
        for row, (block, sublayer) in enumerate(steps):
            output = sublayer(block, self._read(row, queries, sources, partial))
            # Half precision of autocast is left here, as the running sum of a plain residual block does.
            partial = at_least_single(output) if partial is None else partial + output
            if (row + 1) % self.chunk == 0:
                sources.append(Source(partial, scores(partial, queries[row + 1 :]), row + 1))
                partial = None
        return self._read(len(queries) - 1, queries, sources, partial)

    def _read(self, row: int, queries: Tensor, sources: list[Source], partial: Tensor | None) -> Tensor:
        """h of a row: the mixture, or the only source."""
        states, logits = [source.state for source in sources], [source.score(row) for source in sources if row > 0]
        if partial is not None:
            states, logits = [*states, partial], [*logits, scores(partial, queries[row])]
        return states[0] if len(states) == 1 else self.mixed(states, logits)
