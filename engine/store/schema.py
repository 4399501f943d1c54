"""The tables of a cache."""

SCHEMA_VERSION = "2"
READABLE = ("1", SCHEMA_VERSION)
ADDED_IN_2 = {"capture": "runs", "cluster": "samples"}
"""Columns that a cache of version 1 lacks, and the table that has them."""

DDL = """
CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL);
CREATE TABLE runs (
    run_id VARCHAR PRIMARY KEY, suite VARCHAR NOT NULL, backbone VARCHAR NOT NULL, dataset VARCHAR NOT NULL,
    variant VARCHAR NOT NULL, block_size INTEGER, seed BIGINT, epoch INTEGER,
    n_samples BIGINT NOT NULL, n_classes INTEGER, n_layers INTEGER NOT NULL, accuracy DOUBLE NOT NULL,
    has_logits BOOLEAN NOT NULL, extra_names VARCHAR[] NOT NULL, config JSON NOT NULL, provenance JSON NOT NULL,
    capture JSON NOT NULL, created_at TIMESTAMP NOT NULL);
CREATE TABLE layers (run_id VARCHAR NOT NULL, layer INTEGER NOT NULL, name VARCHAR NOT NULL, n_sources INTEGER);
CREATE TABLE samples (
    run_id VARCHAR NOT NULL, sample_id BIGINT NOT NULL, label INTEGER, prediction INTEGER,
    confidence DOUBLE NOT NULL, correct BOOLEAN NOT NULL, entropies FLOAT[] NOT NULL, extra FLOAT[] NOT NULL,
    cluster INTEGER);
CREATE TABLE logits (run_id VARCHAR NOT NULL, sample_id BIGINT NOT NULL, logits FLOAT[] NOT NULL);
CREATE TABLE epochs (
    run_id VARCHAR NOT NULL, epoch INTEGER NOT NULL, layer INTEGER NOT NULL,
    mean_entropy DOUBLE NOT NULL, std_entropy DOUBLE NOT NULL);
CREATE TABLE epoch_metrics (
    run_id VARCHAR NOT NULL, epoch INTEGER NOT NULL, name VARCHAR NOT NULL, value DOUBLE NOT NULL);
CREATE TABLE diagnoses (
    run_id VARCHAR NOT NULL, feature VARCHAR NOT NULL, settings VARCHAR NOT NULL, engine_version INTEGER NOT NULL,
    result VARCHAR NOT NULL);
"""
"""`seed`, `epoch`, `block_size`, `n_classes` and `n_sources` are empty where nobody knows them (imported outputs),
and `cluster` where every sample stands for itself. A diagnosis of no single run has none; its `settings` are its name,
and its `result` is what `engine.store.codec` reads."""

STORAGE_VERSION = "v1.2.0"
"""Of DuckDB files: the oldest DuckDB that shall open them."""
ENGINE_VERSION = 3
"""To be raised whenever an answer that is stored (`engine.verdict.answers`) would come out otherwise, or is added."""
TABLES = frozenset({"meta", "runs", "layers", "samples", "logits", "epochs", "epoch_metrics"})
"""Without those of answers, which a cache of version 1 lacks."""

COLUMN_NOTES: tuple[tuple[str, str, str, str], ...] = (
    ("runs", "run_id", "VARCHAR", "name of the run"),
    ("runs", "suite, backbone, dataset, variant", "VARCHAR", "which model on which data"),
    ("runs", "block_size, seed, epoch", "INTEGER", "empty where nobody knows"),
    ("runs", "n_samples, n_classes, n_layers", "INTEGER", "sizes; no layers without routing"),
    ("runs", "accuracy", "DOUBLE", "share of correct predictions"),
    ("runs", "has_logits", "BOOLEAN", "whether logits are kept"),
    ("runs", "extra_names", "VARCHAR[]", "names of the further columns"),
    ("runs", "config, provenance", "JSON", "how the run was made"),
    ("runs", "capture", "JSON", "how the routing was read off the model"),
    ("runs", "created_at", "TIMESTAMP", "when"),
    ("samples", "run_id, sample_id", "VARCHAR, BIGINT", "which sample of which run"),
    ("samples", "label, prediction", "INTEGER", "class numbers, where known"),
    ("samples", "confidence", "DOUBLE", "top softmax probability"),
    ("samples", "correct", "BOOLEAN", "was the prediction right?"),
    ("samples", "entropies", "FLOAT[]", "routing entropy by layer, in [0, 1]"),
    ("samples", "extra", "FLOAT[]", "further columns, in the order of extra_names"),
    ("samples", "cluster", "INTEGER", "what a sample shares with others, such as its sequence"),
    ("logits", "run_id, sample_id, logits", "VARCHAR, BIGINT, FLOAT[]", "one value per class"),
    ("layers", "run_id, layer, name, n_sources", "VARCHAR, INTEGER, VARCHAR, INTEGER", "routing layers, from 1"),
    ("epochs", "run_id, epoch, layer, mean_entropy, std_entropy", "VARCHAR, INTEGER, INTEGER, DOUBLE, DOUBLE",
     "entropy during training"),
    ("epoch_metrics", "run_id, epoch, name, value", "VARCHAR, INTEGER, VARCHAR, DOUBLE", "loss, accuracy, ..."),
    ("meta", "key, value", "VARCHAR", "schema version, fingerprint"),
)  # fmt: skip
"""The tables for somebody who writes SQL: table, columns, type, what they hold."""
