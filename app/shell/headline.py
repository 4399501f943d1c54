"""The answer of a page in at most twelve words, with its state."""

import html
from dataclasses import dataclass
from typing import Literal

from app.shell.glossary import explained
from app.shell.wording import typeset

State = Literal["evidence", "no_evidence", "cannot_tell", "measured"]
_CHIPS: dict[State, tuple[str, str]] = {
    "evidence": ("● evidence", "background:#0072B2;color:#FFFFFF;border-color:#0072B2"),
    "no_evidence": ("○ no evidence", ""),
    "cannot_tell": ("? cannot tell", "border-style:dashed"),
    "measured": ("▪ measured", "border-color:transparent;background:rgba(128,128,128,0.18)"),
}
"""How each state is marked; a mark and a border of its own, so that grey print tells them apart."""
_CHIP = (
    "display:inline-block;border:1.5px solid currentColor;border-radius:1em;padding:0 0.6em;margin-right:0.5em;"
    "font-size:0.9rem;font-weight:600;line-height:1.6;vertical-align:0.12em;white-space:nowrap"
)


@dataclass(frozen=True)
class Headline:
    """`text` answers the page's question, without a full stop. "measured": described, where nothing is tested."""

    state: State
    text: str

    def drawn(self, sentence: str) -> str:
        """HTML of the chip, the answer and the sentence under it."""
        words, style = _CHIPS[self.state]
        return (
            f'<div style="font-size:1.3rem;line-height:1.35"><span style="{_CHIP};{style}">{words}</span> '
            f"<strong>{html.escape(typeset(self.text))}.</strong></div> "
            f'<p style="font-size:1rem;line-height:1.45;margin:0.35rem 0 0">{explained(typeset(sentence))}</p>'
        )
