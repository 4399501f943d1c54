"""Figures: a result in, a Plotly figure out. No Streamlit, no statistics."""

from app.workarounds.validators import guard_validators

guard_validators()
