"""A verdict as rows of names and values, which notebooks, LaTeX and tables over many runs are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd
from scipy.special import ndtri

from engine.controls import VERDICT
from engine.core.labels import MISSING, RUNGS, TESTS, capital, format_p, percent, signed
from engine.core.latex import to_latex
from engine.core.notebook import Interval, State, answered, intervals, table

if TYPE_CHECKING:  # it is shown by what stands here
    from engine.verdict.run import Verdict

STATES: Mapping[str, State] = {
    "evidence": "evidence", "no_evidence": "no_evidence", "unreliable": "cannot_tell", "untestable": "cannot_tell",
}  # fmt: skip
"""How each outcome is marked."""
_EFFECT = "Change of accuracy from the low to the high third of the feature"


def as_dict(verdict: Verdict) -> dict[str, Any]:
    """One flat row, named as the sweep's columns are; None for what was not, or could not be, computed."""
    bound, gain, negative, positive = verdict.bound, verdict.gain, verdict.negative, verdict.positive
    row: dict[str, Any] = {
        "outcome": verdict.outcome,
        "answer": verdict.answer,
        "detail": verdict.detail,
        "alpha": verdict.alpha,
        "p_value": verdict.p_value,
        "primary_p": verdict.primary.p_value,
        "shape_p": verdict.shape.p_value,
        "primary_effect": bound and bound.effect,
        "effect_low": bound and bound.low,
        "effect_high": bound and bound.high,
        "excluded": bound and bound.excluded,
        "max_gap": verdict.paper.observed,
        "paper_p": verdict.paper.p_value,
        "paper_power": verdict.paper_power,
        "explained_variance": gain and gain.share,
        "false_alarm_rate": negative and negative.rate(VERDICT),
        "detectable": positive and positive.detectable["monotone", "accuracy"],
    }
    for rung in verdict.ladder[1:]:
        row |= {f"rung_{rung.number}_effect": rung.effect, f"rung_{rung.number}_p": rung.p_value}
    return row


def named_rows(verdict: Verdict) -> list[tuple[str, str]]:
    """The same for people to read."""
    row, bound = as_dict(verdict), verdict.bound

    def printed(name: str, form: Any) -> str:
        return MISSING if row[name] is None else form(row[name])

    interval = (
        "" if bound is None else f" ({percent(1 - bound.alpha)} interval {signed(bound.low)} to {signed(bound.high)})"
    )
    rows = [
        (_EFFECT, printed("primary_effect", signed) + interval),
        ("Monotone effects larger than this are excluded", printed("excluded", "{:.3f}".format)),
        (capital(TESTS["verdict"]), printed("p_value", format_p)),
        (capital(TESTS["primary"]), printed("primary_p", format_p)),
        ("The shape test", printed("shape_p", format_p)),
    ]
    for rung in verdict.ladder[1:]:
        p_value = printed(f"rung_{rung.number}_p", format_p)
        rows.append((f"Beyond {RUNGS[rung.number]}", f"{printed(f'rung_{rung.number}_effect', signed)}, {p_value}"))
    return [
        *rows,
        ("False-alarm rate on this run", printed("false_alarm_rate", lambda rate: percent(rate, 1))),
        ("Gap detected in 80 % of such runs", printed("detectable", "{:.2f}".format)),
        (capital(TESTS["paper"]), f"{printed('max_gap', '{:.3f}'.format)}, {printed('paper_p', format_p)}"),
    ]


def as_html(verdict: Verdict) -> str:
    """Chip, answer, detail, the effect on every rung with its interval, and the numbers."""
    reach = -float(ndtri(verdict.alpha / 2))
    lines = [
        Interval(f"beyond {RUNGS[rung.number]}", rung.effect - reach * rung.standard_error, rung.effect,
                 rung.effect + reach * rung.standard_error)
        for rung in verdict.ladder
        if rung.effect is not None and rung.standard_error is not None
    ]  # fmt: skip
    figure = intervals(lines, f"{_EFFECT}, {percent(1 - verdict.alpha)} intervals") if lines else ""
    said = answered(STATES[verdict.outcome], verdict.answer, verdict.detail)
    return f"{said}{figure}{table(named_rows(verdict))}"


def as_latex(verdict: Verdict) -> str:
    """The numbers as a table with booktabs rules; the answer is its caption."""
    frame = pd.DataFrame(named_rows(verdict), columns=["Quantity", "Value"])
    return to_latex(frame, caption=f"{verdict.answer}.", label="tab:verdict")
