"""What a run is: one frozen set of choices, and the YAML recipes that spell out grids of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from cache_builder.models.registry import SIZED, VARIANTS
from engine.core import validation
from engine.core.errors import InvalidInput, UnknownName, first_line
from engine.store.record import RUN_ID, check_run_id

RECIPES = Path(__file__).parent / "configs"
AXES = ("seeds", "datasets", "backbones", "variants")
"""What a grid entry lists; its runs are all combinations."""
OPTIONAL_COUNTS = (
    "block_size", "image_size", "epoch_samples", "limit_train", "limit_test", "held_out", "validation", "shift",
)  # fmt: skip


def _name(setting: str, value: object) -> None:
    """Names become part of the run's name, and so of a file's."""
    if not isinstance(value, str) or not RUN_ID.fullmatch(value):
        raise InvalidInput(setting, "a name of letters, digits, dots, dashes or underscores", validation.shown(value))


def _number(setting: str, value: object, high: float = math.inf) -> None:
    real = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not real or not 0 <= value <= high or math.isinf(value):  # type: ignore[operator, arg-type]
        limits = "of at least 0" if math.isinf(high) else f"from 0 to {high:g}"
        raise InvalidInput(setting, f"a number {limits} (in YAML write 5.0e-4, not 5e-4)", validation.shown(value))


def _mapping(setting: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(setting, "a mapping of settings to values", validation.shown(value))
    return value


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run's weights, apart from the data set's pixels and the package versions.

    An epoch draws `epoch_samples` training images without replacement (all of them for None). `query_learning_rate`
    is the rate of the routing queries alone (None: the common one). `shift` replaces the data set's usual random
    shift in pixels. `limit_train` and `limit_test` keep the first samples only, for trials; `held_out` puts so many
    training images in the place of the test set, to choose a recipe by. `validation` keeps so many from training, and
    the sampled epoch with the smallest ECE on them becomes the run (None: the last epoch does). `init` is where the
    weights start: the path of a checkpoint, or timm's name of pretrained weights. `drloc_weight` and `balance_weight`
    are those of the auxiliary losses of `drloc` and `moe`.
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
    n_experts: int = 4
    top_k: int = 1
    balance_weight: float = 0.01
    entropy_stride: int = 4
    ensemble_last: int = 5
    limit_train: int | None = None
    limit_test: int | None = None
    held_out: int | None = None
    validation: int | None = None
    init: str | None = None

    def __post_init__(self) -> None:
        for name in ("suite", "backbone", "dataset"):
            _name(name, getattr(self, name))
        validation.choice("variant", self.variant, VARIANTS)
        for name in ("epochs", "batch_size", "entropy_stride", "n_experts", "top_k"):
            validation.whole(name, getattr(self, name), 1)
        for name in ("seed", "ensemble_last"):
            validation.whole(name, getattr(self, name), 0)
        for name in OPTIONAL_COUNTS:
            if getattr(self, name) is not None:
                validation.whole(name, getattr(self, name), 0 if name == "shift" else 1)
        if self.init is not None and (not isinstance(self.init, str) or not self.init):
            raise InvalidInput("init", "a checkpoint's path or timm's name of weights", validation.shown(self.init))
        if (self.variant in SIZED) != (self.block_size is not None):
            expected = f"a number for variants {' and '.join(SIZED)}, none for others"
            raise InvalidInput("block_size", expected, repr(self.block_size))
        for name in ("learning_rate", "weight_decay", "warmup_epochs", "drloc_weight", "balance_weight"):
            _number(name, getattr(self, name))
        _number("label_smoothing", self.label_smoothing, 1)
        for name in ("query_learning_rate", "clip_gradient_norm"):
            if getattr(self, name) is not None:
                _number(name, getattr(self, name))
        if self.clip_gradient_norm == 0:
            raise InvalidInput("clip_gradient_norm", "a number above 0, or null for no clipping", "0")
        if not isinstance(self.flips, bool | None):
            raise InvalidInput("flips", "true, false, or null for the data set's own", validation.shown(self.flips))
        check_run_id(f"{self.run_id}-last{self.ensemble_last}")  # the longest name that a file of this run gets

    @property
    def run_id(self) -> str:
        variant = self.variant if self.block_size is None else f"{self.variant}{self.block_size}"
        return "-".join([self.suite, self.backbone, self.dataset, variant, f"s{self.seed}"])

    def as_dict(self) -> dict[str, Any]:
        """The settings by name, as shards and checkpoints keep them: of a path of weights the file's name only."""
        return {**asdict(self), "init": self.init and Path(self.init).name}

    def differing(self, stored: Mapping[str, Any]) -> list[str]:
        """The settings whose value is another one in a stored config; one that it lacks had its default then."""
        defaults = {field.name: field.default for field in fields(self) if field.default is not MISSING}
        return sorted(name for name, value in self.as_dict().items() if {**defaults, **stored}.get(name) != value)

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
        return self._merged({name: value for name, value in choices.items() if value is not None})

    def _merged(self, given: Mapping[str, Any]) -> RunConfig:
        own = _mapping("datasets", self.by_dataset).get(str(given.get("dataset")), {})
        return RunConfig.from_mapping(
            {
                "suite": self.suite,
                **_mapping("training", self.training),
                **_mapping(f"datasets' {given.get('dataset')}", own),
                **given,
            }
        )

    def runs(self) -> list[RunConfig]:
        """Every run of the grid, in the order of the file; within an entry the seeds change slowest."""
        configs = [config for entry in self.grid for config in self._expanded(_mapping("grid's entry", entry))]
        identifiers = [config.run_id for config in configs]
        repeated = {name for name in identifiers if identifiers.count(name) > 1}
        if repeated:
            raise InvalidInput("grid", "every run once", f"{', '.join(sorted(repeated))} more than once")
        return configs

    def _expanded(self, entry: Mapping[str, Any]) -> list[RunConfig]:
        for name in entry:
            if name not in (*AXES, "block_size", "training"):
                raise UnknownName("grid key", str(name), [*AXES, "block_size", "training"])
        for name in AXES:
            if not isinstance(entry.get(name), list) or not entry[name]:
                raise InvalidInput(f"grid entry's {name}", "a list with at least one value", repr(entry.get(name)))
        common = _mapping("grid entry's training", entry.get("training", {}))
        configs = []
        for seed, dataset, backbone, variant in itertools.product(*(entry[name] for name in AXES)):
            block_size = entry.get("block_size") if variant in SIZED else None
            chosen = {"seed": seed, "dataset": dataset, "backbone": backbone, "variant": variant}
            configs.append(self._merged({**common, **chosen, "block_size": block_size}))
        return configs


def load_recipe(name: str | Path) -> Recipe:
    """A recipe by file path, or one that comes with the project by its bare name (paper, replica, smoke, ...)."""
    bundled = sorted(file.stem for file in RECIPES.glob("*.yaml"))
    path = RECIPES / f"{name}.yaml" if str(name) in bundled else Path(name)
    if not path.is_file():
        raise UnknownName("recipe", str(name), [*bundled, "the path of a YAML file"])
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        where = getattr(error, "problem_mark", None)
        line = "" if where is None else f", line {where.line + 1}"
        raise InvalidInput("recipe", "a readable YAML file", f"{path.name}{line}: {first_line(error)}") from error
    expected = {"suite", "training", "datasets", "grid"}
    if not isinstance(content, dict) or not {"suite", "training"} <= set(content) <= expected:
        raise InvalidInput("recipe", f"a YAML mapping of {', '.join(sorted(expected))}", f"{path.name}")
    grid = content.get("grid") or []
    if not isinstance(grid, list):
        raise InvalidInput("grid", "a list of entries, each with a dash", validation.shown(grid))
    return Recipe(
        content["suite"], _mapping("training", content["training"]), content.get("datasets") or {}, tuple(grid)
    )
