"""The documentation keeps its word: links lead somewhere, and the code it shows works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

from app.registry import PAGES
from engine.metrics import ece

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "data/README.md",
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path):
    for target in re.findall(r"\]\(([^)#\s]+)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


def test_every_page_is_explained():
    text = (ROOT / "docs/reading-the-pages.md").read_text()
    assert [page.title for page in PAGES if page.title not in text] == []


def test_the_quick_start_of_the_readme_runs():
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    printed = subprocess.run([sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "confidence" in printed.stdout


def test_the_calibrator_that_the_walk_adds_works():
    text = (ROOT / "docs/extending.md").read_text()
    diff = re.search(r"```diff\n(\+@dataclass.*?)```", text, re.DOTALL)
    assert diff is not None
    source = "\n".join(line.removeprefix("+") for line in diff[1].splitlines())
    names: dict[str, type] = {}
    header = """
from collections.abc import Mapping
from dataclasses import dataclass
import numpy as np
from engine.calibrators.base import Calibrator, Fitted
from engine.calibrators.samples import Samples, with_top_probability
from engine.types import FloatArray
"""
    exec(header + source, names)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2000, 5)) * 4
    labels = (logits / 3 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    fitted = names["ConfidencePower"]().fit(logits, labels)
    raw, calibrated = softmax(logits, axis=1), fitted.predict_proba(logits)
    np.testing.assert_allclose(calibrated.sum(axis=1), 1)
    scores = [ece(probs.max(axis=1), probs.argmax(axis=1) == labels) for probs in (raw, calibrated)]
    assert scores[1] < scores[0]
    assert fitted.summary == f"exponent {fitted.learned['exponent']:.3f}"
