"""`publish --force` writes what `publish` would call up to date."""

from __future__ import annotations

from cache_builder.__main__ import main
from engine.store import write_shard
from tests.conftest import made_up_run


def test_force(tmp_path, capsys):
    write_shard(made_up_run("run", n=40), tmp_path / "shards")
    command = ["publish", str(tmp_path / "shards"), "--cache", str(tmp_path / "cache.duckdb")]
    for more, said in (([], "published"), ([], "up to date"), (["--force"], "published")):
        assert main([*command, *more]) == 0
        assert capsys.readouterr().out.startswith(said)
