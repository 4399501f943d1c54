"""`--plan`: what the paper's recipe would train, against the paper's own tables, and what a run really keeps."""

import pytest
import torch

from cache_builder.__main__ import main
from cache_builder.config import load_recipe
from cache_builder.plan import plan
from cache_builder.train import Trainer, loss_of
from engine.paper.published import load

NAMES = {
    "swin_tiny": "Sw-T", "deit_small": "DeiT-S", "vit_base": "ViT-B/16",
    "cifar10": "C-10", "cifar100": "C-100", "tiny-imagenet": "T-IN", "block_ar": "Block-AR", "full_ar": "Full-AR",
}  # fmt: skip


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    nowhere = tmp_path_factory.mktemp("no-data")
    return [(config, plan(config, nowhere)) for config in load_recipe("paper").runs()]


def test_the_papers_recipe_is_the_papers_54_runs_and_the_vit_baseline(papers):
    assert len(papers) == 55
    routed = [config for config, _ in papers if config.variant in ("block_ar", "full_ar")]
    rows = [" / ".join(NAMES[getattr(run, part)] for part in ("backbone", "dataset", "variant")) for run in routed]
    published = load("ar_sweep").query("column == 'Runs tested'").set_index("row")["value"].astype(int)
    assert {row: rows.count(row) for row in rows} == published.to_dict()
    assert len(published) == 14
    others = [(config.backbone, config.dataset, config.variant) for config, _ in papers if config not in routed]
    assert others.count(("vit_base", "cifar100", "baseline")) == 1
    assert len(others) == 25


def test_parameters_and_layers_are_the_papers(papers):
    known = {
        (config.backbone, config.variant): (round(planned.parameters / 1e6, 3), planned.n_layers)
        for config, planned in papers
        if config.dataset == "cifar10"
    }
    assert known["swin_tiny", "baseline"] == (27.527, 0)
    assert known["swin_tiny", "full_ar"] == (27.545, 16)
    assert known["swin_tiny", "block_ar"] == (27.545, 8)
    assert known["deit_small", "baseline"] == (21.660, 0)
    assert known["deit_small", "full_ar"] == (21.679, 22)
    assert known["vit_base", "full_ar"] == (85.816, 22)
    assert known["vit_base", "block_ar"] == (85.816, 12)


def test_the_plan_counts_the_steps_and_the_memory_that_training_takes(tmp_path, digits, tiny_config):
    config = tiny_config(backbone="micro_swin", epochs=3, batch_size=64, limit_train=None)
    planned = plan(config, tmp_path)
    trainer = Trainer(config, digits, tmp_path, torch.device("cpu"))
    assert planned.steps == trainer.steps_per_epoch * 3
    kept = {}

    def keep(tensor):
        if not isinstance(tensor, torch.nn.Parameter):
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = loss_of(trainer.model, torch.randn(64, 1, 16, 16), torch.zeros(64, dtype=torch.long), config)
    total = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    assert loss.requires_grad
    assert planned.activation_bytes == pytest.approx(total, rel=0.15)


@pytest.mark.parametrize(("recipe", "n_runs"), [("ablation-block-size", 6), ("finetune", 9), ("replica", 47)])
def test_other_recipes_are_planned_without_data(recipe, n_runs, tmp_path, capsys):
    assert main(["sweep", recipe, "--plan", "--data", str(tmp_path), "--shards", str(tmp_path / "shards")]) == 0
    printed = capsys.readouterr().out
    assert f"\n{n_runs} runs, " in printed
    assert not (tmp_path / "shards").exists()
    if recipe == "ablation-block-size":
        layers = [line.split()[3] for line in printed.splitlines()[1:7]]
        assert layers == ["8", "4", "0", "0", "0", "16"]
