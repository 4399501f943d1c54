"""The controls of a selection, computed once for all viewers."""

from app.compute.jobs import Work
from app.state.selection import N_SIMULATIONS
from app.state.view import View
from engine.controls import planted_outcome
from engine.controls.simulation import Scale, Shape
from engine.controls.table import Controls, simulate_controls
from engine.core.types import Progress
from engine.gaps import CombinedResult, PermutationResult, combined_test, permutation_test
from engine.verdict.answers import CONTROLS


def controls(view: View, n_simulations: int, shape: Shape, scale: Scale) -> Work[Controls]:
    """All controls of this run, in as many simulations as the verdict has: the two then agree exactly."""

    def compute(progress: Progress) -> Controls:
        return simulate_controls(
            *view.samples, shape=shape, scale=scale, n_replicates=n_simulations,
            settings=view.selection.protocol.test_settings, progress=progress,
        )  # fmt: skip

    usual = (n_simulations, shape, scale) == (N_SIMULATIONS, "monotone", "accuracy")
    stored = view.stored(CONTROLS) if usual else lambda: None
    return Work(("controls", view.selection.alone, n_simulations, shape, scale), view.kept_by, compute, stored)


def planted(
    view: View, delta: float, seed: int, shape: Shape, scale: Scale
) -> tuple[PermutationResult, CombinedResult]:
    """The paper's test and the verdict's on one simulated data set with such a gap; quick enough for a slider."""
    confidence, correct, rho = view.samples
    protocol = view.selection.protocol
    drawn = planted_outcome(
        confidence, correct, rho, delta, shape=shape, scale=scale, seed=seed, quantiles=protocol.quantiles
    )
    paper = permutation_test(confidence, drawn, rho, **protocol.test_settings.keywords)
    return paper, combined_test(confidence, drawn, rho)
