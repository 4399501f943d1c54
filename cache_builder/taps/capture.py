"""A tap around ordinary forward passes: what each leaves behind is handed out as one (batch, L) matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from cache_builder.taps.entropy import choice_shares, normalised_entropy, sample_means
from engine.core.errors import InvalidInput

_LISTED = 12


@dataclass(frozen=True)
class Place:
    """Where a model weighs alternatives: a name, and how many there are, if that does not change."""

    name: str
    n_sources: int | None


class Tap(ABC):
    """How the routing of a model is read. `name` is what the command line and a run's provenance call it."""

    name: ClassVar[str]
    is_routing: ClassVar[bool] = True
    """Whether the values are entropies in [0, 1]; other values become extra columns of a run."""

    @abstractmethod
    def attach(self, model: nn.Module, capture: Capture, undo: ExitStack) -> None:
        """Set what hands values to the capture: hooks, whose removal goes to `undo`, its `mode` or its `finish`."""

    def describe(self) -> dict[str, Any]:
        """The tap and its filter, as a run's provenance keeps them."""
        settings = {key: getattr(value, "__qualname__", value) for key, value in vars(self).items()}
        return {"tap": self.name, **{key: value for key, value in settings.items() if value is not None}}

    def __str__(self) -> str:
        """As the command line writes it: `softmax:axis=0,rank=3`."""
        settings = self.describe()
        written = ",".join(f"{key}={value}" for key, value in settings.items() if key != "tap")
        return f"{self.name}:{written}" if written else self.name


class Capture:
    """The values of the latest forward pass.

    Attributes
    ----------
    places : what the L columns are, once a pass was taken.
    left_out : names of places with a single alternative, of which nothing can be said.
    extra : further columns of the pass taken last, by name (switch rates of discrete choices).
    mode : what watches the functions that a pass calls.
    finish : called with what the model returned, None if it failed.
    """

    def __init__(self, model: nn.Module, tap: Tap) -> None:
        self.places: tuple[Place, ...] = ()
        self.left_out: tuple[str, ...] = ()
        self.extra: dict[str, Tensor] = {}
        self.batch: int | None = None
        self.mode: TorchFunctionMode | None = None
        self.finish: Callable[[object], None] | None = None
        self.depth = 0
        """How many calls of the model are under way; hooks that run outside of one have nothing to say."""
        self._tap, self._expected = tap, type(model).__name__
        self._read: dict[str, tuple[tuple[Place, ...], Tensor]] = {}
        self._single: list[str] = []
        self._names: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()
        self._passes = 0

    @property
    def names(self) -> list[str]:
        return [place.name for place in self.places]

    def begin(self, batch: int | None) -> None:
        self._passes += 1
        self.batch = batch
        self._names.clear()

    def forget(self) -> None:
        """Leave nothing of a pass that failed, or was taken."""
        self._passes -= 1
        self._read.clear()
        self._single.clear()

    def add(self, name: str, alpha: Tensor, axis: int = -1, heads: int | None = None) -> None:
        """Take the weights of the next place: entropies are kept, one per token, and nothing else of alpha.

        heads : an axis of what remains without the alternatives, over which the entropies are meaned.
        """
        name, n_sources = self.unique(name), alpha.shape[axis]
        if n_sources < 2:
            self._single.append(name)
            return
        entropy = normalised_entropy(alpha, axis)
        self.add_values((Place(name, n_sources),), entropy if heads is None else entropy.mean(dim=heads))

    def add_choices(self, name: str, chosen: Tensor, n_alternatives: int) -> None:
        """Take the numbers of the alternatives that each token takes, (..., k)."""
        self.add_values((Place(self.unique(name), n_alternatives),), chosen.detach().reshape(-1, chosen.shape[-1]))

    def add_values(self, places: tuple[Place, ...], values: Tensor) -> None:
        """Take one value per token of one place, or (batch, L) values of several; the last under a name counts."""
        self._read[places[0].name] = places, values

    def saw(self, what: str, path: str) -> None:
        """Remember what did not fit, for the error when nothing does; paths that differ in numbers count as one."""
        generic = ".".join("*" if part.isdecimal() else part for part in path.split("."))
        self._seen[f"{what} in {generic or self._expected}"] += 1

    def unique(self, name: str) -> str:
        """The name of the next place, numbered where several are in one module."""
        name = name or self._expected
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name} #{self._names[name]}"

    def take(self, n_samples: int | None = None) -> Tensor:
        """(batch, L) values of the one forward pass since the last call.

        n_samples : the number of samples, if it is not the length of the model's first input: with batch * tokens of
            them every token is a sample.
        """
        if self._passes != 1:
            raise InvalidInput("capture", "one forward pass per take()", f"{self._passes} passes")
        n = self.batch if n_samples is None else n_samples
        if n is None:
            raise InvalidInput("n_samples", "a number, since the model takes no tensor", "none")
        if not self._read:
            raise InvalidInput("tap", f"something in {self._expected} that fits {self._tap}", self._there())
        places = tuple(place for several, _ in self._read.values() for place in several)
        if self.places and [place.name for place in places] != self.names:
            raise InvalidInput(
                "model", f"one that runs the same {len(self.places)} places every time", f"{len(places)} of them"
            )
        self.extra.clear()
        columns = [self._columns(several, values, n) for several, values in self._read.values()]
        known = self.places or places
        self.places = tuple(
            new if new == old else Place(old.name, None) for new, old in zip(places, known, strict=True)
        )
        self.left_out = tuple(self._single)
        self.forget()
        return torch.cat(columns, dim=1) if len(columns) > 1 else columns[0]

    def _columns(self, places: tuple[Place, ...], values: Tensor, n: int) -> Tensor:
        if len(places) > 1 or not self._tap.is_routing:
            if len(values) != n:
                raise InvalidInput("batch", f"{n} samples", f"{len(values)} rows")
            return values.reshape(n, -1)
        (place,) = places
        if values.is_floating_point():
            return sample_means(values, n, place.name)[:, None]
        assert place.n_sources is not None
        load, self.extra[f"{place.name} switch rate"] = choice_shares(values, place.n_sources, n)
        return load[:, None]

    def _there(self) -> str:
        listed = [f"{what} ({count} times)" if count > 1 else what for what, count in self._seen.most_common(_LISTED)]
        if self._single:
            listed.append(f"places with one alternative only: {', '.join(self._single[:_LISTED])}")
        return "; ".join(listed) or "nothing of the kind"


def refuse_compiled(model: nn.Module) -> None:
    """Compiled code runs neither hooks nor function modes where a tap needs them."""
    for path, module in model.named_modules():
        compiled = getattr(module, "_compiled_call_impl", None) is not None or hasattr(module, "_orig_mod")
        if compiled or isinstance(module, torch.jit.ScriptModule):
            raise InvalidInput(
                "model",
                "a model that is not compiled: tap the original, which torch.compile(model) keeps as model._orig_mod",
                f"{path or type(model).__name__}, which torch.{'compile' if compiled else 'jit'} has compiled",
            )


def tensors(values: object) -> Iterator[Tensor]:
    """Every tensor in tuples, lists and dictionaries, however deep."""
    match values:
        case Tensor():
            yield values
        case tuple() | list():
            for part in values:
                yield from tensors(part)
        case Mapping():
            yield from tensors(list(values.values()))


@contextmanager
def tap(model: nn.Module, how: Tap) -> Iterator[Capture]:
    """Every forward pass of the model inside leaves one profile, to be had with `.take()`; the pass itself is the same.

    Only what runs inside the model's own `forward` counts: neither other models nor the repeated passes of gradient
    checkpointing do. A model that calls itself makes one pass.
    """
    if not isinstance(model, nn.Module):
        raise InvalidInput("model", "a torch module", type(model).__name__)
    if not isinstance(how, Tap):
        raise InvalidInput("tap", "a tap, such as SoftmaxTap(axis=0, rank=3)", repr(how))
    refuse_compiled(model)
    capture = Capture(model, how)

    def before(_module: nn.Module, arguments: tuple[object, ...], keywords: dict[str, object]) -> None:
        capture.depth += 1
        if capture.depth == 1:
            capture.begin(next((len(found) for found in tensors([arguments, keywords]) if found.ndim), None))
            if capture.mode is not None:
                capture.mode.__enter__()  # type: ignore[no-untyped-call]

    def after(_module: nn.Module, _inputs: object, output: object) -> None:
        capture.depth -= 1
        if capture.depth == 0:
            if capture.mode is not None:
                capture.mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            if capture.finish is not None:
                capture.finish(output)
            if output is None:  # a pass that failed leaves nothing
                capture.forget()

    with ExitStack() as hooks:
        how.attach(model, capture, hooks)
        hooks.callback(model.register_forward_pre_hook(before, with_kwargs=True).remove)
        hooks.callback(model.register_forward_hook(after, always_call=True).remove)
        yield capture
