"""Is the uplift of a full-profile probe routing or capacity? Five probes of |confidence - correct|, three contrasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from engine.core import validation
from engine.core.binning import equal_mass_bins, split
from engine.core.errors import InvalidInput
from engine.core.pvalues import monte_carlo_pvalue
from engine.core.types import FloatArray, IntArray, Progress, RunData
from engine.features import check_layers
from engine.probes.networks import Batch, Recipe, Start, initial_weights, train
from engine.probes.result import CONTRASTS, ROWS_PER_BIN, Contrast, Note, ProbeResult, Reference, grouped

MINIMUM_SAMPLES = 8
MOST_HIDDEN = 10_000
RIDGE_PENALTY = 1.0


def audit(
    confidence: ArrayLike,
    entropies: ArrayLike,
    correct: ArrayLike,
    *,
    hidden: int = 16,
    epochs: int = 200,
    lr: float = 1e-2,
    weight_decay: float = 1e-4,
    n_inits: int = 5,
    seed: int = 42,
    n_shuffles: int = 20,
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> ProbeResult:
    """Fit the five probes on one half (`engine.core.binning.split`) and score them on the other.

    conf_lin: least squares on c. conf_mlp: network on c. full_lin: ridge on (c, H). full_mlp: network on (c, H).
    shuf_full_mlp: network on (c, H) with the rows of H permuted inside the training half only, by another permutation
    for each initialisation. Inputs are standardised on the training half, and R^2 is that of the held-out half,
    1 - sum (y - yhat)^2 / sum (y - mean y)^2.

    `entropies` (n, L) may be any descriptor of the samples; L may be 0. `seed` draws initial weights and shuffles; the
    split does not depend on it, so that probes and calibrators are scored on the same samples. `n_shuffles=0` leaves
    the reference out. `names` call the columns of `entropies` in the notes.

    Differs from paper: the ridge penalty, which the paper leaves open, is 1 on standardised columns. The p-value, which
    the paper does not give, is described at `Reference`.
    """
    checked = validation.confidence(confidence).astype(np.float64)
    n = checked.size
    if n < MINIMUM_SAMPLES:
        raise InvalidInput("confidence", f"at least {MINIMUM_SAMPLES} samples, to fit on half of them", f"{n}")
    profile = validation.matrix("entropies", entropies, n)
    target = np.abs(checked - validation.correct(correct, n))
    recipe = _check_recipe(hidden, epochs, lr, weight_decay)
    validation.draws("n_inits", n_inits)
    validation.draws("n_shuffles", n_shuffles, 0)
    validation.seed(seed)
    numbered = [f"column {i}" for i in range(1, profile.shape[1] + 1)]
    called = validation.names("names", numbered if names is None else names, profile.shape[1])

    fitted, evaluated = split(n)
    inputs, constant = _standardise(np.column_stack([checked, profile]), fitted)
    data = _Halves(inputs[fitted], target[fitted], inputs[evaluated], target[evaluated], checked[fitted])
    notes = _notes(data, [("confidence", *called)[column] for column in constant], recipe, n_inits)
    predictions, curves, shuffled = _fit(data, recipe, n_inits, n_shuffles, seed, progress)
    r2 = {name: _r_squared(data.held_out_target, values) for name, values in predictions.items()}
    undefined = any(note.code == "constant_target" for note in notes)
    contrasts = {
        name: None if undefined or probe not in r2 else _contrast(probe, against, r2[probe] - r2[against])
        for name, (probe, against) in CONTRASTS.items()
    }
    reference = None
    if len(shuffled) and not undefined:
        reference = _reference(float(r2["full_mlp"][0]), _r_squared(data.held_out_target, shuffled))
    return ProbeResult(
        r2=r2,
        mean={name: float(values.mean()) for name, values in r2.items()},
        std={name: float(values.std()) for name, values in r2.items()},
        predictions=predictions,
        curves=curves,
        groups={name: grouped(values[0], data.held_out_target) for name, values in predictions.items()},
        **contrasts,
        reference=reference,
        target=data.held_out_target,
        evaluated=evaluated,
        recipe=recipe,
        n_inits=n_inits,
        n_shuffles=n_shuffles,
        seed=seed,
        notes=notes,
    )


@dataclass(frozen=True, eq=False)
class _Halves:
    """Standardised inputs (confidence first) and targets of both halves, and the fitted half's plain confidence."""

    inputs: FloatArray
    target: FloatArray
    held_out: FloatArray
    held_out_target: FloatArray
    confidence: FloatArray

    @property
    def has_profile(self) -> bool:
        return self.inputs.shape[1] > 1


def _check_recipe(hidden: int, epochs: int, lr: float, weight_decay: float) -> Recipe:
    validation.whole("hidden", hidden, 1, MOST_HIDDEN)
    validation.draws("epochs", epochs)
    if validation.number("lr", lr) == 0:
        raise InvalidInput("lr", "a positive step size", repr(lr))
    return Recipe(hidden, epochs, float(lr), validation.number("weight_decay", weight_decay))


def _standardise(inputs: FloatArray, fitted: IntArray) -> tuple[FloatArray, IntArray]:
    """Zero mean and unit variance on the fitted rows; also the columns that do not vary there, which become zero."""
    centre, spread = inputs[fitted].mean(axis=0), inputs[fitted].std(axis=0)
    constant = spread <= 1e-12 * np.maximum(1.0, np.abs(centre))
    scaled = (inputs - centre) / np.where(constant, 1.0, spread)
    scaled[:, constant] = 0
    return scaled, np.flatnonzero(constant)


def _notes(data: _Halves, constant: Sequence[str], recipe: Recipe, n_inits: int) -> tuple[Note, ...]:
    notes = []
    n_rows, width = data.inputs.shape
    if not data.has_profile:
        notes.append(Note("no_profile", "no descriptor columns: only the confidence probes are fitted"))
    if constant:
        text = f"constant on the training half, so of no use to a probe: {', '.join(constant)}"
        notes.append(Note("constant_columns", text))
    spread = float(np.ptp(data.held_out_target))
    if spread <= 1e-12:
        notes.append(
            Note("constant_target", "|confidence - correct| is constant on the held-out half: R^2 is undefined")
        )
    elif data.held_out_target.std() < recipe.lr / 10:
        # Adam moves every weight by about lr per step, so predictions do not settle to much less than that.
        text = "|confidence - correct| hardly varies on the held-out half: R^2 mostly reflects how far training got"
        notes.append(Note("near_constant_target", text))
    if data.has_profile and n_rows < 10 * width:
        notes.append(Note("few_rows", f"{n_rows} training rows for {width} inputs: the full probes may overfit"))
    if data.has_profile and n_inits == 1:
        notes.append(Note("one_initialisation", "one initialisation gives no interval; use two or more"))
    return tuple(notes)


def _fit(
    data: _Halves, recipe: Recipe, n_inits: int, n_shuffles: int, seed: int, progress: Progress | None
) -> tuple[dict[str, FloatArray], dict[str, FloatArray], FloatArray]:
    """Predictions (n_inits, m) and curves (n_inits, epochs) by probe, and the (n_shuffles, m) reference predictions."""
    n_rows, width = data.inputs.shape
    n_held_out = len(data.held_out)

    def linear(n_columns: int, penalty: float) -> FloatArray:
        columns = slice(0, n_columns)
        fit = ridge_predictions(data.inputs[:, columns], data.target, data.held_out[:, columns], penalty)
        return np.broadcast_to(fit, (n_inits, n_held_out))

    def starts(n_columns: int) -> list[Start]:
        return [
            initial_weights(n_columns, recipe.hidden, np.random.default_rng([seed, 1, initialisation]))
            for initialisation in range(n_inits)
        ]

    def batch(n_columns: int, orders: list[IntArray], weights: list[Start]) -> Batch:
        return Batch(
            private=np.stack([data.inputs[order, 0] for order in orders]),
            shared=data.inputs[:, 1:n_columns],
            targets=np.stack([data.target[order] for order in orders]),
            starts=weights,
            held_out=data.held_out[:, :n_columns],
        )

    kept = [np.arange(n_rows)] * n_inits
    batches = [batch(1, kept, starts(1))]
    n_full = 0
    if data.has_profile:
        rng = np.random.default_rng([seed, 2])
        shuffles = [rng.permutation(n_rows) for _ in range(n_inits)]
        bins = equal_mass_bins(data.confidence, max(1, n_rows // ROWS_PER_BIN))
        matched = [shuffle_within(bins, rng) for _ in range(n_shuffles)]
        weights = starts(width)
        batches.append(batch(width, [*kept, *shuffles, *matched], [*weights, *weights, *weights[:1] * n_shuffles]))
        n_full = n_inits
    trained = train(batches, recipe, progress)

    predictions = {"conf_lin": linear(1, 0.0), "conf_mlp": trained[0].predictions}
    curves = {"conf_mlp": trained[0].losses}
    if not n_full:
        return predictions, curves, np.empty((0, n_held_out))
    full = trained[1]
    predictions["full_lin"] = linear(width, RIDGE_PENALTY)
    for name, networks in (("full_mlp", slice(0, n_inits)), ("shuf_full_mlp", slice(n_inits, 2 * n_inits))):
        predictions[name], curves[name] = full.predictions[networks], full.losses[networks]
    return predictions, curves, full.predictions[2 * n_inits :]


def shuffle_within(bins: IntArray, rng: np.random.Generator) -> IntArray:
    """A uniformly random permutation of rows that keeps every row in its bin."""
    order = np.empty_like(bins)
    order[np.argsort(bins, kind="stable")] = np.lexsort((rng.random(bins.size), bins))
    return order


def _r_squared(target: FloatArray, predictions: FloatArray) -> FloatArray:
    """(k,) 1 - sum (y - yhat)^2 / sum (y - mean y)^2 of (k, m) predictions; missing where the target is constant."""
    total = float(((target - target.mean()) ** 2).sum())
    if np.ptp(target) <= 1e-12:
        return np.full(len(predictions), np.nan)
    return 1 - ((predictions - target) ** 2).sum(axis=1) / total


def _contrast(probe: str, against: str, differences: FloatArray) -> Contrast:
    estimate, n = float(differences.mean()), differences.size
    interval = None
    if n > 1:
        half = float(stats.t.ppf(0.975, n - 1) * differences.std(ddof=1) / np.sqrt(n))
        interval = (estimate - half, estimate + half)
    return Contrast(probe, against, differences, estimate, interval)


def _reference(observed: float, shuffled: FloatArray) -> Reference:
    # Sums over permuted rows differ in their last digits; rounding lets values that are equal count as equal.
    return Reference(shuffled, observed, monte_carlo_pvalue(round(observed, 9), shuffled.round(9)))


def ridge_predictions(inputs: FloatArray, target: FloatArray, held_out: FloatArray, penalty: float) -> FloatArray:
    """(m,) predictions of b0 + x . b, with b minimising sum_i (y_i - b0 - x_i . b)^2 + penalty |b|^2 (b0 is free).

    Solved as least squares on the centred rows stacked on sqrt(penalty) I. Collinear and constant columns do no harm:
    without a penalty the shortest solution is taken.
    """
    centre, mean = inputs.mean(axis=0), target.mean()
    width = inputs.shape[1]
    rows = np.vstack([inputs - centre, np.sqrt(penalty) * np.eye(width)])
    coefficients = np.linalg.lstsq(rows, np.concatenate([target - mean, np.zeros(width)]))[0]
    predictions: FloatArray = mean + (held_out - centre) @ coefficients
    return predictions


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
