"""Routing that modules take in or give out: gates and routers by name, and models that return their router logits."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cache_builder.models.routed import at_least_single
from cache_builder.taps.capture import Capture, Tap
from engine.core import validation
from engine.core.errors import InvalidInput

_GATES = ("gate", "router")
_SUM_TOLERANCE = 2e-2  # of weights in half precision


@dataclass(frozen=True)
class Call:
    """One call of a module in a pass: its path, what it took and what it returned, and the whole model."""

    path: str
    module: nn.Module
    inputs: tuple[Any, ...]
    output: Any
    model: nn.Module


def gate_weights(call: Call) -> Tensor:
    """softmax over the last axis of what a gate returns; of several results the first, as Hugging Face's routers do."""
    logits = call.output[0] if isinstance(call.output, tuple | list) else call.output
    return torch.softmax(at_least_single(logits), dim=-1)


def residual_weights(call: Call) -> Tensor:
    """alpha of Attention Residuals whose `*_res_norm` returns the keys (T, batch, tokens, D) and whose `*_res_proj`
    holds the query as its weight: softmax over the sources, which come last."""
    query = call.model.get_submodule(call.path.replace("res_norm", "res_proj")).weight
    assert isinstance(query, Tensor)
    keys, query = at_least_single(call.output), at_least_single(query).reshape(-1)
    return torch.softmax(keys @ query, dim=0).movedim(0, -1)


@dataclass(frozen=True)
class ModuleTap(Tap):
    """Modules whose path matches a pattern (`*.gate`), and a function from their `Call` to weights.

    read : gives alpha with the samples first and the alternatives last, (batch, tokens, T) or (batch * tokens, T), or
        the whole numbers of the alternatives chosen, (..., k); then `size` says how many alternatives there are. A
        softmax over what the module returns if not given.
    """

    pattern: str
    read: Callable[[Call], Tensor] = gate_weights
    size: int | None = None
    name: ClassVar[str] = "module"

    def __post_init__(self) -> None:
        if not callable(self.read):
            raise InvalidInput("read", "a function from a module's call to weights", repr(self.read))
        if self.size is not None:
            validation.whole("size", self.size, 2)

    def attach(self, model: nn.Module, capture: Capture, undo: ExitStack) -> None:
        paths = {path: module for path, module in model.named_modules() if path}
        fitting = {path: module for path, module in paths.items() if fnmatchcase(path, self.pattern)}
        _hook(model, capture, undo, fitting, lambda call: _take(capture, call.path, self.read(call), self.size))


def _take(capture: Capture, path: str, alpha: Tensor, size: int | None) -> None:
    """Weights are weighed, whole numbers are choices; neither is guessed from the values."""
    if not alpha.is_floating_point():
        if size is None:
            raise InvalidInput("size", f"the number of alternatives that {path} chooses from", "none")
        capture.add_choices(path, alpha.long(), size)
        return
    if not capture.places and not bool(((alpha.sum(dim=-1) - 1).abs() < _SUM_TOLERANCE).all()):
        raise InvalidInput(
            "read", f"weights of {path} that add up to 1 along the last axis", f"{alpha.sum(dim=-1)[:1]}"
        )
    capture.add(path, alpha)


def _hook(
    model: nn.Module, capture: Capture, undo: ExitStack, modules: dict[str, nn.Module], take: Callable[[Call], None]
) -> None:
    """Hooks that hand every call in a pass to `take`; without a module what is there is remembered."""
    for path, module in modules.items():

        def watch(_module: nn.Module, inputs: tuple[Any, ...], output: Any, path: str = path) -> None:
            if capture.depth:  # nothing is recorded for gradients: checkpointing counts what a pass records
                with torch.no_grad():
                    take(Call(path, _module, inputs, output, model))

        undo.callback(module.register_forward_hook(watch).remove)
    if not modules:
        for path, module in model.named_modules():
            capture.saw(type(module).__name__, path)


@dataclass(frozen=True)
class RouterTap(Tap):
    """Routers of a mixture of experts: softmax of their logits over the experts.

    Gates are the modules that a Hugging Face model says its router logits come from, else those called `gate` or
    `router`, which return logits or only the numbers of the experts chosen (then `size` is the number of experts).
    Without any, the `router_logits` that the model returns are taken. Routers that weigh otherwise (sigmoid, say) are
    read by `ModuleTap` with a `read` of their own.
    """

    size: int | None = None
    name: ClassVar[str] = "router"

    def attach(self, model: nn.Module, capture: Capture, undo: ExitStack) -> None:
        gates = dict(_gates(model))

        def take(call: Call) -> None:
            found = call.output[gates[call.path][1]] if isinstance(call.output, tuple | list) else call.output
            _take(capture, call.path, _as_weights(found), self.size)

        def finish(output: object) -> None:
            returned = output.get("router_logits") if isinstance(output, dict) else getattr(output, "router_logits", ())
            for number, logits in enumerate(returned or (), start=1):
                _take(capture, f"layer {number} router", _as_weights(logits), self.size)

        _hook(model, capture, undo, {path: module for path, (module, _) in gates.items()}, take)
        if not gates:
            capture.finish = finish


def _as_weights(found: Tensor) -> Tensor:
    return torch.softmax(at_least_single(found.detach()), dim=-1) if found.is_floating_point() else found


def _gates(model: nn.Module) -> Iterator[tuple[str, tuple[nn.Module, int]]]:
    """Path, module and which of its results are the logits."""
    declared = [getattr(module, "_can_record_outputs", None) or {} for module in model.modules()]
    recorders = [known["router_logits"] for known in declared if "router_logits" in known]
    for path, module in model.named_modules():
        index = next((r.index for r in recorders if isinstance(module, r.target_class)), None)
        if index is not None or (not recorders and path.rpartition(".")[2] in _GATES):
            yield path, (module, index or 0)
