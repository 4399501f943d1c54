"""The report: what it says, what it leaves out, how it fails, and that it never needs Streamlit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from app.__main__ import main
from app.compute.overview import summarise
from app.export import Item, page_html
from app.plots.theme import Theme, empty_figure
from app.report import MOST_RUNS, Settings, build_report
from app.report.blind import BlindCache
from app.report.command import NoBrowser, find_browser
from app.report.sections import whole_cache
from app.report.study import study_run
from engine.core.errors import UnknownName
from engine.core.labels import print_value
from engine.features import FEATURES, Feature, feature
from engine.store import open_cache, publish
from engine.sweep import diagnose, single_models
from engine.verdict import judge
from engine.verdict.cache import judge_cache
from tests.app.driver import ROOT, open_app, published

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FULL, IMPORTED = "toy · dice · Full-AR · seed 0", "unknown · dice · imported · seed 4"


@pytest.fixture(autouse=True)
def _few_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controls are the engine's, tested there; here they need not be exact."""
    monkeypatch.setattr("app.report.study.N_SIMULATIONS", 20)


def sections(items: list[Item]) -> dict[str, list[Item]]:
    """The items under each heading."""
    found: dict[str, list[Item]] = {}
    for item in items:
        if item.kind in ("section", "heading"):
            found[str(item.content)] = []
        elif found:
            found[next(reversed(found))].append(item)
    return found


def words(items: list[Item]) -> str:
    return " ".join(str(item.content) for item in items if isinstance(item.content, str | dict))


def drawings(items: list[Item]) -> list[str]:
    """What the figures are figures of."""
    flat = [part for item in items for part in (item.content if item.kind == "pair" else [item])]
    return [item.alt for item in flat if item.kind == "figure"]


def test_its_sentences_are_the_engines(cache_of_kinds: Path):
    with open_cache(cache_of_kinds) as cache:
        report = build_report(cache, ["full-s0"])
        rows = single_models(diagnose(cache))
        run = cache.load("full-s0")
    label = "mean routing entropy"
    assert report.items[0].content == judge_cache(rows, feature=label).sentence
    found = sections(report.items)
    assert found["All runs together"][0].kind == "figure"
    verdict = judge(run.confidence, run.correct, feature(run, "r_agg"), feature=label, n_replicates=20)
    assert found[FULL][0].content == verdict.sentence
    assert f"{verdict.paper.gap.max_gap:.3f}, 95 % interval" in words(found[FULL])
    table = next(item for item in found["Every run"] if item.kind == "table").content
    assert len(table) == 6
    assert table["Raw ECE"].notna().all()


def test_every_kind_of_run_is_reported_with_what_it_lacks(cache_of_kinds: Path):
    with open_cache(cache_of_kinds) as cache:
        report = build_report(cache)
    found = sections(report.items)
    whole = found[FULL]
    assert "has no" not in words(whole)
    assert len(drawings(whole)) == 6
    assert "no logits" in words(found["toy · dice · Block-AR (b = 2) · seed 2"])
    plain = found["toy · dice · plain residual · seed 3"]
    assert "cannot be run here" in words(plain)
    assert "no routing profile" in words(plain)
    assert drawings(plain) == ["Reliability diagram: accuracy against confidence"]
    imported = found[IMPORTED]
    assert "no logits" in words(imported)
    assert "no routing profile" in words(imported)
    assert not any("ensemble" in heading for heading in found), "ensembles are not shown unless asked for"


def test_extra_columns_stand_in_for_a_profile_and_a_seed_may_be_unknown(tmp_path: Path, make_run):
    base = make_run("other", profile=False, logits=False)
    record = replace(base, extra={"margin": np.linspace(0, 1, base.n_samples)}, seed=None)
    path = published([record], tmp_path)
    with open_cache(path) as cache:
        report = build_report(cache, settings=Settings("margin"))
    text = words(report.items)
    assert "are shown instead" in text
    assert "does not say with which seed" in text
    assert "from the low to the high third of margin" in text


def test_by_default_the_lowest_seed_of_each_cell_up_to_a_cap(tmp_path: Path, make_run):
    records = [make_run("a-s1", seed=1, n=300), make_run("a-s0", seed=0, n=300)]
    records += [make_run(f"cell{k}", seed=5, n=300, dataset=f"set{k:02}") for k in range(MOST_RUNS + 2)]
    with open_cache(published(records, tmp_path)) as cache:
        report = build_report(cache)
    found = [heading for heading in sections(report.items) if "seed" in heading]
    assert len(found) == MOST_RUNS
    assert found[0] == FULL
    facts = next(item for item in report.items if item.kind == "facts").content
    assert f"the first {MOST_RUNS} of {MOST_RUNS + 3} in the order of the table" in facts["Runs in detail"]


def test_a_long_forest_is_cut_into_pieces_that_fit_a_page(cache_of_kinds: Path):
    with open_cache(cache_of_kinds) as cache:
        rows, runs = diagnose(cache), cache.runs()
    one, row = rows[rows["run_id"] == "full-s0"], runs[runs["run_id"] == "full-s0"]
    cells = [f"set{k:02}" for k in range(40)]
    many = pd.concat([one.assign(run_id=name, dataset=name) for name in cells], ignore_index=True)
    table = pd.concat([row.assign(run_id=name, dataset=name) for name in cells]).set_index("run_id", drop=False)
    found = sections(list(whole_cache(summarise(many, table, "the feature"))))["The paper's gaps, cell by cell"]
    figures = [part.content for item in found for part in item.content]
    assert len(figures) > 2
    assert all(figure.layout.height <= 1000 for figure in figures)
    assert sum(len(figure.data[-1].x) for figure in figures) == 2 * 40, "every run in both forests"
    assert len({figure.layout.xaxis.range for figure in figures[::2]}) == 1, "on one scale"


def test_unknown_names_are_refused(cache_of_kinds: Path):
    with open_cache(cache_of_kinds) as cache:
        with pytest.raises(UnknownName, match="full-s0"):
            build_report(cache, ["nobody"])
        with pytest.raises(UnknownName, match="r_agg"):
            build_report(cache, settings=Settings("nonsense"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{cache}", "--run", "nobody", "--out", "{folder}/r.html"], "nobody"),
        (["{cache}", "--feature", "nonsense", "--out", "{folder}/r.html"], "nonsense"),
        (["{cache}", "--min-support", "0", "--out", "{folder}/r.html"], "--min-support"),
        (["{folder}/missing.duckdb", "--out", "{folder}/r.html"], "no such cache"),
        (["{empty}", "--out", "{folder}/r.html"], "holds no runs"),
        (["{cache}", "--out", "{folder}"], "is a folder"),
        (["{cache}", "--out", "{folder}/nowhere/r.html"], "there is no folder"),
        (["{cache}", "--out", "{folder}/file/r.html"], "there is no folder"),
        (["{cache}", "--out", "/proc/r.html"], "/proc/r.html"),
    ],
)
def test_errors_are_plain_and_leave_nothing(arguments, says, cache_of_kinds, empty_cache, tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    places = {"cache": cache_of_kinds, "folder": tmp_path, "empty": empty_cache}
    assert main(["report", *(argument.format(**places) for argument in arguments)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert says in error
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_failure_while_writing_keeps_the_old_report(cache_of_kinds: Path, tmp_path: Path, monkeypatch, capsys):
    out = tmp_path / "r.html"
    out.write_text("the old one")

    def full(_path: Path, _content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert main(["report", str(cache_of_kinds), "--run", "imported", "--out", str(out)]) == 2
    assert "No space left" in capsys.readouterr().err
    assert out.read_text() == "the old one"
    assert list(tmp_path.iterdir()) == [out]


def test_the_command_writes_a_report_and_never_imports_streamlit(cache_of_kinds: Path, tmp_path: Path):
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {'streamlit', 'torch'}:
            raise ModuleNotFoundError(f'{name} is not available in this test')
sys.meta_path.insert(0, Refuse())
from app.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
    out = tmp_path / "r.html"
    command = [sys.executable, "-c", code, "report", str(cache_of_kinds), "--run", "full-s1", "imported", "--out", out]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    text = out.read_text(encoding="utf-8")
    assert "toy · dice · Full-AR · seed 1" in text
    assert "--run full-s1 \\\n  --run imported" in text, "how to make it again"
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_the_bundled_cache_fits_eight_megabytes_and_names_no_place(tmp_path: Path):
    publish(ROOT / "data" / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        text = build_report(cache).html()
    assert len(text.encode()) < 8e6
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)  # plotly.js is not ours; the figures' data stay
    assert str(tmp_path) not in text
    assert str(ROOT) not in text
    assert not re.search(r"/home/|/Users/|/tmp/|/root/|[A-Z]:\\\\", own)
    assert "removed-" not in own, "nothing in the bundled runs has to be removed"


@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
def test_pdf(cache_of_kinds: Path, tmp_path: Path, capsys):
    out = tmp_path / "r.pdf"
    assert main(["report", str(cache_of_kinds), "--run", "full-s0", "--out", str(out)]) == 0, capsys.readouterr().err
    content = out.read_bytes()
    assert content.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) >= 6
    assert str(tmp_path).encode() not in content
    assert list(tmp_path.iterdir()) == [out]


def test_pdf_without_a_browser_names_the_remedy(cache_of_kinds: Path, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    arguments = ["report", str(cache_of_kinds), "--format", "pdf", "--out", str(tmp_path / "r.pdf")]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert "install" in error
    assert "BROWSER_PATH" in error
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("BROWSER_PATH", "no-such-browser")
    with pytest.raises(NoBrowser, match="no-such-browser"):
        find_browser()


def test_a_browser_that_fails_is_reported(cache_of_kinds: Path, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("BROWSER_PATH", shutil.which("false") or os.devnull)
    assert main(["report", str(cache_of_kinds), "--run", "imported", "--out", str(tmp_path / "r.pdf")]) == 2
    assert "wrote no file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "pattern", "printed"),
    [
        (0.12345, "%.3f", "0.123"), (-0.5, "%+.2f", "-0.50"), (0.054, "percent", "5.4%"), (10000, "", "10,000"),
        (3.0, "", "3"), (0.123456789, "", "0.123457"), (None, "%.3f", "–"), (float("nan"), "%.3f", "–"),
        (pd.NA, "", "–"), ("text", "%.3f", "text"), (True, "", "True"), (np.float32(0.5), "", "0.5"),
    ],
)  # fmt: skip
def test_cells_in_print(value, pattern, printed):
    assert print_value(value, pattern) == printed


def test_nothing_in_a_name_can_leave_its_place():
    evil = '</script><script>alert("x")</script>'
    frame = pd.DataFrame({evil: [evil]})
    items = [Item("section", evil), Item("facts", {evil: evil}), Item("table", frame), Item("code", evil)]
    text = page_html(evil, [*items, Item("figure", empty_figure(Theme(), evil))], contents=True)
    assert "<script>alert" not in text
    # title, head line, contents, section, name and value of a fact, head and cell of the table, code
    assert text.count("&lt;script&gt;alert") == 9
    assert text.count("\\u003cscript\\u003ealert") == 1


def test_the_overview_makes_a_report_on_demand(cache_of_kinds: Path, monkeypatch):
    made = []

    def build(*arguments: object, **settings: object) -> object:
        made.append((arguments, settings))
        return build_report(*arguments, **settings)

    monkeypatch.setattr("app.shell.report_button.build_report", build)
    app = open_app(cache_of_kinds, monkeypatch, "overview", support="7")
    assert made == [], "nothing is computed before the button is pressed"
    monkeypatch.setattr("app.compute.sweep.diagnose", None)  # the Overview has the rows
    app.button(key="start-report").click().run()
    assert not app.exception
    assert not app.error
    assert made[0][0][1:] == ((), Settings("r_agg", 7))
    assert "Save the report" in [button.label for button in app.get("download_button")]


def test_every_page_on_a_run_makes_its_report_in_the_background(cache_of_kinds: Path, monkeypatch):
    swept: list[int] = []

    def counted(*arguments: object, **settings: object) -> pd.DataFrame:
        swept.append(settings["settings"].min_support)
        return diagnose(*arguments, **settings)

    monkeypatch.setattr("app.compute.sweep.diagnose", counted)
    monkeypatch.setattr("app.report.diagnose", None)  # nobody else diagnoses
    query = {"backbone": "toy", "variant": "Full-AR", "support": "6"}
    app = open_app(cache_of_kinds, monkeypatch, "gap", **query)
    assert app.button(key="start-report-run").label == "Report on this run"
    assert swept == [], "nothing is computed before the button is pressed"
    app.button(key="start-report-run").click().run()
    assert not app.error
    assert "Save the report" in [button.label for button in app.get("download_button")]
    other = open_app(cache_of_kinds, monkeypatch, "gap", **query, run="seed 1")
    other.button(key="start-report-run").click().run()
    assert not other.error
    open_app(cache_of_kinds, monkeypatch, "overview", support="6")
    assert swept == [6], "every run is tested once for all reports and for the Overview"


def test_the_report_of_a_run_can_be_stopped(cache_of_kinds: Path, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr("app.shell.report_button.build_report", lambda *_, **__: gate.wait(20))
    monkeypatch.setattr("app.shell.long_work.FIRST_LOOK", 0.5)
    try:
        app = open_app(cache_of_kinds, monkeypatch, "gap", backbone="toy", variant="Full-AR", support="9")
        app.button(key="start-report-run").click().run()
        app.button(key="stop-report-run").click().run()
        assert "Stopped." in [caption.value for caption in app.caption]
    finally:
        gate.set()


def test_a_new_feature_that_needs_logits_is_reported(cache_of_kinds: Path, monkeypatch):
    largest = Feature("largest_logit", "largest logit", "max_k z_k", "logits", lambda run: run.logits.max(axis=1))
    monkeypatch.setitem(FEATURES, "largest_logit", largest)
    with open_cache(cache_of_kinds) as cache:
        found = study_run(BlindCache(cache), "full-s0", Settings("largest_logit"), lambda _share, _text: None)
    assert found.missing == ""
    assert "largest logit" in found.tested.verdict.sentence


def test_the_sentence_and_the_figure_of_a_run_are_of_the_same_worlds(cache_of_kinds: Path):
    with open_cache(cache_of_kinds) as cache:
        found = study_run(BlindCache(cache), "full-s0", Settings(), lambda _share, _text: None).tested
    for test in ("paper", "verdict"):
        assert found.alarms.rate(test) == found.verdict.negative.rate(test)
