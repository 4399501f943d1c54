"""A run from each tap goes through publishing, every page and the report."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from app.registry import PAGES, page_for
from app.report import build_report
from cache_builder.extract import extract_run
from cache_builder.models import create_model
from cache_builder.taps import (
    TAPS,
    AttentionTap,
    ModuleTap,
    NormTap,
    RoutedTap,
    RouterTap,
    SoftmaxTap,
    Tap,
    residual_weights,
)
from engine.store import open_cache, publish
from tests.app.driver import open_app, verdict
from tests.cache_builder.test_tapped_run import build
from tests.cache_builder.test_taps import third_party

HOWS: dict[str, Tap] = {
    "softmax": SoftmaxTap(axis=0, rank=3),
    "module": ModuleTap("*_res_norm", read=residual_weights),
    "router": RouterTap(),
    "attention": AttentionTap(),
    "routed": RoutedTap(),
    "norms": NormTap(),
}


def batches(name: str) -> tuple[nn.Module, list[tuple[torch.Tensor, ...]]]:
    """A model for the tap, with labels that its own outputs make likely; the router's samples are in clusters."""
    torch.manual_seed(1)
    if name in ("softmax", "module"):
        model, x = third_party()[0], torch.randn(240, 7, 3)
    elif name == "router":
        model, x = build(), torch.randn(240, 5, 6)
    else:
        model = create_model("micro_vit", variant="full_ar" if name == "routed" else "baseline").eval()
        x = torch.randn(240, 3, 32, 32)
    with torch.no_grad():
        labels = torch.distributions.Categorical(logits=2 * model(x)).sample()
    parts = [x, labels, torch.arange(240) // 4] if name == "router" else [x, labels]
    return model, list(zip(*(part.split(80) for part in parts), strict=True))


@pytest.fixture(scope="module")
def tapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("tapped")
    for name, how in HOWS.items():
        model, loader = batches(name)
        extract_run(model, loader, tap=how, run_id=name, backbone=name, dataset="mine", out=folder / "shards")
    publish(folder / "shards", folder / "cache.duckdb")
    return folder / "cache.duckdb"


def test_every_tap_is_here(tapped: Path):
    assert HOWS.keys() == TAPS.keys()
    with open_cache(tapped) as cache:
        assert cache.runs()["run_id"].tolist() == sorted(HOWS)
        assert cache.load("router").clusters.tolist() == [row // 4 for row in range(240)]
        assert [cache.load(name).clusters for name in HOWS if name != "router"] == [None] * 5


USUAL = ("router", "norms")
"""With clusters, and without a profile; runs of the other taps look like any of ours and are left to `make faults`."""


@pytest.mark.parametrize("name", [*USUAL, *(pytest.param(n, marks=pytest.mark.faults) for n in HOWS if n not in USUAL)])
def test_every_page(name: str, tapped: Path, monkeypatch):
    for page in PAGES:
        app = open_app(tapped, monkeypatch, page.name, backbone=name)
        assert app.title[0].value == page_for(page.name).question
        assert verdict(app)


def test_the_report(tapped: Path, monkeypatch):
    monkeypatch.setattr("app.report.study.N_SIMULATIONS", 20)
    with open_cache(tapped) as cache:
        report = build_report(cache, tuple(HOWS))
    headings = [str(item.content) for item in report.items if item.kind in ("section", "heading")]
    assert all(any(name in heading for heading in headings) for name in HOWS)
