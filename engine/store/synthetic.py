"""Made-up caches of any size for measurements, written by DuckDB itself so that their making needs no memory either."""

from __future__ import annotations

from pathlib import Path

import duckdb

from engine.store.schema import DDL, SCHEMA_VERSION

RUN_ID = "synthetic"
N_LAYERS = 16
N_CLASSES = 10


def write_synthetic_cache(path: Path, n: int) -> Path:
    """One run of n samples with a 16-layer profile and no logits; independent of any seed."""

    def noise(stream: int) -> str:
        return f"(hash(sample_id * 1000003 + {stream}) % 1000003) / 1000003.0"

    confidence = f"sqrt({noise(50)})"
    profile = ", ".join(f"0.4 + 0.5 * {noise(layer)}" for layer in range(N_LAYERS))
    with duckdb.connect(str(path)) as connection:
        connection.execute(DDL)
        connection.execute("INSERT INTO meta VALUES ('schema_version', ?)", [SCHEMA_VERSION])
        connection.execute(
            """INSERT INTO runs VALUES ($run_id, 'bench', 'none', 'none', 'none', NULL, NULL, NULL, $n, $n_classes,
               $n_layers, 0.5, false, [], '{}', '{}', TIMESTAMP '2026-01-01')""",
            {"run_id": RUN_ID, "n": n, "n_classes": N_CLASSES, "n_layers": N_LAYERS},
        )
        connection.execute(
            f"""INSERT INTO samples
                SELECT '{RUN_ID}', sample_id, NULL, NULL, {confidence}, {noise(51)} < {confidence},
                    [{profile}]::FLOAT[], []::FLOAT[]
                FROM (SELECT range AS sample_id FROM range({n}))"""
        )
    return path
