"""The verdict on a selection, computed once for all viewers. Objects are shared: do not change them."""

from app.compute.jobs import Work, awaited
from app.compute.keep import keep
from app.state.selection import N_SIMULATIONS
from app.state.view import View
from engine.core.types import FloatArray, IntArray, Progress
from engine.gaps import DecileEffect, effect_by_decile
from engine.verdict import Verdict, judge
from engine.verdict.answers import EFFECT, HISTOGRAM, JUDGED, VERDICT, histogram
from engine.verdict.run import with_controls


@keep(max_entries=64, by=lambda view: view.selection)
def _bare(view: View) -> Verdict:
    outputs, settings = view.run_with_logits.logits, view.selection.protocol.test_settings
    return judge(
        *view.samples, feature=view.feature_label, outputs=outputs, clusters=view.run.clusters, controls=False,
        settings=settings,
    )  # fmt: skip


def judged(view: View) -> Verdict:
    """The answer without controls."""
    key = ("judged", view.selection)
    return awaited(Work(key, view.kept_by, lambda _progress: _bare(view), view.stored(JUDGED)), of=view.of)


def checked(view: View, n_simulations: int) -> Work[Verdict]:
    """The answer with all that it rests on: tests, ladder, controls, gain."""

    def compute(progress: Progress) -> Verdict:
        bare = view.stored(JUDGED)() or _bare(view)
        return with_controls(
            bare, *view.samples, feature=view.feature_label, others=view.others(), clusters=view.run.clusters,
            n_replicates=n_simulations, settings=view.selection.protocol.test_settings, progress=progress,
        )  # fmt: skip

    stored = view.stored(VERDICT) if n_simulations == N_SIMULATIONS else lambda: None
    return Work(("verdict", view.selection, n_simulations), view.kept_by, compute, stored)


def effect(view: View, rung: int) -> DecileEffect:
    """The effect by decile of the feature, given what the rung conditions on; rungs above 0 need logits."""

    def compute(_progress: Progress) -> DecileEffect:
        outputs = view.run_with_logits.logits if rung else None
        return effect_by_decile(*view.samples, outputs=outputs, clusters=view.run.clusters, rung=rung)

    stored = (lambda: None) if rung else view.stored(EFFECT)
    return awaited(Work(("effect", view.selection, rung), view.kept_by, compute, stored), of=view.of)


def feature_histogram(view: View) -> tuple[IntArray, FloatArray]:
    """Counts and edges of the feature's distribution."""
    return view.stored(HISTOGRAM)() or histogram(view.samples[2])
