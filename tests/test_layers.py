"""Imports point one way: pages -> app -> engine, cache_builder -> engine; heavy packages only where they may be."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "engine": {"engine"},
    "cache_builder": {"cache_builder", "engine"},
    "app": {"app", "engine"},
    "pages": {"app", "engine"},
}
OURS = set(MAY_IMPORT)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def sources(layer: str) -> list[Path]:
    return sorted((ROOT / layer).rglob("*.py"))


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_imports_point_one_way(layer: str):
    for path in sources(layer):
        top = {name.partition(".")[0] for name in imports(path)}
        assert top & OURS <= MAY_IMPORT[layer], path.relative_to(ROOT)


@pytest.mark.parametrize("layer", ["engine", "cache_builder"])
def test_statistics_and_builder_know_no_interface(layer: str):
    for path in sources(layer):
        top = {name.partition(".")[0] for name in imports(path)}
        assert not top & {"streamlit", "plotly"}, path.relative_to(ROOT)


def test_only_the_store_knows_duckdb():
    for layer in MAY_IMPORT:
        for path in sources(layer):
            if (ROOT / "engine/store") in path.parents or path == ROOT / "engine/sandbox/sql_child.py":
                continue
            assert "duckdb" not in {name.partition(".")[0] for name in imports(path)}, path.relative_to(ROOT)


def test_plots_know_neither_streamlit_nor_statistics():
    for path in sources("app/plots"):
        assert "streamlit" not in {name.partition(".")[0] for name in imports(path)}, path.relative_to(ROOT)


def test_results_are_kept_by_keep():
    """`st.cache_resource` would keep what is computed from a viewer's own data after the viewer has left."""
    for path in sources("app/compute"):
        if path.name not in {"jobs.py", "own_data.py", "keep.py"}:
            of_a_run = re.findall(r"@st\.cache_\w+\(.*\)\ndef (\w+)\((?!\))", path.read_text())
            assert not of_a_run, f"{path.name}: use app.compute.keep.keep"


def test_engine_imports_without_heavy_packages():
    code = """
import importlib, pkgutil, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {'torch', 'plotly', 'streamlit', 'timm', 'sklearn'}:
            raise ModuleNotFoundError(f'{name} is not available in this test')
sys.meta_path.insert(0, Refuse())
import engine
for module in pkgutil.walk_packages(engine.__path__, 'engine.'):
    if not module.name.endswith('__main__'):
        importlib.import_module(module.name)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)
