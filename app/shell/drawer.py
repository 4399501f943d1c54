"""What lies behind a point of a figure: its run, or the samples of its cells in a drawer under the figure."""

from collections.abc import Sequence
from dataclasses import replace

import plotly.graph_objects as go
import streamlit as st

from app.compute.samples import LISTED, chosen, images
from app.export import to_csv
from app.shell.sidebar import set_slice
from app.shell.wording import plain
from app.state.cells import parse
from app.state.view import View
from engine.core.labels import counted

_NAMED = 4  # more cells than this are counted
_NAMES = {
    "id": "Id", "label": "True class", "prediction": "Predicted class", "correct": "Correct",
    "confidence": "Confidence", "feature": "Feature", "image": "Image",
}  # fmt: skip


def behind(fig: go.Figure, points: Sequence[dict], what: str) -> list[str]:
    """What the chosen points stand for: `cells` or `runs`, as their traces list it point by point."""
    listed = [((fig.data[point["curve_number"]].meta or {}).get(what, ()), point["point_index"]) for point in points]
    return list(dict.fromkeys(each[index] for each, index in listed if index < len(each) and each[index]))


def leads_to(fig: go.Figure, what: str) -> bool:
    """Whether any of the figure's points stands for such a thing."""
    return any(what in (trace.meta or {}) for trace in fig.data)


def show_samples(view: View, codes: Sequence[str], key: str) -> None:
    """The samples of the cells, to read, to keep and to look at by themselves."""
    cells = ";".join(codes)
    table = chosen(view, cells)
    with st.container(border=True, key=f"drawer-{key}"):
        named = [cell.describe() for choice in parse(cells) for cell in choice]
        words = plain("; ".join(named) if len(named) <= _NAMED else f"{len(named)} cells")
        st.markdown(f"**{counted(len(table), 'sample')}**: {words}")
        shown = table.head(LISTED)
        pictures = images(view, shown["id"])
        shown = shown if pictures is None else shown.assign(image=pictures)
        names = _NAMES | {"feature": view.feature_label}
        formats = {names[name]: st.column_config.NumberColumn(format="%.4f") for name in ("confidence", "feature")}
        st.dataframe(
            shown.rename(columns=names), hide_index=True, height=240, key=f"samples-{key}", placeholder="–",
            column_config=formats | {names["image"]: st.column_config.ImageColumn()},
        )  # fmt: skip
        if len(table) > len(shown):
            st.caption(f"The first {LISTED:,}; the CSV has all.")
        with st.container(horizontal=True):
            st.download_button(
                "CSV", lambda: to_csv(table), "routecal-samples.csv", "text/csv", key=f"samples-csv-{key}",
                on_click="ignore",
            )  # fmt: skip
            earlier = view.selection.slice.cells
            narrowed = replace(view.selection.slice, cells=f"{earlier}&{cells}" if earlier else cells)
            if st.button("Slice to these", key=f"samples-slice-{key}", on_click=set_slice, args=(narrowed,)):
                st.rerun()
