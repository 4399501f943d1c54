"""What did the paper publish, and does it add up?"""

import streamlit as st

from app.compute import paper as compute
from app.parts import headlines
from app.parts import paper as parts
from app.plots import paper as plots
from app.shell.page import open_page
from engine import paper
from engine.paper import claims as audit
from engine.paper import counterparts
from engine.paper.published import TABLES, load

page = open_page("paper", whole_cache=True)
view = page.view = parts.PublishedView(page.view.cache, page.view.runs, page.view.selection)
claims, known = compute.claims(), compute.evidence(view)
known_readings = compute.conclusions(view, known)
totals = paper.summarise(known_readings)
page.verdict(headlines.of_paper(claims, known_readings), f"{audit.summarise(claims)} {totals}", tested=False)

page.figure(plots.claims_by_topic(claims, page.theme), "claims", alt="Statements that agree and differ, by topic")
tabs = page.tabs("Tables beside this cache", "Its statements", "Its conclusions in this cache")
with next(tabs):
    first, second, third = st.columns([2, 1, 2])
    titles = {f"{entry.title} ({entry.label})": name for name, entry in TABLES.items()}
    start = list(TABLES).index("ar_sweep")
    name = titles[first.selectbox("Published table", list(titles), start, key="table", bind="query-params")]
    published = load(name)
    quantity = second.selectbox("Quantity", parts.quantities(published), key="quantity", bind="query-params")
    style, counterpart = counterparts.styles(published), paper.COUNTERPARTS.get(name)
    cells, cell = paper.cells_with_logits(known), ""
    if counterpart is not None and counterpart.by_cell and len(cells):
        options = [parts.NEAREST, *cells["cell"]]
        chosen = third.selectbox("Cell of this cache", options, key="cell", bind="query-params")
        cell = counterpart.nearest(cells) if chosen == parts.NEAREST else chosen

    with st.container():  # it grows, and a control below that moves would no longer be in the address
        own, reason = None, ""
        if counterpart is not None:
            known = parts.ask(view, known, counterpart.sources, "table", start="probes" not in counterpart.sources)
        if counterpart is None or known.has(counterpart.sources):
            try:
                own = compute.counterpart(view, known, name, cell)
            except paper.NoCounterpart as none:
                reason = f"This cache has no counterpart: {none}"
        column = quantity if own is None else parts.own_column(own, quantity)
        if own is not None:
            page.text(f"{paper.compare(published, own, quantity, column)}.")
        left, right = st.columns(2, gap="large")
        with left:
            drawn = plots.table_column(
                counterparts.printed(published, style), quantity, page.theme, whose="In the paper"
            )
            page.figure(drawn, "published", alt=f"{quantity} of every row of the published table")
        with right:
            if own is None:
                page.text(reason or "The same quantity of this cache appears here once it is computed.")
            else:
                drawn = plots.table_column(counterparts.printed(own, style), column, page.theme, whose="In this cache")
                page.figure(drawn, "own", alt=f"{column} of every row of the same table made of this cache")
        page.caption(parts.differences(name, known))
        tables = (("published", published, "As published"), ("own", own, "From this cache"))
        for column, (key, frame, heading) in zip(st.columns(2, gap="large"), tables, strict=True):
            if frame is not None:
                with column:
                    page.heading(f"{heading}: {cell}" if key == "own" and cell else heading)
                    wide = counterparts.wide(frame, style)
                    page.table(wide, key, names={column: column for column in wide} | {"row": "Row"})
with next(tabs):
    parts.list_statements(page, claims)
with next(tabs):
    every = st.toggle(
        "Compute all of them", key="all", bind="query-params",
        help="Fits all calibrators and trains the probes on every run, which takes minutes.",
    )  # fmt: skip
    asked = parts.ask(view, known, paper.CONCLUSION_SOURCES, "conclusions", start=True) if every else known
    readings = compute.conclusions(view, asked)
    if paper.summarise(readings) != totals:
        st.rerun()  # the sentence at the top counts them too
    parts.show_conclusions(page, readings)
    if asked.has(paper.FURTHER["by_cell"].sources):
        parts.show_cells(page, compute.counterpart(view, asked, "by_cell", ""))
page.how(r"""
**Statements.** A printed number stands for the interval of all numbers that round to it, and a statement differs only
if no choice inside the intervals makes it true; both conventions of the standard deviation are tried. That a statement
differs says that two places of the paper do not fit each other, not which of them is right.

**This cache's side** follows the same protocol on this cache's runs, without ensembles. Rank correlations are
Spearman's over rows that both sides have; the uncalibrated row is left out.

**Conclusions.** Over $n$ runs the number that gain is $\text{Binomial}(n, 1/2)$ without an effect; a gain is called
reliable at $p \le 0.05$, after Holm's correction where several are tried. With too few runs to reach that, a conclusion
is not answerable. Supported means that nothing in this cache contradicts it, which is no proof; runs that share their
test samples are not quite independent.

**Propositions.** Explained: the share of the squared error of a confidence-only model that $r_\text{std}$ removes on
samples left out of the fit (1); below zero, it only adds noise. Blind spot: a calibrator of confidence alone is off by
at least half the gap in one of two groups, so by at least half the weighted gap on average (2). Gap kept:
$\tanh(d^2 / 4 h^2)$, with $d$ between the outer tertile means of $r_\text{std}$ and $h$ Scott's bandwidth on the
calibration half (4). The rule fixed in advance asks for a largest gap of at least 0.08 and for less ECE with AR-CondCal
than with both controls.
""")
page.finish()
