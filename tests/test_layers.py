"""Imports point one way: pages -> app -> engine, cache_builder -> engine, and downwards inside engine.

Heavy packages are imported only where they may be, and nothing is written twice.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
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
ENGINE = (
    "core", "metrics", "kernel", "calibrators", "gaps", "controls", "features", "store", "importing", "sandbox",
    "probes", "benchmark", "sweep", "verdict", "paper", "commands",
)  # fmt: skip
"""The packages of engine; each may import those before it."""
REPEATED = 10
"""So many lines of code may not stand in two places."""


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "engine":
            found |= {f"engine.{alias.name}" for alias in node.names}
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


def test_engine_holds_its_packages_and_nothing_else():
    found = {path.name for path in (ROOT / "engine").iterdir() if path.name != "__pycache__"}
    assert found == {*ENGINE, "__init__.py", "__main__.py"}


@pytest.mark.parametrize("package", ENGINE)
def test_imports_inside_engine_point_downwards(package: str):
    allowed = ENGINE[: ENGINE.index(package) + 1]
    for path in sources(f"engine/{package}"):
        for name in imports(path):
            top, _, rest = name.partition(".")
            assert top != "engine" or rest.partition(".")[0] in allowed, f"{path.relative_to(ROOT)} imports {name}"


def code_lines(path: Path) -> list[tuple[int, str]]:
    """Number and text of every line that is neither blank nor a comment, an import or a docstring."""
    text = path.read_text()
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, (ast.Import, ast.ImportFrom)):
            skipped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate((line.strip() for line in text.splitlines()), start=1)
    return [(number, line) for number, line in lines if number not in skipped and line and not line.startswith("#")]


def repetitions(paths: list[Path]) -> list[str]:
    """Places where the same lines of code stand, as `file:line`."""
    places = defaultdict(list)
    for path in paths:
        lines = code_lines(path)
        for start in range(len(lines) - REPEATED + 1):
            window = lines[start : start + REPEATED]
            places[tuple(line for _, line in window)].append(f"{path}:{window[0][0]}")
    return [" = ".join(found) for found in places.values() if len(found) > 1]


def test_no_ten_lines_stand_twice():
    assert not repetitions([path for layer in MAY_IMPORT for path in sources(layer)])


def test_ten_lines_that_stand_twice_are_found(tmp_path: Path):
    body = [f"x = {number}" for number in range(REPEATED)]
    (tmp_path / "one.py").write_text("import os\n" + "\n".join(body[:5]) + "\n# a remark\n\n" + "\n".join(body[5:]))
    (tmp_path / "two.py").write_text('def f():\n    "Words."\n' + "\n".join(f"    {line}" for line in body))
    (tmp_path / "three.py").write_text("\n".join(body[1:]))
    assert repetitions(sorted(tmp_path.iterdir())) == [f"{tmp_path}/one.py:2 = {tmp_path}/two.py:3"]


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
