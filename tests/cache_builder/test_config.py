"""Recipes: what they expand to, and what they refuse."""

import pytest

from cache_builder.config import RECIPES, Recipe, RunConfig, load_recipe
from cache_builder.models import BACKBONES
from engine.errors import InvalidInput, UnknownName


def test_bundled_recipe_is_the_papers_design_at_a_micro_scale():
    runs = load_recipe("bundled").runs()
    routed = [run for run in runs if run.variant in ("full_ar", "block_ar")]
    assert len(routed) == 30
    three_seeds = [run for run in routed if run.backbone != "micro_vit"]
    assert len(three_seeds) == 24
    assert {run.seed for run in three_seeds} == {0, 1, 2}
    assert {run.dataset for run in routed if run.backbone == "micro_vit"} == {"cifar10", "fashion-mnist", "digits"}
    controls = [(run.backbone, run.dataset, run.variant) for run in runs if run not in routed]
    assert len(controls) == len(set(controls)) == 14


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
    assert {run.backbone for run in runs} <= set(BACKBONES)


def test_data_set_settings_stand_between_common_settings_and_choices():
    recipe = Recipe("s", {"epochs": 9, "batch_size": 7}, {"digits": {"epochs": 5, "batch_size": 6}}, ())
    config = recipe.config(backbone="micro_vit", dataset="digits", variant="baseline", seed=0, epochs=2)
    assert (config.epochs, config.batch_size) == (2, 6)


def test_config_survives_its_dictionary():
    config = load_recipe("bundled").runs()[0]
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
    ],
)
def test_mistakes_in_a_recipe_are_named(tmp_path, content, error, message):
    grid = "{backbones: [micro_vit], datasets: [digits], variants: [baseline], seeds: [0]}"
    file = tmp_path / "recipe.yaml"
    file.write_text(content.replace("{GRID}", grid))
    with pytest.raises(error, match=message):
        load_recipe(file).runs()


def test_unknown_recipe_lists_those_there_are():
    with pytest.raises(UnknownName, match="bundled"):
        load_recipe("bundeled")
