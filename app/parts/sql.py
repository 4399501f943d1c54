"""A question in SQL, with the tables beside it. The answer comes from a limited process; see `engine.sandbox.run`."""

import streamlit as st

from app.compute.jobs import in_process
from app.shell.page import Page
from app.shell.wording import plain
from engine.core.errors import RouteCalError
from engine.core.limits import ANSWER_ROWS, MOST_QUERY_SECONDS, QUERY_SECONDS
from engine.sandbox.run import SQL_ALLOWANCE, Answer, ask, schema

EXAMPLES = {
    "Runs": "SELECT run_id, n_samples, n_layers, accuracy\nFROM runs\nORDER BY accuracy DESC",
    "Calibration by bin": (
        "SELECT run_id, least(floor(confidence * 15), 14) AS bin, count(*) AS n,\n"
        "    avg(confidence) AS confidence, avg(correct::INT) AS accuracy\nFROM samples\nGROUP BY ALL\nORDER BY ALL"
    ),
    "Entropy by layer": (
        "SELECT s.run_id, l.layer, avg(s.entropies[l.layer]) AS mean_entropy\n"
        "FROM samples s JOIN layers l USING (run_id)\nGROUP BY ALL\nORDER BY ALL"
    ),
    "Most confident errors": (
        "SELECT run_id, sample_id, label, prediction, confidence\nFROM samples\nWHERE NOT correct\n"
        "ORDER BY confidence DESC\nLIMIT 20"
    ),
}
_ANSWER = "routecal-answer"
_SECONDS = [QUERY_SECONDS, MOST_QUERY_SECONDS]


def show_sql(page: Page) -> None:
    """Editor and examples left, tables right, the answer below."""
    cache, key = page.view.cache, page.view.kept_by
    left, right = st.columns(2, gap="large")
    with left:
        with st.container(horizontal=True):
            for name, sql in EXAMPLES.items():
                st.button(name, key=f"sql-{name}", on_click=st.session_state.update, args=[{"sql": sql}])
        sql = st.text_area("One SELECT", EXAMPLES["Runs"], height=190, key="sql", bind="query-params")
        seconds = st.selectbox("Time limit in seconds", _SECONDS, format_func="{:g}".format, key="sql-seconds")
        if st.button("Run query", type="primary", key="sql-ask"):
            st.session_state[_ANSWER] = None
            with st.spinner("Running the query"):
                try:
                    answer = in_process(
                        "ask",
                        lambda progress: ask(cache.path, sql, of=cache.identity, seconds=seconds, progress=progress),
                    )
                    st.session_state[_ANSWER] = (key, answer)
                except RouteCalError as error:
                    st.error(plain(str(error)), icon=":material/block:")
    with right:
        st.markdown("**The tables**")
        st.code(_described(), language="sql", wrap_lines=True, height=300)
    page.caption(
        f"Read-only. A query returns at most {ANSWER_ROWS:,} rows and may use {MOST_QUERY_SECONDS:g} seconds "
        f"and {SQL_ALLOWANCE.memory_bytes / 1e9:.0f} GB."
    )
    asked = st.session_state.get(_ANSWER)
    if asked is not None and asked[0] == key:
        _show(page, asked[1])


def _described() -> str:
    """The schema as a person reads it: a table, then its columns with their type and meaning."""
    lines = []
    for table, columns in schema().groupby("table", sort=False):
        lines.append(str(table))
        lines += [f"  {name} {kind}  -- {meaning}" for _, name, kind, meaning in columns.itertuples(index=False)]
    return "\n".join(lines)


def _show(page: Page, answer: Answer) -> None:
    if answer.frame.empty:
        page.text("The query returned no rows.")
        return
    page.table(answer.frame, "answer", names={name: name for name in answer.frame.columns})
    if answer.more:
        page.caption(f"The first {len(answer.frame):,} rows; there are more.")
