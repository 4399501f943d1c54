"""What is in this cache?"""

import streamlit as st

from app.loaders import current_cache, runs
from engine.errors import CacheError

COLUMNS = {
    "run_id": "Run",
    "backbone": "Backbone",
    "dataset": "Data set",
    "variant": "Variant",
    "block_size": "Block size",
    "seed": "Seed",
    "accuracy": st.column_config.NumberColumn("Accuracy", format="percent"),
    "n_samples": st.column_config.NumberColumn("Samples", format="localized"),
    "n_layers": "Routing layers",
    "has_logits": "Logits",
}

st.title("What is in this cache?")
try:
    cache = current_cache()
    table = runs(cache)
except CacheError as error:
    st.error(f"The cache cannot be read. {error}")
    st.stop()

if table.empty:
    st.info("This cache is empty. Build runs with `python -m cache_builder sweep`, then `make publish`.")
    st.stop()

cells = table.groupby(["backbone", "dataset", "variant"]).ngroups
st.markdown(
    f"{len(table)} runs in {cells} cells of backbone, data set and variant, {table['n_samples'].sum():,} samples. "
    "Ask what the protocol says about them with `python -m engine audit`."
)
st.dataframe(table[list(COLUMNS)], column_config=COLUMNS, hide_index=True)
st.caption(f"Cache {cache.path.name}, fingerprint {cache.fingerprint}")
