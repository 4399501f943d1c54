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

    @property
    def line(self) -> str:
        """HTML of the chip and the answer."""
        return f"{chip(self.state)} <strong>{html.escape(typeset(self.text))}.</strong>"

    def drawn(self, sentence: str) -> str:
        """The same, larger, and the sentence under it."""
        return (
            f'<div style="font-size:1.3rem;line-height:1.35">{self.line}</div> '
            f'<p style="font-size:1rem;line-height:1.45;margin:0.35rem 0 0">{explained(typeset(sentence))}</p>'
        )
