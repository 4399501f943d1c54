"""The pages of the dashboard, in the order of the navigation. Tests walk over this list."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class PageEntry:
    """A script under `pages/`: its section and title in the navigation, and the question that it answers."""

    name: str
    section: str
    title: str
    question: str

    @property
    def script(self) -> Path:
        return ROOT / "pages" / f"{self.name}.py"

    @property
    def address(self) -> str:
        """Where the page is served; the first page is served at the root, and only there."""
        return "" if self is PAGES[0] else self.name


PAGES: tuple[PageEntry, ...] = (
    PageEntry("overview", "Browse", "Overview", "What is in this cache, and what does the protocol say about it?"),
    PageEntry("reliability", "Browse", "Reliability", "Where is this run over- or under-confident?"),
    PageEntry("mechanism", "Browse", "Mechanism", "What does routing look like across depth, samples and training?"),
    PageEntry("gap", "Test", "Matched-confidence gap", "At the same confidence, does accuracy depend on routing?"),
    PageEntry("null", "Test", "Permutation null", "Could that gap be chance?"),
    PageEntry("sweep", "Test", "Sweep", "Does it hold across seeds, models and data sets?"),
    PageEntry(
        "controls", "Test", "Controls", "Could this test detect an effect, and how often does it raise a false alarm?"
    ),
    PageEntry("bandwidth", "What-if", "Bandwidth lab", "Does any bandwidth make AR-CondCal work?"),
    PageEntry("features", "What-if", "Feature lab", "Is there a better routing scalar?"),
    PageEntry("calibrators", "What-if", "Calibrators", "Which calibrators help, and by how much?"),
    PageEntry("probes", "What-if", "Probe audit", "Does the MLP probe gain from routing, or only from being larger?"),
    PageEntry("paper", "Evidence", "Paper", "What did the paper publish, and does it add up?"),
    PageEntry("yourdata", "Evidence", "Your data", "What does the protocol say about my model?"),
)


def page_for(name: str) -> PageEntry:
    """The entry of a page by its name."""
    return next(page for page in PAGES if page.name == name)
