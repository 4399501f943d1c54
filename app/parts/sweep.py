"""Parts of the Sweep page: calibration by block size."""

from app.compute.calibrators import every_run
from app.plots import sweep as plots
from app.shell.long_work import long_work
from app.shell.page import Page
from engine.paper import Evidence, NoCounterpart, build, single_runs


def block_sizes(page: Page) -> None:
    """Raw and calibrated errors by block size, Full-AR at the right."""
    scores = long_work("every-run", every_run(page.view), label="Fit all calibrators on every run", start=False)
    if scores is None:
        return
    try:
        table = build("block_sizes", Evidence(single_runs(page.view.runs), {"scores": scores}))
    except NoCounterpart as none:
        page.text(f"There is nothing to draw: {none}.")
        return
    page.figure(plots.block_sizes(table, page.theme), "block-sizes", alt="Calibration errors by block size")
    page.caption(
        "Evaluated half, mean ± standard deviation over seeds; tertiles of the spread of routing entropy over depth. "
        "The rightmost, hollow point is Full-AR, in which a layer reads from every earlier one."
    )
