"""The answer of a page in at most twelve words, with its state."""

import html
from dataclasses import dataclass

from app.shell.glossary import explained
from app.shell.wording import typeset
from engine.core.notebook import State, chip


@dataclass(frozen=True)
class Headline:
    """`text` answers the page's question, without a full stop. "measured": described, where nothing is tested."""

    state: State
    text: str

    def drawn(self, sentence: str) -> str:
        """HTML of the chip, the answer and the sentence under it."""
        return (
            f'<div style="font-size:1.3rem;line-height:1.35">{chip(self.state)} '
            f"<strong>{html.escape(typeset(self.text))}.</strong></div> "
            f'<p style="font-size:1rem;line-height:1.45;margin:0.35rem 0 0">{explained(typeset(sentence))}</p>'
        )
