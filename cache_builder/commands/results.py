"""`results`: the table of what came out, as `data/README.md` has it."""

import argparse
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from engine.core.labels import BACKBONES, DATASETS, ensemble_size, variant_label
from engine.metrics import ece
from engine.store import RunRecord, default_shards_directory, read_shard, shard_paths

HEADER = "| data | backbone | variant | accuracy (%) by seed | raw ECE by seed | std of r_std over samples |"


def results_table(records: Iterable[RunRecord]) -> str:
    """A Markdown row per cell: its runs by seed, without ensembles (runs of several epochs)."""
    cells: dict[tuple[str, str, str, int | None], list[RunRecord]] = defaultdict(list)
    for record in records:
        if ensemble_size(record.suite) is None:
            cells[record.dataset, record.backbone, record.variant, record.block_size].append(record)
    lines = [HEADER, "|---|---|---|---|---|---|"]
    for (dataset, backbone, variant, block_size), runs in sorted(cells.items(), key=lambda cell: str(cell[0])):
        runs.sort(key=lambda run: run.seed or 0)
        accuracy = ", ".join(f"{100 * run.accuracy:.1f}" for run in runs)
        error = ", ".join(f"{ece(run.confidence, run.correct):.3f}" for run in runs)
        spread = ", ".join(f"{run.entropies.std(axis=1).std():.3f}" for run in runs if run.n_layers)
        names = DATASETS.get(dataset, dataset), BACKBONES.get(backbone, backbone), variant_label(variant, block_size)
        lines.append(f"| {' | '.join(names)} | {accuracy} | {error} | {spread} |")
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shards", nargs="?", type=Path, default=default_shards_directory(), help="(default: data/shards)"
    )


def run(arguments: argparse.Namespace) -> int:
    print(results_table(read_shard(path) for path in shard_paths(arguments.shards)))
    return 0
