"""Any torch model and any loader of batches to a shard, with its routing read by a tap."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cache_builder import taps
from cache_builder.devices import pick_device
from cache_builder.evaluate import evaluating
from cache_builder.progress import UNDER_WAY, quiet
from cache_builder.provenance import describe
from cache_builder.taps.capture import tensors
from engine.core.errors import CacheError, InvalidInput
from engine.core.types import Progress
from engine.store import Layer, RunRecord, default_shards_directory, read_shard, write_shard
from engine.store.atomic import replacing
from engine.store.shard import shard_path

Step = Callable[[Any], tuple[Tensor, Tensor, Any]]
"""From a batch to its logits (n, K), its labels (n,), and its clusters: n labels of what samples share, or None."""
PART_BATCHES = 32
"""So many batches are lost at most when an extraction is killed."""
Columns = dict[str, NDArray[Any]]
_SAMPLED = 4096
_EXTRA = "extra "
_LABELS = ("labels", "label", "targets", "target")


class _Called(nn.Module):
    """A plain function as a module, so that passes can be counted."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        return self.function(*arguments, **keywords)


def logits_of(output: Any) -> Tensor:
    """The logits in what a model returns: a tensor, the first of a tuple, an entry or an attribute `logits`."""
    found = output
    if isinstance(output, Mapping) and "logits" in output:
        found = output["logits"]
    elif hasattr(output, "logits"):
        found = output.logits
    elif isinstance(output, tuple | list | Mapping):
        found = next(tensors(output), None)
    if not isinstance(found, Tensor):
        raise InvalidInput(
            "model", "one that returns logits, alone or in a tuple, dictionary or object", repr(type(output))
        )
    return found


def default_step(model: nn.Module) -> Step:
    """For batches (inputs, labels), (inputs, labels, clusters), or dictionaries of arguments and labels."""

    def step(batch: Any) -> tuple[Tensor, Tensor, Any]:
        if isinstance(batch, Mapping):
            known = next((name for name in _LABELS if name in batch), None)
            if known is not None:
                inputs = {name: value for name, value in batch.items() if name not in (known, "clusters")}
                return logits_of(model(**inputs)), batch[known], batch.get("clusters")
        elif isinstance(batch, tuple | list) and len(batch) in (2, 3):
            return logits_of(model(batch[0])), batch[1], batch[2] if len(batch) == 3 else None
        raise InvalidInput(
            "loader",
            "batches of inputs and labels, or a dictionary with labels (else give a `step`)",
            repr(type(batch)),
        )

    return step


def _moved(batch: Any, device: torch.device) -> Any:
    match batch:
        case Tensor():
            return batch.to(device)
        case tuple() | list():
            return [_moved(part, device) for part in batch]
        case Mapping():
            return {name: _moved(part, device) for name, part in batch.items()}
    return batch


def _fingerprint(values: Any) -> str:
    """A digest of the shapes and a few thousand numbers of each tensor: enough to tell batches and weights apart."""
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors(values):
        flat = tensor.detach().reshape(-1)
        digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(flat[:: max(1, len(flat) // _SAMPLED)].double().cpu().numpy().tobytes())
    return digest.hexdigest()


def _rows(step: Step, batch: Any, capture: taps.Capture, number: int) -> Columns:
    """The samples of a batch. Logits (batch, tokens, K) make every token a sample and its sequence the cluster; tokens
    with a negative label are left out."""
    logits, labels, clusters = step(batch)
    labels = torch.as_tensor(labels)
    if logits.ndim == 3 and labels.shape == logits.shape[:2]:
        n_sequences, n_tokens = labels.shape
        sequences = np.arange(n_sequences) + (number << 32) if clusters is None else _array(clusters)
        clusters = sequences.repeat(n_tokens) if len(sequences) == n_sequences else sequences
        logits, labels = logits.flatten(0, 1), labels.flatten()
    if logits.ndim != 2 or labels.shape != logits.shape[:1]:
        raise InvalidInput(
            "batch",
            "logits (n, classes) and n labels, the samples along the first axis of both",
            f"logits of shape {tuple(logits.shape)}, labels of shape {tuple(labels.shape)}",
        )
    columns = {"logits": logits.float(), "labels": labels, "captured": capture.take(len(labels)).float()}
    columns |= {f"{_EXTRA}{name}": rate for name, rate in capture.extra.items()}
    arrays = {name: _array(column.detach()) for name, column in columns.items()}
    if clusters is not None:
        arrays["clusters"] = _array(clusters)
    return {name: array[arrays["labels"] >= 0] for name, array in arrays.items()}


def _array(values: Any) -> NDArray[Any]:
    return values.cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _joined(batches: list[Columns]) -> Columns:
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


class _Parts:
    """Finished batches on disk beside the shard to be, so that a killed extraction goes on where it was."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder, self.key = folder, key
        self.n_parts = 0

    def load(self) -> Iterator[tuple[Columns, dict[str, Any]]]:
        for path in sorted(self.folder.glob("*.npz")):
            with np.load(path, allow_pickle=False) as stored:
                about = json.loads(str(stored["about"]))
                if about["key"] != self.key:
                    raise CacheError(
                        f"{self.folder}: begun with another model or tap; remove it to start afresh, or change run_id"
                    )
                yield {name: stored[name] for name in stored.files if name != "about"}, about
            self.n_parts += 1

    def save(self, batches: list[Columns], about: Mapping[str, Any]) -> None:
        text = np.array(json.dumps({**about, "key": self.key}))
        with replacing(self.folder / f"{self.n_parts:06}.npz") as temporary, temporary.open("wb") as file:
            np.savez(file, **{"about": text, **_joined(batches)})  # type: ignore[arg-type]
        self.n_parts += 1


def extract_run(
    model: Callable[..., Any],
    loader: Iterable[Any],
    *,
    tap: taps.Tap,
    run_id: str,
    out: Path | str | None = None,
    step: Step | None = None,
    suite: str = "extracted",
    backbone: str | None = None,
    dataset: str = "unknown",
    variant: str = "extracted",
    seed: int | None = None,
    device: str | None = None,
    progress: Progress = quiet,
) -> Path:
    """Run a model once over all batches and write logits, labels and routing as a shard; its path is returned.

    model : any callable; taps that look at modules need a torch module.
    step : from a batch, on the device, to (logits, labels, clusters or None); it calls the model once. If not given,
        batches are (inputs, labels) or dictionaries of arguments (`default_step`).
    out : directory of shards (default: data/shards).  device : such as cuda:0 (default: where the model is).

    A rerun with the same model, tap and batches goes on where a killed one was, and returns a finished shard at once.
    """
    module = model if isinstance(model, nn.Module) else _Called(model)
    first = next(module.parameters(), torch.empty(0))
    chosen = first.device if device is None else pick_device(device, "device")
    directory = default_shards_directory() if out is None else Path(out)
    target = shard_path(directory, run_id)
    identity: dict[str, Any] = {"run_id": run_id, "suite": suite, "dataset": dataset, "variant": variant, "seed": seed}
    identity["backbone"] = backbone or (type(model) if isinstance(model, nn.Module) else model).__name__
    described = {**identity, **tap.describe(), "weights": _fingerprint(module.state_dict())}
    key = hashlib.blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=8).hexdigest()
    if target.exists():
        if read_shard(target).capture.get("key") == key:
            return target
        raise InvalidInput("run_id", "a name that is not taken", f"{run_id!r}, which exists as {target}")
    parts = _Parts(directory / f".{run_id}.parts", key)
    started = time.perf_counter()
    with evaluating(module.to(chosen)):
        columns, about = _extract(module, loader, tap, step or default_step(module), parts, chosen, progress)
    fields: dict[str, Any] = {"entropies": columns["captured"], "layers": [Layer(*place) for place in about["places"]]}
    names = [name for name, _ in about["places"]]
    if not tap.is_routing:
        fields = {"extra": dict(zip(names, columns["captured"].T, strict=True))}
    rates = {name.removeprefix(_EXTRA): column for name, column in columns.items() if name.startswith(_EXTRA)}
    fingerprint = hashlib.blake2b("".join(about["digests"]).encode(), digest_size=16).hexdigest()
    record = RunRecord(
        **identity,
        **{"extra": rates, **fields},
        logits=columns["logits"],
        labels=columns["labels"],
        clusters=columns.get("clusters"),
        capture={**tap.describe(), "places": names, "left_out": about["left_out"], "key": key},
        provenance=describe("cache_builder extract_run", chosen, time.perf_counter() - started, fingerprint),
    )
    path = write_shard(record, directory)
    shutil.rmtree(parts.folder, ignore_errors=True)
    return path


def _extract(
    model: nn.Module,
    loader: Iterable[Any],
    tap: taps.Tap,
    step: Step,
    parts: _Parts,
    device: torch.device,
    progress: Progress,
) -> tuple[Columns, dict[str, Any]]:
    """All samples, those of earlier parts first; places, places left out, and a digest of every batch."""
    done: list[Columns] = []
    waiting: list[Columns] = []
    digests: list[str] = []
    about: dict[str, Any] = {}
    for columns, about in parts.load():
        done.append(columns)
        digests += about["digests"]
    n_before, started = len(digests), time.perf_counter()
    n_batches = len(loader) if isinstance(loader, Sized) else None
    with torch.inference_mode(), taps.tap(model, tap) as capture:
        for number, batch in enumerate(loader):
            digest = _fingerprint(batch)
            if number < n_before:
                if digest != digests[number]:
                    raise CacheError(f"{parts.folder}: begun with other batches (is the loader shuffled?); remove it")
                continue
            waiting.append(_rows(step, _moved(batch, device), capture, number))
            digests.append(digest)
            places = [[place.name, place.n_sources] for place in capture.places]
            about = {"places": places, "left_out": capture.left_out, "digests": digests[-len(waiting) :]}
            if len(waiting) == PART_BATCHES:
                parts.save(waiting, about)
                done.append(_joined(waiting))
                waiting = []
            rate = (number + 1 - n_before) / (time.perf_counter() - started)
            share = (number + 1) / n_batches if n_batches else 0.0
            progress(min(share, 0.999), f"batch {number + 1:,}, {rate:,.1f} batches per second{UNDER_WAY}")
    if not digests:
        raise InvalidInput("loader", "at least one batch", "none")
    progress(1.0, f"{len(digests):,} batches")
    return _joined([*done, *waiting]), {**about, "digests": digests}
