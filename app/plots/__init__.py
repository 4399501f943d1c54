"""Figures: a result in, a Plotly figure out. No Streamlit, no statistics."""

from plotly.subplots import make_subplots

# Plotly makes what checks an axis when one is first drawn, and names it meanwhile in a place that all axes share: two
# threads that first draw `xaxis` and `xaxis2` at the same moment can leave the one with the other's for good, and no
# figure can then be drawn. While this is imported one thread makes all that our figures have.
make_subplots(3, 3)
