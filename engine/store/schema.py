"""The tables of a cache."""

from __future__ import annotations

SCHEMA_VERSION = "1"

DDL = """
CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL);
CREATE TABLE runs (
    run_id VARCHAR PRIMARY KEY, suite VARCHAR NOT NULL, backbone VARCHAR NOT NULL, dataset VARCHAR NOT NULL,
    variant VARCHAR NOT NULL, block_size INTEGER, seed BIGINT, epoch INTEGER,
    n_samples BIGINT NOT NULL, n_classes INTEGER, n_layers INTEGER NOT NULL, accuracy DOUBLE NOT NULL,
    has_logits BOOLEAN NOT NULL, extra_names VARCHAR[] NOT NULL, config JSON NOT NULL, provenance JSON NOT NULL,
    created_at TIMESTAMP NOT NULL);
CREATE TABLE layers (run_id VARCHAR NOT NULL, layer INTEGER NOT NULL, name VARCHAR NOT NULL, n_sources INTEGER);
CREATE TABLE samples (
    run_id VARCHAR NOT NULL, sample_id BIGINT NOT NULL, label INTEGER, prediction INTEGER,
    confidence DOUBLE NOT NULL, correct BOOLEAN NOT NULL, entropies FLOAT[] NOT NULL, extra FLOAT[] NOT NULL);
CREATE TABLE logits (run_id VARCHAR NOT NULL, sample_id BIGINT NOT NULL, logits FLOAT[] NOT NULL);
CREATE TABLE epochs (
    run_id VARCHAR NOT NULL, epoch INTEGER NOT NULL, layer INTEGER NOT NULL,
    mean_entropy DOUBLE NOT NULL, std_entropy DOUBLE NOT NULL);
CREATE TABLE epoch_metrics (
    run_id VARCHAR NOT NULL, epoch INTEGER NOT NULL, name VARCHAR NOT NULL, value DOUBLE NOT NULL);
"""
"""`seed`, `epoch`, `block_size`, `n_classes` and `n_sources` are empty where nobody knows them (imported outputs)."""

TABLES = frozenset({"meta", "runs", "layers", "samples", "logits", "epochs", "epoch_metrics"})
