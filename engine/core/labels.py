"""What things are called for people: cells, runs, data sets, tests; and how sentences put numbers and lists into words.

A calibrator, a feature or a metric brings its label with its registration; everything else that has a name has it here.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any

import pandas as pd

VARIANTS = {
    "baseline": "plain residual",
    "full_ar": "Full-AR",
    "block_ar": "Block-AR",
    "attnres": "AttnRes",
    "moe": "MoE",
    "drloc": "DrLoc control",
}
BACKBONES = {"micro_swin": "Swin (micro)", "micro_deit": "DeiT (micro)", "micro_vit": "ViT (micro)"}
DATASETS = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "tiny-imagenet": "Tiny-ImageNet",
    "fashion-mnist": "Fashion-MNIST",
    "digits": "Digits",
}
HEADLINES = {"paper": "the paper's test", "primary": "the primary test"}
"""The two tests that stand side by side everywhere, by their names."""
TESTS = {"verdict": "trend and shape combined", "primary": "the primary trend test", "paper": "the paper's test"}
"""The tests that are counted over many runs. The first decides."""
RUNGS = ("confidence", "the softmax's shape", "the softmax's shape and the class", "the whole output")
"""What each rung of the ladder conditions on."""
METHODS = {
    "none": "none", "ts": "TS", "ets": "ETS", "vs": "VS", "cts": "CTS", "pts": "PTS", "hb": "HB", "bbq": "BBQ",
    "isotonic": "Isotonic", "sbece": "SB-TS", "lc": "LC", "rcmmc": "RCMMC", "nw_conf": "Conf. only",
    "nw_conf_entropy": "Conf. + entropy", "nw_conf_routing": "AR-CondCal",
}  # fmt: skip
"""The paper's short names of its calibrators."""
_ENSEMBLE = re.compile(r"-last(\d+)$")
"""Suites of ensembles over the last epochs: the same training runs once more, never counted beside them."""
MISSING = "–"
FIRST, SECOND, UNPLACED = 1, 2, 0


def counted(n: int, noun: str) -> str:
    """`1 run`, `1,024 runs`, `10 classes`."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{n:,} {noun if n == 1 else plural}"


def listed(words: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def capital(text: str) -> str:
    """The text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def in_sentence(label: str) -> str:
    """A label inside a sentence: `kernel on confidence`, but `AR-CondCal` and `ECE`."""
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]


def format_p(p: float) -> str:
    """`p = 0.48`, `p = 0.042`, `p < 0.001`."""
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.2f}" if p >= 0.1 else f"p = {p:.3f}"


def signed(value: float, digits: int = 3) -> str:
    """`+0.012`, `−0.016`."""
    return f"{value:+.{digits}f}".replace("-", "−")


def percent(share: float, digits: int = 0) -> str:
    """`34 %`."""
    return f"{100 * share:.{digits}f} %"


def is_number(value: Any) -> bool:
    """Numbers of any library, but not a truth value."""
    return isinstance(value, Number) and not isinstance(value, bool)


def print_value(value: Any, pattern: str = "") -> str:
    """A cell of a table as text: printf patterns, `percent`, `p`, whole numbers grouped, a dash for what is missing."""
    if not is_number(value):
        return MISSING if value is None or value is pd.NA or value is pd.NaT else str(value)
    if pd.isna(value):
        return MISSING
    if pattern == "p":
        return format_p(value).removeprefix("p ").removeprefix("= ")
    if pattern == "percent":
        return f"{value:.1%}"
    if "%" in pattern:
        return pattern % value
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.6g}"


def places(values: Sequence[float], digits: int, *, lower_is_better: bool = True) -> list[int]:
    """1 for the best value, 2 for the second-best, 0 for the others; values printed alike share their place.

    digits : after the point, as printed. Missing values (NaN) are not placed.
    """
    shown = [round(value, digits) if math.isfinite(value) else math.nan for value in values]
    competing = sorted({value for value in shown if math.isfinite(value)}, reverse=not lower_is_better)
    place = dict(zip(competing, (FIRST, SECOND), strict=False))
    return [place.get(value, UNPLACED) for value in shown]


def ensemble_size(suite: str) -> int | None:
    """Over how many of the last epochs of another run the runs of a suite are ensembles; None for single models."""
    found = _ENSEMBLE.search(suite)
    return None if found is None else int(found[1])


def is_ensemble(suites: pd.Series[Any]) -> pd.Series[Any]:
    """Which runs are ensembles over the last epochs of another run."""
    return suites.map(lambda suite: ensemble_size(str(suite)) is not None).astype(bool)


def variant_label(variant: str, block_size: Any) -> str:
    """`Block-AR (b = 2)`, `Full-AR`, or the name as it is for other people's models."""
    label = VARIANTS.get(variant, variant)
    return label if pd.isna(block_size) else f"{label} (b = {int(block_size)})"


@dataclass(frozen=True)
class RunName:
    """How a run is shown, each part as its box in the sidebar has it. No other run of its cache is called the same."""

    backbone: str
    dataset: str
    variant: str
    run: str

    @property
    def full(self) -> str:
        """`DeiT (micro) · CIFAR-10 · Full-AR · seed 0`."""
        return f"{self.backbone} · {self.dataset} · {self.variant} · {self.run}"


def run_names(runs: pd.DataFrame) -> dict[str, RunName]:
    """The name of every run, by its id.

    Runs are told apart by their seed, with the suite where two have the same, with the id where even that is the same:
    a select box leads all options of one name to the last of them.
    """
    rows: list[dict[Any, Any]] = list(runs.to_dict("records"))
    names = [
        RunName(
            BACKBONES.get(row["backbone"], row["backbone"]),
            DATASETS.get(row["dataset"], row["dataset"]),
            variant_label(row["variant"], row["block_size"]),
            _seed_label(row),
        )
        for row in rows
    ]
    for addition in (" ({suite})", " · {run_id}"):
        count = Counter(names)
        names = [
            name if count[name] == 1 else replace(name, run=name.run + addition.format(**row))
            for name, row in zip(names, rows, strict=True)
        ]
    return dict(zip(runs["run_id"], names, strict=True))


def _seed_label(row: dict[Any, Any]) -> str:
    """The seed, or the run's own id where nobody knows the seed, with `last-5 ensemble` where it is one."""
    label = row["run_id"] if pd.isna(row["seed"]) else f"seed {row['seed']}"
    size = ensemble_size(str(row["suite"]))
    return label if size is None else f"{label}, last-{size} ensemble"


def name_cells(rows: pd.DataFrame) -> pd.DataFrame:
    """What the cell of each row (a run or a cell) is called: `backbone_name`, `dataset_name`, `variant_name`, `cell`.

    cell : the first three, `Swin (micro) · CIFAR-10 · Block-AR (b = 2)`. The variant carries the suite too where two
    suites hold the same cell.
    """
    named = pd.DataFrame({
        "backbone_name": [BACKBONES.get(name, name) for name in rows["backbone"]],
        "dataset_name": [DATASETS.get(name, name) for name in rows["dataset"]],
        "variant_name": [variant_label(*pair) for pair in zip(rows["variant"], rows["block_size"], strict=True)],
    }, index=rows.index, dtype=object)  # fmt: skip
    single = ~is_ensemble(rows["suite"])
    suites = named.assign(suite=rows["suite"].where(single)).groupby(list(named.columns))["suite"]
    shared = suites.transform("nunique") > 1
    variant = named["variant_name"].where(~(shared & single), named["variant_name"] + " (" + rows["suite"] + ")")
    cell = named["backbone_name"] + " · " + named["dataset_name"] + " · " + variant
    return named.assign(variant_name=variant, cell=cell)


def label_rows(rows: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Rows by `run_id` in reading order, with the names of `name_cells` and `run`, the full name of the run.

    runs : the table of all runs of the cache, indexed by run id.
    """
    order = ["backbone", "dataset", "variant", "block_size", "suite", "seed"]
    named = name_cells(runs).assign(run=[name.full for name in run_names(runs).values()])
    named = named.reindex(rows["run_id"]).set_axis(rows.index)
    return pd.concat([rows, named], axis=1).sort_values(order, kind="stable").reset_index(drop=True)
