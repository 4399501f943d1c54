"""The samples behind chosen cells of a figure, as the drawer lists them."""

import base64
import os
from pathlib import Path

import numpy as np
import pandas as pd

from app.state.view import View

IMAGES = "ROUTECAL_IMAGES"
"""A folder with the images of the data sets, as DATASET/NUMBER.png, for whoever runs the server on such data."""
LISTED = 1000
_PICTURED = 100


def chosen(view: View, cells: str) -> pd.DataFrame:
    """Every sample of the view that lies in the cells, by its number in the run."""
    kept, run = view.rows_of(cells), view.run
    columns = {
        "id": view.numbers[kept],
        "label": None if run.labels is None else run.labels[kept],
        "prediction": None if run.predictions is None else run.predictions[kept],
        "correct": np.where(run.correct[kept], "yes", "no"),
        "confidence": run.confidence[kept],
        "feature": None if view.rho is None else view.rho[kept],
    }
    return pd.DataFrame({name: values for name, values in columns.items() if values is not None})


def images(view: View, numbers: pd.Series) -> list[str] | None:
    """The first samples' images as addresses that hold them; None where there are none."""
    folder = Path(os.environ.get(IMAGES, "/dev/null")) / str(view.row["dataset"])
    places = [folder / f"{number}.png" for number in numbers[:_PICTURED]]
    if not places or not all(place.is_file() for place in places):
        return None
    drawn = [f"data:image/png;base64,{base64.b64encode(place.read_bytes()).decode()}" for place in places]
    return drawn + [""] * (len(numbers) - len(drawn))
