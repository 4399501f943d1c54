"""Figures: a result in, a Plotly figure out. No Streamlit, no statistics."""
