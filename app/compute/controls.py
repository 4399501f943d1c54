"""The controls of a selection, computed once for all viewers."""

from app.compute.jobs import Work
from app.state.selection import N_SIMULATIONS
from app.state.view import View
from engine.controls.simulation import Scale, Shape
from engine.controls.table import Controls, simulate_controls
from engine.core.types import Progress
from engine.gaps import CombinedResult, PermutationResult
from engine.verdict.answers import CONTROLS, PLANTED, PLANTED_GAP, try_planted


def controls(view: View, n_simulations: int, shape: Shape, scale: Scale) -> Work[Controls]:
    """All controls of this run, in as many simulations as the verdict has: the two then agree exactly."""

    def compute(progress: Progress) -> Controls:
        return simulate_controls(
            *view.samples, shape=shape, scale=scale, n_replicates=n_simulations,
            settings=view.selection.protocol.test_settings, clusters=view.run.clusters, progress=progress,
        )  # fmt: skip

    usual = (n_simulations, shape, scale) == (N_SIMULATIONS, "monotone", "accuracy")
    stored = view.stored(CONTROLS) if usual else lambda: None
    return Work(("controls", view.selection, n_simulations, shape, scale), view.kept_by, compute, stored)


def planted(
    view: View, delta: float, seed: int, shape: Shape, scale: Scale
) -> tuple[PermutationResult, CombinedResult]:
    """The paper's test and the verdict's on one simulated data set with such a gap; quick enough for a slider."""
    usual = (delta, seed, shape, scale) == (PLANTED_GAP, 0, "monotone", "accuracy")
    stored = view.stored(PLANTED)() if usual else None
    settings = view.selection.protocol.test_settings
    return stored or try_planted(view.samples, delta, seed=seed, shape=shape, scale=scale, settings=settings)
