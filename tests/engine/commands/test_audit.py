"""What `python -m engine audit` prints: names from `engine.core.labels`, spreads only where there are seeds."""

from __future__ import annotations

import re
from pathlib import Path

from engine.__main__ import main
from engine.store import publish, write_shard


def test_cells_of_one_run_are_named_and_have_no_spread(tmp_path: Path, make_run, capsys):
    records = [make_run("blocks", variant="block_ar", block_size=3), make_run("layers", variant="full_ar")]
    for record in records:
        write_shard(record, tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    assert main(["audit", str(tmp_path / "cache.duckdb")]) == 0
    printed = capsys.readouterr().out
    cells = printed.split("Cells: pooled effect [95 % interval], seeds that reject")[1]
    assert re.search(r"toy · dice · Block-AR \(b = 3\) \(n = 1\): [-+]0\.\d{3} \[", cells)
    assert "±" not in cells
    assert "tested in part" not in printed
