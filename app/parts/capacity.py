"""The trap of the probe audit, for lab meetings: the naive comparison alone, then one control after the other."""

from __future__ import annotations

from typing import cast

import streamlit as st

from engine.verdict.probes import STEPS, Step

_LABELS: dict[Step, str] = {
    "naive": "1 Naive comparison",
    "capacity": "2 Same capacity",
    "shuffle": "3 Shuffled routing",
}
_ORDER = list(STEPS)


def choose_step(*, presenting: bool) -> Step:
    """How much of the audit to show: all of it, unless the viewer falls into the trap.

    A presenter's clicker sends Page Down and Page Up; they move one step while presenting, and scroll otherwise.
    """
    fallen = st.toggle(
        "Fall into the trap", key="trap", bind="query-params",
        help="Shows the comparison that misleads first, then adds the controls one by one.",
    )  # fmt: skip
    if not fallen:
        return "shuffle"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        step = cast(
            Step,
            st.radio("Shown", _ORDER, format_func=_LABELS.get, key="step", bind="query-params", horizontal=True),
        )
        position = _ORDER.index(step)
        for label, move, key in (("Take a control away", -1, "PageUp"), ("Add a control", 1, "PageDown")):
            target = position + move
            st.button(
                label, key=f"trap-{key}", shortcut=key if presenting else None,
                disabled=not 0 <= target < len(_ORDER),
                on_click=_show, args=(_ORDER[max(0, min(target, len(_ORDER) - 1))],),
            )  # fmt: skip
    return step


def _show(step: Step) -> None:
    st.session_state["step"] = step
