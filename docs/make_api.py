"""Writes docs/api.md: every public name of the packages that are meant to be imported, as its source says it.

`python docs/make_api.py`, or `make api`; a test compares.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/api.md"
MODULES = (
    "engine.verdict",
    "engine.gaps",
    "engine.controls",
    "engine.metrics",
    "engine.features",
    "engine.calibrators",
    "engine.kernel",
    "engine.probes",
    "engine.benchmark",
    "engine.sweep",
    "engine.store",
    "engine.paper",
    "engine.core.types",
    "engine.core.errors",
    "cache_builder.models",
    "cache_builder.taps",
    "cache_builder.tapped_run",
)
HEAD = """# Public names

Made from the docstrings by `make api`; do not edit. Inputs are checked once, at the function that is called; what it
refuses is an `engine.core.errors.RouteCalError` that names the argument. Results are frozen dataclasses, and randomness
comes in as a seed.
"""


def public(module_name: str) -> Iterator[tuple[str, object]]:
    """Functions and classes that the module defines, or takes from modules inside it, by name."""
    module = importlib.import_module(module_name)
    for name, value in sorted(vars(module).items(), key=lambda entry: entry[0].lower()):
        origin = getattr(value, "__module__", "") or ""
        inside = origin == module_name or (hasattr(module, "__path__") and origin.startswith(f"{module_name}."))
        if not name.startswith("_") and inside and (inspect.isfunction(value) or inspect.isclass(value)):
            yield name, value


def described(name: str, value: object) -> str:
    """Its signature or fields as they are written, its docstring, and the methods of a class."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body  # type: ignore[arg-type]
    words = inspect.cleandoc(ast.get_docstring(node) or "")  # type: ignore[arg-type]
    if isinstance(node, ast.FunctionDef):
        return f"### {name}\n\n```python\n{signature(node)}\n```\n\n{words}\n"
    assert isinstance(node, ast.ClassDef)
    lines = [f"class {name}({', '.join(ast.unparse(base) for base in node.bases)}):".replace("()", "")]
    methods = []
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and not ast.unparse(part.target).startswith("_"):
            lines.append(f"    {ast.unparse(part)}")
        elif isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
            said = (ast.get_docstring(part) or "").replace("\n", " ")
            kind = [ast.unparse(decorator) for decorator in part.decorator_list]
            shown = part.name if {"property", "cached_property"} & set(kind) else signature(part)
            methods.append(f"- `{shown}`{': ' if said else ''}{said}")
    text = f"### {name}\n\n```python\n" + "\n".join(lines) + f"\n```\n\n{words}\n"
    return text + ("\n" + "\n".join(methods) + "\n" if methods else "")


def signature(node: ast.FunctionDef) -> str:
    arguments = ast.unparse(node.args).removeprefix("self, ").removeprefix("self")
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({arguments}){returned}"


def page() -> str:
    parts = [HEAD]
    for module_name in MODULES:
        about = inspect.cleandoc(importlib.import_module(module_name).__doc__ or "")
        parts.append(f"## {module_name}\n\n{about}\n")
        parts += [described(name, value) for name, value in public(module_name)]
    return "\n".join(part.rstrip() + "\n" for part in parts)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(page())
