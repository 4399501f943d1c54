"""What a run is: one frozen set of choices, and the YAML recipes that spell out grids of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from cache_builder.models.registry import VARIANTS
from engine import validation
from engine.errors import InvalidInput, UnknownName

RECIPES = Path(__file__).parent / "configs"


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run's weights, apart from the data set's pixels and the package versions.

    An epoch draws `epoch_samples` training images without replacement (all of them for None). `query_learning_rate`
    is the rate of the routing queries alone (None: the common one). `shift` replaces the data set's usual random
    shift in pixels. `limit_train` and `limit_test` keep the first samples only, for trials.
    """

    suite: str
    backbone: str
    dataset: str
    variant: str
    seed: int
    epochs: int
    block_size: int | None = None
    image_size: int | None = None
    batch_size: int = 128
    epoch_samples: int | None = None
    learning_rate: float = 5e-4
    query_learning_rate: float | None = None
    weight_decay: float = 0.05
    warmup_epochs: float = 20.0
    label_smoothing: float = 0.1
    clip_gradient_norm: float | None = None
    flips: bool | None = None
    shift: int | None = None
    drloc_weight: float = 0.5
    entropy_stride: int = 4
    ensemble_last: int = 5
    limit_train: int | None = None
    limit_test: int | None = None

    def __post_init__(self) -> None:
        validation.choice("variant", self.variant, VARIANTS)
        for name, minimum in {"seed": 0, "epochs": 1, "batch_size": 1, "entropy_stride": 1, "ensemble_last": 0}.items():
            validation.whole(name, getattr(self, name), minimum)
        for name in ("block_size", "image_size", "epoch_samples", "limit_train", "limit_test"):
            if getattr(self, name) is not None:
                validation.whole(name, getattr(self, name), 1)
        if (self.variant == "block_ar") != (self.block_size is not None):
            raise InvalidInput("block_size", "a number for variant block_ar, none for others", repr(self.block_size))
        for name in ("learning_rate", "weight_decay", "warmup_epochs", "label_smoothing", "drloc_weight"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise InvalidInput(name, "a number of at least 0 (in YAML write 5.0e-4, not 5e-4)", repr(value))

    @property
    def run_id(self) -> str:
        variant = self.variant if self.block_size is None else f"{self.variant}{self.block_size}"
        return "-".join([self.suite, self.backbone, self.dataset, variant, f"s{self.seed}"])

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_mapping(values: Mapping[str, Any]) -> RunConfig:
        """Build from plain values; a key that is not a setting is an error, never ignored."""
        known = [field.name for field in fields(RunConfig)]
        for name in values:
            if name not in known:
                raise UnknownName("setting", str(name), known)
        required = ("suite", "backbone", "dataset", "variant", "seed", "epochs")
        missing = [name for name in required if name not in values]
        if missing:
            raise InvalidInput("settings", f"values for {', '.join(required)}", f"none for {', '.join(missing)}")
        return RunConfig(**values)


@dataclass(frozen=True)
class Recipe:
    """A YAML file: common training settings, settings by data set, and the grid of runs."""

    suite: str
    training: Mapping[str, Any]
    by_dataset: Mapping[str, Mapping[str, Any]]
    grid: tuple[Mapping[str, Any], ...]

    def config(self, **choices: Any) -> RunConfig:
        """One run: common settings, then those of its data set, then the choices given (None: no choice)."""
        given = {name: value for name, value in choices.items() if value is not None}
        own = self.by_dataset.get(str(given.get("dataset")), {})
        return RunConfig.from_mapping({"suite": self.suite, **self.training, **own, **given})

    def runs(self) -> list[RunConfig]:
        """Every run of the grid, in the order of the file; within an entry the seeds change slowest."""
        configs = []
        for entry in self.grid:
            axes = {name: entry.get(name) for name in ("seeds", "datasets", "backbones", "variants")}
            for name, values in axes.items():
                if not isinstance(values, list) or not values:
                    raise InvalidInput(f"grid entry's {name}", "a list with at least one value", repr(values))
            for name in entry:
                if name not in (*axes, "block_size", "training"):
                    raise UnknownName("grid key", str(name), [*axes, "block_size", "training"])
            for seed, dataset, backbone, variant in itertools.product(*axes.values()):  # type: ignore[arg-type]
                block_size = entry.get("block_size") if variant == "block_ar" else None
                chosen = {"seed": seed, "dataset": dataset, "backbone": backbone, "variant": variant}
                configs.append(self.config(**entry.get("training", {}), **chosen, block_size=block_size))
        identifiers = [config.run_id for config in configs]
        repeated = {name for name in identifiers if identifiers.count(name) > 1}
        if repeated:
            raise InvalidInput("grid", "every run once", f"{', '.join(sorted(repeated))} more than once")
        return configs


def load_recipe(name: str | Path) -> Recipe:
    """A recipe by file path, or one that comes with the project by its bare name (paper, micro, smoke, bundled)."""
    bundled = sorted(file.stem for file in RECIPES.glob("*.yaml"))
    path = RECIPES / f"{name}.yaml" if str(name) in bundled else Path(name)
    if not path.is_file():
        raise UnknownName("recipe", str(name), [*bundled, "the path of a YAML file"])
    content = yaml.safe_load(path.read_text())
    expected = {"suite", "training", "datasets", "grid"}
    if not isinstance(content, dict) or not {"suite", "training"} <= set(content) <= expected:
        raise InvalidInput("recipe", f"a YAML mapping of {', '.join(sorted(expected))}", f"{path.name}")
    return Recipe(
        content["suite"], content["training"], content.get("datasets") or {}, tuple(content.get("grid") or ())
    )
