"""From trained models to per-sample tables: models, data, training, extraction, shards."""
