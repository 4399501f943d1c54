"""The verdict on a selection, computed once for all viewers. Objects are shared: do not change them."""

from app.compute.jobs import Work, awaited
from app.state.selection import N_SIMULATIONS
from app.state.view import View
from engine.core.types import FloatArray, IntArray, Progress
from engine.gaps import DecileEffect, effect_by_decile
from engine.verdict import Verdict, judge
from engine.verdict.answers import EFFECT, HISTOGRAM, VERDICT, histogram


def verdict(view: View, n_simulations: int = N_SIMULATIONS) -> Verdict:
    """The answer with all that it rests on: tests, ladder, controls, gain."""
    settings = view.selection.protocol.test_settings

    def compute(progress: Progress) -> Verdict:
        return judge(
            *view.samples, feature=view.feature_label, outputs=view.run_with_logits.logits, others=view.others(),
            clusters=view.run.clusters, n_replicates=n_simulations, progress=progress, settings=settings,
        )  # fmt: skip

    stored = view.stored(VERDICT) if n_simulations == N_SIMULATIONS else lambda: None
    return awaited(Work(("verdict", view.selection.alone, n_simulations), view.kept_by, compute, stored))


def effect(view: View, rung: int) -> DecileEffect:
    """The effect by decile of the feature, given what the rung conditions on; rungs above 0 need logits."""

    def compute(_progress: Progress) -> DecileEffect:
        outputs = view.run_with_logits.logits if rung else None
        return effect_by_decile(*view.samples, outputs=outputs, clusters=view.run.clusters, rung=rung)

    stored = (lambda: None) if rung else view.stored(EFFECT)
    return awaited(Work(("effect", view.selection.alone, rung), view.kept_by, compute, stored))


def feature_histogram(view: View) -> tuple[IntArray, FloatArray]:
    """Counts and edges of the feature's distribution."""
    return view.stored(HISTOGRAM)() or histogram(view.samples[2])
