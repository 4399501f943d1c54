"""Recipes: what they expand to, and what they refuse."""

import pytest

from cache_builder.config import RECIPES, Recipe, RunConfig, load_recipe
from cache_builder.models.registry import backbone
from engine.core.errors import InvalidInput, UnknownName


def test_the_replica_is_the_papers_design_at_a_micro_scale():
    runs = load_recipe("replica").runs()
    beside = runs[-6:]
    assert [(run.run_id[8:], run.seed) for run in beside] == [
        (f"micro_vit-cifar10-{name}-s{seed}", seed) for seed in (0, 1, 2) for name in ("attnres3", "moe")
    ]
    runs = runs[:-6]
    routed = [run for run in runs if run.variant == "full_ar" or run.block_size in (2, 3)]
    assert len(routed) == 30
    three_seeds = [run for run in routed if run.backbone != "micro_vit"]
    assert len(three_seeds) == 24
    assert {run.seed for run in three_seeds} == {0, 1, 2}
    assert {run.dataset for run in routed if run.backbone == "micro_vit"} == {"cifar10", "cifar100", "tiny-imagenet"}
    others = [run for run in runs if run not in routed]
    assert [(run.dataset, run.block_size) for run in others if run.block_size] == [("cifar10", 4), ("cifar10", 6)]
    assert len([run for run in others if run.block_size is None]) == 9
    assert all(run.ensemble_last == (5 if run in routed and run.seed == 0 else 0) for run in runs)


def test_paper_recipe_has_thirty_routed_runs_with_the_papers_settings():
    runs = load_recipe("paper").runs()
    assert sum(run.variant in ("full_ar", "block_ar") for run in runs) == 30
    for run in runs:
        assert (run.epochs, run.batch_size, run.learning_rate, run.weight_decay) == (300, 128, 5e-4, 0.05)
        assert (run.warmup_epochs, run.entropy_stride) == (20, 4)


@pytest.mark.parametrize("name", sorted(file.stem for file in RECIPES.glob("*.yaml")))
def test_every_recipe_expands_to_known_backbones(name):
    runs = load_recipe(name).runs()
    assert runs
    assert all(backbone(run.backbone).image_size for run in runs)


def test_data_set_settings_stand_between_common_settings_and_choices():
    recipe = Recipe("s", {"epochs": 9, "batch_size": 7}, {"digits": {"epochs": 5, "batch_size": 6}}, ())
    config = recipe.config(backbone="micro_vit", dataset="digits", variant="baseline", seed=0, epochs=2)
    assert (config.epochs, config.batch_size) == (2, 6)


def test_config_survives_its_dictionary():
    config = load_recipe("replica").runs()[0]
    assert RunConfig.from_mapping(config.as_dict()) == config


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("suite: a\ntraining: {epochs: 1, bach_size: 3}\ngrid: [{GRID}]", UnknownName, "bach_size"),
        ("suite: a\ntraining: {epochs: 5e-1}\ngrid: [{GRID}]", InvalidInput, "epochs"),
        ("suite: a\ntraining: {epochs: 1, learning_rate: 5e-4}\ngrid: [{GRID}]", InvalidInput, "5.0e-4"),
        ("suite: a\ntraining: {epochs: 1}\ngrid: [{GRID}, {GRID}]", InvalidInput, "more than once"),
        ("suite: a\ntraining: {epochs: 1}\ngrid: [{backbones: [micro_vit]}]", InvalidInput, "seeds"),
        ("suite: a\ntraining: {epochs: 1}\ngrids: []", InvalidInput, "recipe"),
        ("suite: a\ntraining: {}\ngrid: [{GRID}]", InvalidInput, "none for epochs"),
        ("suite: a\ntraining:\ngrid: [{GRID}]", InvalidInput, "^training"),
        ("suite: a\ntraining: {epochs: 1}\ngrid: {GRID}", InvalidInput, "^grid: expected a list"),
        ("suite: a\ntraining: {epochs: 1}\ngrid: [null]", InvalidInput, "^grid's entry"),
        ("suite: a\ntraining: {epochs: 1}\ndatasets: [digits]\ngrid: [{GRID}]", InvalidInput, "^datasets"),
        ("suite: a\ntraining: {epochs: 1}\ndatasets: {digits: 3}\ngrid: [{GRID}]", InvalidInput, "^datasets' digits"),
        ("suite: a\ntraining: {epochs: 1}\ngrid: [{NULL_SEED}]", InvalidInput, "^seed: .*None"),
        ("suite: a\ntraining: {epochs: 1}\ngrid: [{NULL_TRAINING}]", InvalidInput, "^grid entry's training"),
        ("suite: 7\ntraining: {epochs: 1}\ngrid: [{GRID}]", InvalidInput, "^suite"),
        ("suite: a\ntraining: {epochs: 1\ngrid: [{GRID}]", InvalidInput, "recipe.yaml, line"),
        ("suite: a\ntraining: {epochs: 1, image_size: 1e2}\ngrid: [{GRID}]", InvalidInput, "^image_size"),
    ],
)
def test_mistakes_in_a_recipe_are_named(tmp_path, content, error, message):
    grid = "{backbones: [micro_vit], datasets: [digits], variants: [baseline], seeds: [0]}"
    content = content.replace("{GRID}", grid).replace("{NULL_SEED}", grid.replace("[0]", "[0, null]"))
    file = tmp_path / "recipe.yaml"
    file.write_text(content.replace("{NULL_TRAINING}", grid.replace("}", ", training: null}")))
    with pytest.raises(error, match=message):
        load_recipe(file).runs()


def test_unknown_recipe_lists_those_there_are():
    with pytest.raises(UnknownName, match="replica"):
        load_recipe("replika")


def test_a_recipe_that_is_not_text_is_named(tmp_path):
    (tmp_path / "recipe.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="readable YAML"):
        load_recipe(tmp_path / "recipe.yaml")


def test_null_in_a_grid_entrys_training_takes_a_common_setting_back():
    entry = {"backbones": ["micro_vit"], "datasets": ["digits"], "variants": ["baseline"], "seeds": [0]}
    recipe = Recipe("s", {"epochs": 1, "epoch_samples": 5}, {}, ({**entry, "training": {"epoch_samples": None}},))
    assert recipe.runs()[0].epoch_samples is None


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("suite", 3), ("suite", "my suite"), ("backbone", None), ("dataset", ["digits"]), ("dataset", "../images"),
        ("query_learning_rate", "2e-2"), ("query_learning_rate", -1.0), ("clip_gradient_norm", "1e0"),
        ("clip_gradient_norm", 0), ("learning_rate", float("inf")), ("warmup_epochs", float("inf")),
        ("weight_decay", float("nan")), ("label_smoothing", 1.5), ("shift", -1), ("shift", 1.5), ("flips", "yes"),
        ("flips", 1), ("variant", None), ("variant", ["full_ar"]), ("epochs", True),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_is_named(tiny_config, setting, value):
    with pytest.raises(InvalidInput, match=f"^{setting}: expected"):
        tiny_config(**{setting: value})


def test_a_name_too_long_for_a_file_is_refused_before_training(tiny_config):
    with pytest.raises(InvalidInput, match="run_id"):
        tiny_config(suite="s" * 100)


def test_settings_that_a_stored_config_lacks_had_their_defaults(tiny_config):
    config = tiny_config()
    stored = config.as_dict()
    del stored["drloc_weight"], stored["shift"]
    assert config.differing({**stored, "member_epochs": [1]}) == []
    assert tiny_config(shift=1, seed=3).differing(stored) == ["seed", "shift"]
    del stored["suite"]
    assert config.differing(stored) == ["suite"]
