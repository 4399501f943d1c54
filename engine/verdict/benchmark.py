"""Which calibrators help, and by how much, in sentences. The only place that phrases them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from engine.benchmark.comparisons import Leader, contrast_in_run, contrast_over_seeds, leader_in_run, leader_over_seeds
from engine.benchmark.run import BenchmarkResult
from engine.benchmark.scores import METRICS
from engine.benchmark.setup import CONTROLS
from engine.calibrators import CALIBRATORS
from engine.core.labels import capital, in_sentence, listed

Outcome = Literal["no_routing", "one_seed", "within_noise", "one_control", "better", "worse", "mixed"]
_LED = ("ece", "nll")
_ABSENT = (
    "AR-CondCal, which needs a routing profile, was not fitted here beside a matched control, so nothing is said about "
    "routing."
)


@dataclass(frozen=True, eq=False)
class BenchmarkVerdict:
    """Who leads, and whether AR-CondCal separates from its matched controls. `contrasts` is the table behind it."""

    outcome: Outcome
    sentence: str
    contrasts: pd.DataFrame


def _method(name: str) -> str:
    label = in_sentence(CALIBRATORS[name].label)
    return f"the {label}" if label.startswith("kernel") else label


def _metric(name: str) -> str:
    return in_sentence(METRICS[name].label)


def _lead(leader: Leader) -> str:
    """`ECE is lowest with isotonic regression, at 0.0130 against 0.0558 without calibration (...)`."""
    digits = METRICS[leader.metric].digits

    def printed(value: float, std: float) -> str:
        return f"{value:.{digits}f} ± {std:.{digits}f}" if leader.n_runs > 1 else f"{value:.{digits}f}"

    raw = printed(leader.uncalibrated, leader.uncalibrated_std)
    if not leader.improves:
        return f"no method lowers {_metric(leader.metric)} below the {raw} without calibration"
    found = (
        f"{_metric(leader.metric)} is lowest with {_method(leader.method)}, at "
        f"{printed(leader.value, leader.value_std)} against {raw} without calibration"
    )
    if leader.n_runs > 1:
        return f"{found} (lowest in {leader.n_first} of {leader.n_runs} seeds)"
    if leader.n_alike is not None:
        return f"{found} ({leader.n_alike} of {leader.n_rivals} other methods are within noise of it)"
    return found


def _outcome(contrasts: pd.DataFrame) -> Outcome:
    clear = contrasts[contrasts["clear"].astype(bool)]
    lower, higher = clear[clear["difference"] < 0], clear[clear["difference"] > 0]
    if clear.empty:
        return "within_noise"
    if lower.empty:
        return "worse"
    if not higher.empty:
        return "mixed"
    beaten = lower.groupby("metric")["control"].nunique().max()
    return "better" if beaten == len(CONTROLS) else "one_control"


_CLOSE: dict[Outcome, str] = {
    "better": "It gains over both controls; other runs must show whether that repeats.",
    "one_control": "A gain over one control only does not set routing apart from any other second feature.",
    "worse": "No evidence that routing adds anything here.",
    "mixed": "The comparisons point both ways, so read this as no reliable evidence for routing.",
}


def _conclude(every: pd.DataFrame, noise: str) -> tuple[Outcome, str]:
    """What the comparisons that have an interval amount to; `noise` is what a clear difference has to exceed."""
    contrasts = every[every["low"].notna()]
    metrics = [_metric(name) for name in dict.fromkeys(contrasts["metric"])]
    outcome = _outcome(contrasts)
    if outcome == "within_noise":
        return outcome, (
            f"AR-CondCal does not separate from its matched controls in {listed(metrics, 'or')} by more than {noise}: "
            "no evidence that routing adds anything here, and no proof that it does not."
        )
    clear = contrasts[contrasts["clear"].astype(bool)]
    found = [
        f"{'a lower' if row['difference'] < 0 else 'a higher'} {_metric(row['metric'])} than "
        f"{_method(row['control'])} (by {abs(row['difference']):.4f})"
        for row in clear.to_dict("records")
    ]
    return outcome, (
        f"By more than {noise}, AR-CondCal has {listed(found)}; {len(contrasts) - len(clear)} of {len(contrasts)} "
        f"comparisons show no clear difference. {_CLOSE[outcome]}"
    )


def _opening(leaders: Sequence[Leader | None]) -> str:
    found = "; ".join(_lead(leader) for leader in leaders if leader is not None)
    return f"{capital(found)}. " if found else ""


def judge_run(result: BenchmarkResult, *, alpha: float = 0.05) -> BenchmarkVerdict:
    """One run: leaders of ECE and NLL, then AR-CondCal minus its controls against sampling noise."""
    contrasts = contrast_in_run(result, alpha=alpha)
    opening = _opening([leader_in_run(result, metric, alpha=alpha) for metric in _LED])
    if contrasts.empty:
        return BenchmarkVerdict("no_routing", opening + _ABSENT, contrasts)
    outcome, close = _conclude(contrasts, "sampling noise")
    return BenchmarkVerdict(outcome, opening + close, contrasts)


def judge_seeds(scores: pd.DataFrame, *, alpha: float = 0.05) -> BenchmarkVerdict:
    """The runs of one cell, from their stacked tidy scores: the same with the spread of paired differences over seeds.

    With one run there is no spread, and nothing is concluded.
    """
    contrasts = contrast_over_seeds(scores, alpha=alpha)
    opening = _opening([leader_over_seeds(scores, metric) for metric in _LED])
    if contrasts.empty:
        return BenchmarkVerdict("no_routing", opening + _ABSENT, contrasts)
    n_seeds = int(contrasts["n"].max())
    if n_seeds == 1:
        close = "This cell has one run, so AR-CondCal's differences cannot be compared with a spread over seeds."
        return BenchmarkVerdict("one_seed", opening + close, contrasts)
    outcome, close = _conclude(contrasts, f"its {n_seeds} seeds vary")
    return BenchmarkVerdict(outcome, opening + close, contrasts)
