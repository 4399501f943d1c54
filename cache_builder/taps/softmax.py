"""Every softmax of a forward pass, in modules and plain functions alike, and what a pass contains."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import FrameType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from cache_builder.taps.capture import Capture, Tap, tap
from engine.core import validation
from engine.core.errors import InvalidInput

SOFTMAXES: frozenset[object] = frozenset({torch.softmax, functional.softmax, Tensor.softmax, torch.special.softmax})
ATTENTION: object = functional.scaled_dot_product_attention


class Watching(TorchFunctionMode):
    """Hands every call whose function is listed, with its result, to a reader, and changes nothing.

    The reader runs with the mode off, so what it computes is not seen again.
    """

    def __init__(self, model: nn.Module, readers: Mapping[object, Callable[..., None]]) -> None:
        super().__init__()
        self.readers = readers
        self.paths = {id(module): path for path, module in model.named_modules()}

    def __torch_function__(self, function: Any, types: object, arguments: Any = (), keywords: Any = None) -> Any:
        result = function(*arguments, **keywords) if keywords else function(*arguments)
        reader = self.readers.get(function)
        if reader is not None:
            reader(self._enclosing(), result, *arguments, **(keywords or {}))
        return result

    def _enclosing(self) -> str:
        """The path of the innermost module that is being called: torch's own frames of a call hold it as `self`."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if code.co_argcount and code.co_varnames[0] == "self":
                path = self.paths.get(id(frame.f_locals.get("self")))
                if path is not None:
                    return path
            frame = frame.f_back
        return ""


def softmax_axis(ndim: int, dim: int | None) -> int:
    """The axis counted from 0; without one torch takes the first or second, as it always did."""
    return (0 if ndim in (0, 1, 3) else 1) if dim is None else dim % max(ndim, 1)


@dataclass(frozen=True)
class SoftmaxTap(Tap):
    """Every softmax of a pass that fits: over this axis, of a tensor of this rank, over so many alternatives (size), in
    a module whose path matches the pattern `inside` (`blocks.*`).

    Softmaxes inside fused kernels (attention, custom CUDA) are not seen. While functions are watched, torch leaves the
    fused inference kernel of `nn.MultiheadAttention` for the plain one, whose last digits differ.
    """

    axis: int | None = None
    rank: int | None = None
    size: int | None = None
    inside: str | None = None
    name: ClassVar[str] = "softmax"

    def __post_init__(self) -> None:
        for argument, minimum in (("rank", 1), ("size", 2)):
            if getattr(self, argument) is not None:
                validation.whole(argument, getattr(self, argument), minimum)
        if self.axis is not None and (isinstance(self.axis, bool) or not isinstance(self.axis, int)):
            raise InvalidInput("axis", "a whole number, from the end if negative", repr(self.axis))

    def fits(self, alpha: Tensor, axis: int, path: str) -> bool:
        return (
            (self.rank is None or alpha.ndim == self.rank)
            and (self.axis is None or self.axis in (axis, axis - alpha.ndim))
            and (self.size is None or alpha.shape[axis] == self.size)
            and (self.inside is None or fnmatchcase(path, self.inside))
        )

    def attach(self, model: nn.Module, capture: Capture, _undo: ExitStack) -> None:
        def read(path: str, alpha: Tensor, _logits: Tensor, dim: int | None = None, *_: Any, **__: Any) -> None:
            axis = softmax_axis(alpha.ndim, dim)
            if self.fits(alpha, axis, path):
                capture.add(path, alpha, axis)
            elif not capture.places:
                capture.saw(f"softmax of shape {tuple(alpha.shape)} over axis {axis}", path)

        capture.mode = Watching(model, dict.fromkeys(SOFTMAXES, read))

    @staticmethod
    def survey(model: nn.Module, batch: Any) -> Survey:
        """The softmaxes of one pass over a batch: a tensor, a tuple of arguments or a dictionary of them."""
        how = _SurveyTap([])
        with torch.no_grad(), tap(model, how) as capture:
            if isinstance(batch, Mapping):
                model(**batch)
            else:
                model(*batch) if isinstance(batch, tuple | list) else model(batch)
        return Survey(tuple(how.found), capture.batch or 0)


@dataclass(frozen=True)
class _SurveyTap(Tap):
    found: list[Softmax]
    name: ClassVar[str] = "survey"

    def attach(self, model: nn.Module, capture: Capture, _undo: ExitStack) -> None:
        def softmax(path: str, alpha: Tensor, _logits: Tensor, dim: int | None = None, *_: Any, **__: Any) -> None:
            self.found.append(Softmax(path, tuple(alpha.shape), softmax_axis(alpha.ndim, dim)))

        def fused(path: str, _result: object, query: Tensor, key: Tensor, *_: Any, **__: Any) -> None:
            self.found.append(Softmax(path, (*query.shape[:-1], key.shape[-2]), query.ndim - 1, is_fused=True))

        capture.mode = Watching(model, {**dict.fromkeys(SOFTMAXES, softmax), ATTENTION: fused})


@dataclass(frozen=True)
class Softmax:
    """One softmax of a pass: the module it is in, its shape and its axis; or the one inside a fused attention."""

    path: str
    shape: tuple[int, ...]
    axis: int
    is_fused: bool = False

    @property
    def is_attention(self) -> bool:
        return self.is_fused or (len(self.shape) == 4 and self.axis == 3)


@dataclass(frozen=True)
class Survey:
    """The softmaxes of one pass over `batch` samples, in order. Printed, it lists them and proposes taps."""

    softmaxes: tuple[Softmax, ...]
    batch: int

    @property
    def proposals(self) -> dict[str, str]:
        """What each kind of routing could be tapped with, as the command line writes it.

        Attention Residuals weigh ever more sources, 2, 3, ..., as depth grows; routers weigh the same number of experts
        everywhere, for each token; attention has a map of rank 4, or is fused.
        """
        others = [one for one in self.softmaxes if not one.is_attention]
        forms: dict[tuple[int, int], list[Softmax]] = {}
        for one in others:
            forms.setdefault((one.axis, len(one.shape)), []).append(one)
        proposed: dict[str, str] = {}
        for (axis, rank), members in forms.items():
            sizes = [one.shape[one.axis] for one in members]
            is_output = len(members) == 1 and members[0].shape[0] == self.batch and rank == 2 and not members[0].path
            if len(set(sizes)) > 1 or (axis == 0 and rank > 2):
                proposed.setdefault("Attention Residuals", f"softmax:axis={axis},rank={rank}")
            elif sizes[0] > 1 and not is_output:
                proposed.setdefault("routers", f"softmax:axis={axis},rank={rank},size={sizes[0]}")
        if len(others) < len(self.softmaxes):
            proposed["attention"] = "attention"
        return proposed

    def __str__(self) -> str:
        rows = [("where", "shape", "axis", "")]
        rows += [
            (one.path or "(the model)", str(one.shape), str(one.axis), "fused attention" if one.is_fused else "")
            for one in self.softmaxes
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines += [f"{kind}: --tap {spec}" for kind, spec in self.proposals.items()]
        return "\n".join(lines if self.softmaxes else ["no softmax was seen"])
