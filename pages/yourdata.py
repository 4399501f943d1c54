"""What does the protocol say about my model?"""

import streamlit as st

from app.compute import yourdata as compute
from app.compute.gap import verdict
from app.compute.own_data import OWN, is_own, own
from app.parts import headlines
from app.parts.sql import show_sql
from app.parts.upload import choose_file, choose_mapping, offer_removal, show_understood, take_into_use
from app.parts.yourdata import coverage
from app.shell.headline import Headline
from app.shell.page import open_page

page = open_page("yourdata", tests=False)
view = page.view
mine = is_own(view.kept_by)
if not mine:
    page.verdict(
        Headline("cannot_tell", "Not known yet: no file of yours is open"),
        "Upload your model's confidence and correctness for each sample, with its routing or any score of yours: "
        "RouteCal then tells you whether it predicts correctness beyond confidence.",
        tested=False,
    )
    if own().cache is not None:
        st.info(f"The sidebar shows another cache. Choose “{OWN}” there to see your data.")
elif view.refusal:
    page.refuse_slice()
elif view.rho is None:
    headline = Headline("cannot_tell", "Cannot tell: your data lack the chosen feature")
    page.verdict(headline, f"This question cannot be answered for your data: {view.missing}.", tested=False)
else:
    judged = verdict(view)
    page.verdict(headlines.of_answer(judged), judged.detail)

page.heading("Your file")
page.caption(
    "It is read in a separate process, visible only in this window, and removed when you close or reload it. "
    "Parquet, CSV or NPZ; pickles are never read."
)
table = choose_file()
if table is not None:
    page.heading(f"{table.name}: {table.n_rows:,} rows")
    mapping = choose_mapping(table)
    show_understood(table, mapping)
    take_into_use(table, mapping)
offer_removal()

if mine and not view.refusal:
    page.heading("Both tests on every score")
    page.table(
        compute.scores(view),
        "scores",
        names={
            "label": "Score", "max_gap": "Largest gap", "paper_p": "p, paper's", "paper_p_holm": "Holm, paper's",
            "verdict_p": "p, verdict", "verdict_p_holm": "Holm, verdict",
        },
        formats={"max_gap": "%.3f"} | dict.fromkeys(("paper_p", "paper_p_holm", "verdict_p", "verdict_p_holm"), "p"),
    )  # fmt: skip
    page.caption("The verdict above is for the feature chosen in the sidebar.")
if mine:
    page.heading("What each page can show")
    page.sentences(
        coverage(view.run, has_logits=bool(view.row["has_logits"])),
        names={"page": "Page", "shows": "Shows", "lacks": "Cannot show"},
    )

page.heading("Query your data with SQL" if mine else "Query this cache with SQL")
show_sql(page)

page.how(r"""
The verdict is that of the other pages: within bins of equal confidence, does accuracy differ between the lowest and the
highest third of the chosen score? Logits give confidence, prediction and correctness; probabilities are stored as
logarithms; otherwise confidence and correctness are used as given. Routing entropies must lie in $[0, 1]$, which
means divided by the logarithm of the number of alternatives. Larger files, and runs to keep, are imported with
`python -m cache_builder import`.
""")
page.finish()
