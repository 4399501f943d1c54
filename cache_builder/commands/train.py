"""`train`: one run of a recipe."""

import argparse

from cache_builder.commands.shared_options import add_places, places_from
from cache_builder.config import load_recipe
from cache_builder.models.registry import VARIANTS
from cache_builder.one_run import is_finished, run_one
from cache_builder.progress import console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", help="paper, finetune, replica, smoke or another of ours, or the path of a YAML file")
    parser.add_argument("--backbone", required=True, help="a registered backbone or any timm ViT or Swin")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--variant", required=True, choices=VARIANTS)
    parser.add_argument("--block-size", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="instead of the recipe's")
    parser.add_argument(
        "--init",
        metavar="CHECKPOINT|NAME",
        help="start from these weights (a checkpoint of ours or of timm, or timm's name of pretrained ones); "
        "a plain model's fit under a routed one, whose routing then starts fresh",
    )
    add_places(parser)


def run(arguments: argparse.Namespace) -> int:
    config = load_recipe(arguments.recipe).config(
        backbone=arguments.backbone,
        dataset=arguments.dataset,
        variant=arguments.variant,
        block_size=arguments.block_size,
        seed=arguments.seed,
        epochs=arguments.epochs,
        init=arguments.init,
    )
    places = places_from(arguments)
    places.make_shards_folder()
    if not is_finished(config, places.shards) and run_one(config, places, console()):
        print(f"{config.run_id}: shard written to {places.shards}")
    else:
        print(f"{config.run_id} is finished already; its shard is in {places.shards}")
    return 0
