"""The probe audit of a view and of a whole cache. Objects are shared between viewers: do not change them."""

from dataclasses import asdict, dataclass

import pandas as pd

from app.compute.cache import run_table
from app.compute.jobs import Work
from app.compute.keep import keep
from app.state.view import View
from engine.core.labels import is_ensemble, label_rows, run_names
from engine.core.types import WITHOUT_LOGITS, Progress
from engine.probes import Descriptor, ProbeResult, ProbeSweep, RunSummary, audit, audit_run, descriptor, pool
from engine.verdict.answers import PROBES


@dataclass(frozen=True)
class Settings:
    """How the probes are built and trained, as far as a viewer may choose; the defaults are the paper's."""

    hidden: int = 16
    epochs: int = 200
    weight_decay: float = 1e-4
    n_inits: int = 5

    def describe(self) -> str:
        """The settings in words."""
        return (
            f"{self.hidden} hidden units, {self.epochs} epochs, weight decay {self.weight_decay:g}, "
            f"{self.n_inits} initialisations"
        )


def inputs(view: View) -> Descriptor:
    """What the full probes are given beside confidence: all layers, or the columns that stand in for them."""
    names = run_table(view.cache, view.run.run_id, "layers")["name"].tolist() if view.run.n_layers else None
    return descriptor(view.run, names)


def audited(view: View, given: Descriptor, settings: Settings) -> Work[ProbeResult]:
    """The audit of the chosen samples; of the sidebar nothing else counts."""
    run, chosen = view.run, view.selection.of_any_feature

    def compute(progress: Progress) -> ProbeResult:
        return audit(
            run.confidence, given.values, run.correct, names=given.names, progress=progress, **asdict(settings)
        )

    samples = (chosen.run_id, chosen.slice, chosen.protocol.population, chosen.feature)
    usual = settings == Settings() and len(given.numbers) == (view.row["n_layers"] or len(view.row["extra_names"]))
    stored = view.stored(PROBES) if usual else lambda: None
    return Work(("probes", samples, given.numbers, settings), view.kept_by, compute, stored)


@dataclass(frozen=True, eq=False)
class PooledAudit:
    """A sweep with names to show: `contrasts` carries `cell` and `run`, in reading order."""

    sweep: ProbeSweep
    contrasts: pd.DataFrame


def pooled_runs(view: View) -> list[str]:
    """Runs with a routing profile, without ensembles, so that no training run counts twice."""
    runs = view.runs
    return runs.index[(runs["n_layers"] > 0) & ~is_ensemble(runs["suite"])].tolist()


@keep(max_entries=16)
def finished_runs(view: View, settings: Settings) -> dict[str, RunSummary]:  # noqa: ARG001  (kept by both)
    """Runs audited so far with these settings, for all viewers: a sweep that was stopped goes on from here."""
    return {}


def pooled(view: View, settings: Settings) -> Work[PooledAudit]:
    """The audit of every run of `pooled_runs`, all samples and layers."""
    run_ids, names, done = pooled_runs(view), run_names(view.runs), finished_runs(view, settings)

    def compute(progress: Progress) -> PooledAudit:
        for position, run_id in enumerate(run_ids):
            if run_id in done:
                continue
            label = names[run_id].full

            def within_run(fraction: float, _text: str, position: int = position, label: str = label) -> None:
                progress((position + fraction) / len(run_ids), f"run {position + 1} of {len(run_ids)}: {label}")

            run = view.cache.load(run_id, WITHOUT_LOGITS)
            done[run_id] = audit_run(run, progress=within_run, **asdict(settings))
        sweep = pool(view.runs.reset_index(drop=True), [done[run_id] for run_id in run_ids])
        return PooledAudit(sweep, label_rows(sweep.contrasts, view.runs))

    return Work(("probe-sweep", settings), view.kept_by, compute)
