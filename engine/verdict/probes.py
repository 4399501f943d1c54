"""What the probes say about one run and about a sweep, in sentences. The only place that phrases them.

A lecture may show the comparison one control at a time: STEPS lists the probes that each step sees, and the sentence of
a step knows no more than they do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from scipy.stats import binom

from engine.core import validation
from engine.core.labels import counted, format_p
from engine.core.pvalues import sign_test
from engine.probes.auditing import Kind
from engine.probes.result import PROBES, Contrast, ProbeResult, Reference
from engine.probes.sweep import ProbeSweep
from engine.verdict.wording import OTHER_SEEDS

Step = Literal["naive", "capacity", "shuffle"]
STEPS: Mapping[Step, tuple[str, ...]] = {
    "naive": ("conf_lin", "full_mlp"),
    "capacity": ("conf_lin", "conf_mlp", "full_mlp"),
    "shuffle": PROBES,
}
NOUNS: Mapping[Kind, str] = {"routing": "routing", "stand_in": "the stand-in", "nothing": "routing"}
SHUFFLED: Mapping[str, str] = {"routing": "shuffled routing", "the stand-in": "the shuffled stand-in"}
Outcome = Literal["untestable", "unreliable", "misleading", "no_uplift", "capacity", "left_over", "no_evidence",
                  "trace", "evidence"]  # fmt: skip
_UNCHECKED = "The power of these probes was not measured."


@dataclass(frozen=True)
class ProbeVerdict:
    """What may be said, and how."""

    outcome: Outcome
    sentence: str


def judge_probes(
    result: ProbeResult, *, kind: Kind = "routing", step: Step = "shuffle", alpha: float = 0.05
) -> ProbeVerdict:
    """Is the uplift of the full network over a line on confidence routing, or capacity?

    Evidence takes an uplift and both controls: the full network does better than a line on confidence, better than a
    network on confidence alone (the 95 % interval over initialisations lies above zero), and better than when its
    profile is permuted at similar confidence (p at most `alpha`). `kind` says what the full probes were given beside
    confidence.
    """
    validation.choice("kind", kind, NOUNS)
    validation.choice("step", step, STEPS)
    validation.fraction("alpha", alpha)
    opening = "This run has no routing; its extra columns stand in for it. " if kind == "stand_in" else ""
    outcome, sentence = _judge(result, kind, step, alpha)
    return ProbeVerdict(outcome, opening + sentence)


def _judge(result: ProbeResult, kind: Kind, step: Step, alpha: float) -> tuple[Outcome, str]:
    codes = {note.code for note in result.notes}
    if "constant_target" in codes:
        return (
            "untestable",
            "The error |c - t| is the same for every held-out sample, so there is nothing for a probe to explain.",
        )
    if result.naive is None or result.capacity_matched is None or result.routing_specific is None:
        line, network = result.mean["conf_lin"], result.mean["conf_mlp"]
        return (
            "untestable",
            "This run has neither a routing profile nor other columns to feed a probe on, so the question cannot be "
            f"asked of it. Confidence alone explains {_score(line)} of the error with a line and {_score(network)} "
            "with a network.",
        )
    noun = NOUNS[kind]
    outcome, sentence = _STEP_WORDS[step](result, result.naive, result.capacity_matched, noun, alpha)
    if "near_constant_target" in codes:
        caution = " The error hardly varies here, so R² mostly reflects how far training got: no evidence either way."
        return "unreliable", sentence + caution
    return outcome, sentence


def _score(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def _change(contrast: Contrast) -> str:
    """`−0.019, 95 % interval −0.026 to −0.011`; no interval with one initialisation."""
    if contrast.interval is None:
        return _signed(contrast.estimate)
    low, high = contrast.interval
    return f"{_signed(contrast.estimate)}, 95 % interval {_score(low)} to {_score(high)}"


def _is_clear(contrast: Contrast) -> bool:
    """Above zero for any initialisation that could have been drawn, as far as those that were can tell."""
    return contrast.interval is not None and contrast.interval[0] > 0


def _naive_clause(naive: Contrast, noun: str) -> str:
    more = f"{_score(naive.estimate)} more" if naive.estimate > 0 else "no more"
    return f"A network on confidence and {noun} explains {more} of the error (held-out R²) than a line on confidence"


def _network_clause(result: ProbeResult) -> str:
    gain = result.mean["conf_mlp"] - result.mean["conf_lin"]
    return f"gains {_score(gain)}" if gain > 0 else f"gains nothing ({_score(gain)})"


def _naive_step(
    _result: ProbeResult, naive: Contrast, _matched: Contrast, noun: str, _alpha: float
) -> tuple[Outcome, str]:
    clause = _naive_clause(naive, noun)
    if naive.estimate <= 0:
        return "no_uplift", f"{clause}: even the naive comparison shows no uplift, so there is none to explain."
    return (
        "misleading",
        f"The naive reading, which misleads: “{clause}, so {noun} tells how far confidence can be "
        "trusted.” Two controls are missing.",
    )


def _capacity_step(
    result: ProbeResult, naive: Contrast, matched: Contrast, noun: str, _alpha: float
) -> tuple[Outcome, str]:
    opening = (
        f"{_naive_clause(naive, noun)}. A network of the same width on confidence alone "
        f"{_network_clause(result)} over that line"
    )
    change = f"adding {noun} to it changes R² by {_change(matched)}"
    if naive.estimate <= 0:
        return "no_uplift", f"{opening}; {change}. There is no uplift to explain."
    if _is_clear(matched):
        return "left_over", f"{opening}; {change}. Capacity does not explain all of the uplift. One control is missing."
    accounts = "accounts" if matched.estimate <= 0 else "may account"
    return "capacity", f"{opening}; {change}. Capacity alone {accounts} for the uplift. One control is missing."


def _shuffle_step(
    result: ProbeResult, naive: Contrast, matched: Contrast, noun: str, alpha: float
) -> tuple[Outcome, str]:
    opening = f"{_naive_clause(naive, noun)}; a network on confidence alone {_network_clause(result)}"
    reference = result.reference
    if reference is None:
        return "untestable", f"{opening}. Without shuffles there is nothing to compare {noun} with."
    opening += f", and {SHUFFLED[noun]} {_hits_clause(reference)}"
    beyond = reference.p_value <= alpha
    uplift = naive.estimate > 0
    if beyond and uplift and _is_clear(matched):
        return (
            "evidence",
            f"{opening}. Against the network on confidence the change is {_change(matched)}: in this run {noun} "
            f"says something about the error that confidence does not; {OTHER_SEEDS}.",
        )
    if beyond:
        return "trace", f"{opening}. So {noun} serves its network better than {SHUFFLED[noun]}, {_yet(matched, uplift)}"
    if not uplift:
        return "no_uplift", f"{opening}: there is no uplift to explain. {_UNCHECKED}"
    return "no_evidence", f"{opening}: no evidence that the uplift is {noun}. {_UNCHECKED}"


def _yet(matched: Contrast, uplift: bool) -> str:
    """Why a network that beats its shuffles is no evidence: a probe on confidence alone does as well."""
    if not uplift:
        return "yet a line on confidence alone explains as much: there is no uplift to explain."
    said = "no better" if matched.estimate <= 0 else "not clearly better"
    return (
        f"yet that network is {said} than the one on confidence alone ({_change(matched)}): capacity may account for "
        "the uplift."
    )


def _hits_clause(reference: Reference) -> str:
    n = reference.r2.size
    hits = round(reference.p_value * (n + 1)) - 1
    return f"does as well in {hits} of {n} tries ({format_p(reference.p_value)})"


_STEP_WORDS = {"naive": _naive_step, "capacity": _capacity_step, "shuffle": _shuffle_step}


def judge_probe_sweep(sweep: ProbeSweep, *, alpha: float = 0.05) -> ProbeVerdict:
    """The same question over many runs: mean contrasts, and how many permutation tests reject beside chance.

    Evidence takes what it takes in one run: an uplift on average, more rejections than chance gives (a binomial tail of
    at most `alpha`) and a network with routing that is better than the one on confidence alone in more runs than chance
    gives (a sign test at `alpha`), runs taken as independent.
    """
    validation.fraction("alpha", alpha)
    wide = sweep.contrasts.pivot_table(index="run_id", columns="contrast", values="estimate")
    if wide.empty:
        return ProbeVerdict("untestable", "No run has a routing profile and an error to explain, so nothing is pooled.")
    p_values = sweep.contrasts["p_value"].dropna()
    n_tested, rejected = len(p_values), int((p_values <= alpha).sum())
    naive, matched = float(wide["naive"].mean()), float(wide["capacity_matched"].mean())
    more = f"{_score(naive)} more" if naive > 0 else "no more"
    sentence = (
        f"Over {counted(len(wide), 'run')} the network with routing explains {more} of the error than a line on "
        f"confidence on average, and {_signed(matched)} against a network on confidence alone (higher in "
        f"{sweep.routing_wins} of {counted(sweep.n_groups, 'cell')}). "
    )
    if n_tested == 0:
        return ProbeVerdict("untestable", f"{sentence}Without shuffles there is nothing to compare routing with.")
    sentence += (
        f"It beats shuffled routing at p ≤ {alpha:g} in {rejected} of {n_tested}, where chance alone gives about "
        f"{alpha * n_tested:.1f}"
    )
    if binom.sf(rejected - 1, n_tested, alpha) > alpha:
        close = "no evidence that the uplift is routing" if naive > 0 else "no uplift, and no evidence of routing"
        return ProbeVerdict("no_evidence", f"{sentence}: {close}. {_UNCHECKED}")
    if naive <= 0:
        return ProbeVerdict("trace", f"{sentence}: more than chance, yet on average there is no uplift to explain.")
    if matched <= 0:
        return ProbeVerdict(
            "trace", f"{sentence}: more than chance, yet on average the uplift needs no routing to explain it."
        )
    gain = sign_test(wide["capacity_matched"].dropna().to_numpy())
    if gain.p > alpha:
        return ProbeVerdict(
            "trace",
            f"{sentence}: more than chance, yet the network with routing is not reliably better than the one on "
            f"confidence alone (in {gain.n_better} of {counted(gain.n_runs, 'run')}, sign test {format_p(gain.p)}): "
            "capacity may account for the uplift.",
        )
    return ProbeVerdict(
        "evidence",
        f"{sentence}: more than chance, and the network with routing is better than the one on confidence alone in "
        f"{gain.n_better} of {counted(gain.n_runs, 'run')} (sign test {format_p(gain.p)}), so in some runs routing "
        f"says something about the error that confidence does not; {OTHER_SEEDS}.",
    )
