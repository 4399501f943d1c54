"""Bringing a file: where it comes from, which column is what, what is wrong with it, and taking it into use."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import streamlit as st

from app.compute.cache import available_caches
from app.compute.own_data import OWN, own, read_upload, take_upload
from app.serving.local_files import local_files
from app.shell.sidebar import set_slice
from app.shell.wording import plain
from app.state.selection import Slice
from engine.core.errors import RouteCalError
from engine.core.limits import UPLOAD_BYTES
from engine.importing import ColumnMapping, guess_mapping
from engine.importing.checking import N_COLUMNS, Problem, find_problems, first_rows, understood
from engine.importing.examples import EXAMPLE_NAME, TEMPLATE, TEMPLATE_NAME, example_csv
from engine.importing.mapping import column_groups, with_extra
from engine.importing.readers import FORMATS, Table

MAX_MEGABYTES = UPLOAD_BYTES // 1_000_000
NONE = "none"
OUTPUTS = {"logits": "logits", "probabilities": "class probabilities", "confidence": "confidence only"}
_SINGLES = {"confidence": "Confidence", "correct": "Correct (0 or 1)", "prediction": "Predicted class"}
_EXAMPLE, _REFUSED = "bring-example", "bring-refused"


def choose_file() -> Table | None:
    """The file that the viewer sends, points to or tries; None without one, or with one that cannot be read."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        sent = st.file_uploader(
            f"One row per sample, at most {MAX_MEGABYTES} MB", type=[ending[1:] for ending in FORMATS],
            max_upload_size=MAX_MEGABYTES, key="upload", on_change=_other_source,
        )  # fmt: skip
        local = local_files(st.get_option("server.address"))
        pointed = st.selectbox("or a file on this server", [NONE, *local], key="local") if local else NONE
    with right:
        st.markdown("**First time?** Fill in the template, or try the simulated example.")
        with st.container(horizontal=True):
            st.download_button("Template (CSV)", TEMPLATE, TEMPLATE_NAME, "text/csv", on_click="ignore")
            st.download_button("Example (CSV)", example_csv, EXAMPLE_NAME, "text/csv", on_click="ignore")
            taken = sent is not None or pointed != NONE
            st.button(
                "Try the example", on_click=lambda: st.session_state.update({_EXAMPLE: True}), disabled=taken,
                help="Remove your file first: only one file at a time." if taken else None,
            )  # fmt: skip
        st.caption(
            "Columns are recognised by common names: confidence, correct, label, prediction, logits or logit_0, "
            "logit_1, ..., probs, entropies or H_1, H_2, ... Any other column of numbers can be tested as a score."
        )
    try:
        if sent is not None:
            return read_upload(sent.file_id, sent.getvalue(), sent.name)
        if pointed != NONE:
            return read_upload(pointed, local[pointed], Path(pointed).name)
        if st.session_state.get(_EXAMPLE):
            return read_upload(EXAMPLE_NAME, example_csv(), EXAMPLE_NAME)
    except RouteCalError as error:
        st.error(f"This file cannot be used. {plain(str(error))}", icon=":material/block:")
    return None


def _other_source() -> None:
    st.session_state[_EXAMPLE] = False


def choose_mapping(table: Table) -> ColumnMapping:
    """Which column is what: guessed, and open to correction."""
    columns = table.columns
    guess = with_extra(columns, guess_mapping(columns))
    # A key of its own for every file: what was corrected for one says nothing about the next.
    key = f"map-{table.fingerprint[:12]}"
    groups = column_groups(columns)
    labels = {names: label for label, names in groups.items()}
    single = [name for name, values in columns.items() if values.ndim == 1 or values.shape[1] == 1]
    first, second, third = st.columns(3)

    def one(label: str, guessed: str | None, role: str) -> str | None:
        options = [NONE, *single]
        index = options.index(guessed) if guessed in single else 0
        chosen = st.selectbox(label, options, index, key=f"{key}-{role}")
        return None if chosen == NONE else str(chosen)

    def several(label: str, guessed: tuple[str, ...], role: str) -> tuple[str, ...]:
        options = [NONE, *groups]
        index = options.index(labels[guessed]) if guessed in labels else 0
        return groups.get(str(st.selectbox(label, options, index, key=f"{key}-{role}")), ())

    kind = next((kind for kind in ("logits", "probabilities") if getattr(guess, kind)), "confidence")
    with first:
        outputs = st.selectbox(
            "The model's outputs are",
            list(OUTPUTS),
            list(OUTPUTS).index(kind),
            format_func=OUTPUTS.get,
            key=f"{key}-kind",
        )
        mapping = ColumnMapping(
            label=one("True class", guess.label, "label"), cluster=one("Cluster", guess.cluster, "cluster")
        )
    with second:
        if outputs == "confidence":
            chosen = {role: one(label, getattr(guess, role), role) for role, label in _SINGLES.items()}
            mapping = replace(mapping, **chosen)
        else:
            mapping = replace(
                mapping, **{str(outputs): several("Columns of the outputs", getattr(guess, str(outputs)), "outputs")}
            )
    with third:
        profile = several("Routing entropies by layer", guess.profile, "profile")
        used = {*mapping.logits, *mapping.probabilities, *profile, *vars(mapping).values()}
        left = [name for name in single if name not in used]
        extra = st.multiselect(
            "Scores to test", left, [name for name in guess.extra if name in left], key=f"{key}-extra",
            help="Any number per sample that might predict correctness beyond confidence, such as a margin.",
        )  # fmt: skip
    return replace(mapping, profile=profile, extra=tuple(extra))


def show_understood(table: Table, mapping: ColumnMapping) -> None:
    """The first rows and the role of every column."""
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**The first rows, as they were read**")
        st.dataframe(first_rows(table), hide_index=True, width="stretch", key="first-rows")
        n = len(table.columns)
        if n > N_COLUMNS:
            st.caption(f"The first {N_COLUMNS} of {n:,} columns.")
    with right:
        st.markdown("**How each column is interpreted**")
        names = {"column": "Column", "role": "Interpreted as", "holds": "Holds"}
        roles = understood(table, mapping)[list(names)].rename(columns=names)
        st.dataframe(roles, hide_index=True, width="stretch", key="roles")


def take_into_use(table: Table, mapping: ColumnMapping) -> None:
    """What is wrong, by column and row; or the button that makes this the viewer's data."""
    problems = find_problems(table.columns, mapping)
    if problems:
        st.error("This cannot be used yet. Choose other columns above, or fix the file.", icon=":material/block:")
        st.dataframe(_listed(problems), hide_index=True, width="stretch", key="problems")
        st.caption("Row 1 is the first sample; in a CSV file that is line 2.")
        return
    if own().source == (table.fingerprint, mapping):
        st.success("In use on every page, visible only to you. Switch caches in the sidebar.")
        return
    st.button("Use this data", type="primary", on_click=_take, args=[table, mapping])
    if _REFUSED in st.session_state:
        st.error(f"This cannot be used yet. {plain(st.session_state.pop(_REFUSED))}", icon=":material/block:")


def _listed(problems: tuple[Problem, ...]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"Column": p.column, "Where": p.where or "whole column", "Expected": p.expected, "Found": p.found}
            for p in problems
        ]
    )


def _take(table: Table, mapping: ColumnMapping) -> None:
    """Make it the viewer's cache and turn the sidebar to it, to all of its samples and to a feature that it has."""
    try:
        take_upload(mapping, (table.fingerprint, mapping))
    except RouteCalError as error:
        st.session_state[_REFUSED] = str(error)
        return
    st.session_state["cache"] = OWN
    set_slice(Slice())
    if "population" in st.session_state:
        st.session_state["population"] = "diagnostic"
    if not mapping.profile:
        has_logits = mapping.logits or mapping.probabilities
        score = mapping.extra[0] if mapping.extra else "pred_entropy" if has_logits else "confidence"
        st.session_state["feature"] = score


def offer_removal() -> None:
    """The button that removes the viewer's data and turns the sidebar back."""

    def remove() -> None:
        own().let_go()
        st.session_state.update({"cache": available_caches()[0].name, _EXAMPLE: False})

    if own().cache is not None:
        st.button("Remove my data", on_click=remove)
