"""Mixture of experts: MLPs in E copies, of which a router gives each token the top k.

Per token, p = softmax(W x) over the experts, and the output is sum_{i in top k} g_i MLP_i(x). With k = 1 the weight is
g = p (Switch Transformer, Fedus et al. 2022), with more the chosen ones are rescaled to sum to one (GShard, Lepikhin et
al. 2021). No token is dropped, so that a prediction does not depend on the other samples of its batch.

The load-balancing loss of a router is E sum_i f_i P_i: f_i is the share of assignments that expert i gets, P_i its mean
probability over the tokens. It is 1 where the load is even.
"""

import copy

import torch
from torch import Tensor, nn

from cache_builder.models.routed import Routed, as_it_is, at_least_single


class RoutedMlp(Routed):
    """Takes the place of a block's MLP (D -> D); its experts are that MLP with fresh weights each."""

    def __init__(self, mlp: nn.Module, dim: int, n_experts: int, top_k: int, place: str) -> None:
        super().__init__()
        self.router = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(copy.deepcopy(mlp) for _ in range(n_experts))
        for module in self.modules():
            if isinstance(module, nn.Linear):  # as timm starts the linear layers of a transformer
                nn.init.trunc_normal_(module.weight, std=0.02)
        self.top_k = top_k
        self.place = place
        self.balance = torch.zeros(())
        """The load-balancing loss of the latest forward pass."""

    def places(self) -> list[tuple[str, int]]:
        return [(self.place, len(self.experts))]

    def forward(self, state: Tensor) -> Tensor:
        tokens = state.reshape(-1, state.shape[-1])
        with as_it_is(state.device):  # a router in half precision makes training unstable (Fedus et al., section 2.4)
            logits = at_least_single(tokens) @ at_least_single(self.router.weight).T
        probability = torch.softmax(logits, dim=1)
        if self.recorder is not None:
            self.recorder.add(probability.T, batch=len(state))
        weights, chosen = probability.topk(self.top_k, dim=1)
        if self.top_k > 1:
            weights = weights / weights.sum(dim=1, keepdim=True)
        n_experts = len(self.experts)
        share = nn.functional.one_hot(chosen, n_experts).to(probability.dtype).mean(dim=(0, 1))
        self.balance = n_experts * (share * probability.mean(dim=0)).sum()
        order = chosen.flatten().argsort(stable=True)  # assignments by expert, so that each expert runs once
        if order.is_meta:  # has no values to count
            sizes = [len(order) // n_experts] * (n_experts - 1)
            sizes.append(len(order) - sum(sizes))
        else:
            sizes = chosen.flatten().bincount(minlength=n_experts).tolist()
        parts = torch.split(tokens.index_select(0, order // self.top_k), sizes)
        outputs = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        outputs = outputs.index_select(0, order.argsort()).view(len(tokens), self.top_k, -1)
        return (outputs * weights.unsqueeze(-1)).sum(dim=1).to(outputs.dtype).view_as(state)


def balance_loss(model: nn.Module) -> Tensor:
    """The sum of the routers' load-balancing losses in the latest forward pass."""
    return torch.stack([module.balance for module in model.modules() if isinstance(module, RoutedMlp)]).sum()
