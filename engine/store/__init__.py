"""The cache: runs as Parquet shards, published into one DuckDB file. Nothing else in the project knows DuckDB."""

from engine.store.cache import Cache, open_cache
from engine.store.connection import default_cache_path, default_shards_directory
from engine.store.publish import PublishReport, publish
from engine.store.record import Layer, RunRecord
from engine.store.schema import SCHEMA_VERSION
from engine.store.shard import read_shard, shard_paths, verify_shard, write_shard
